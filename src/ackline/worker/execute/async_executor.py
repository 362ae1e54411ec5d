"""Runs async handlers as tasks of the worker's event loop."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import time
from collections.abc import Coroutine, Sequence
from typing import Any

from ackline.queue import StopReason
from ackline.worker.execute.executor import Executor, ExecutorContext
from ackline.worker.execute.handler_loop import HandlerLoop
from ackline.worker.leased_jobs import LeasedJob
from ackline.worker.timers import STOP_TIMEOUT

START_SECONDS = 0.005
"""Seconds for which new jobs are started before the loop runs those that are waiting."""


def _new_task(
    coroutine: Coroutine[Any, Any, None],
    loop: asyncio.AbstractEventLoop,
    context: contextvars.Context,
) -> asyncio.Task[None]:
    """Create a task; on Python 3.12 and later it starts to run immediately."""
    if sys.version_info >= (3, 12):
        return asyncio.Task(coroutine, loop=loop, context=context, eager_start=True)
    return loop.create_task(coroutine, context=context)


class AsyncExecutor(Executor):
    """Runs each job as a task on the worker's event loop."""

    def __init__(self, limit: int, context: ExecutorContext, handler_loop: HandlerLoop) -> None:
        super().__init__(limit, context)
        self._handler_loop = handler_loop
        self._loop = handler_loop.loop
        self._call_soon = handler_loop.call_soon
        self._tasks: set[asyncio.Task[None]] = set()
        self._running = 0
        self._not_yet_started = 0
        """How many of the running tasks have not started to run yet."""
        self._starting = False
        self._hung = False
        """Whether a handler has blocked the loop for longer than it may."""

    def start(self) -> None:
        """The worker starts the loop, which all its async executors share."""

    def submit(self, batch: Sequence[LeasedJob]) -> None:
        self._check_observers()
        self._buffer_jobs(batch)
        self._call_soon(self._start_buffered)

    def interrupt(self, job: LeasedJob, reason: StopReason) -> None:
        job.signal.set(reason)
        self._call_soon(self._cancel, job)

    @property
    def running_count(self) -> int:
        return self._running - self._not_yet_started

    @property
    def blocked_by_hung_handlers(self) -> bool:
        return self._hung or self._handler_loop.broken

    def stop(self) -> None:
        self._call_soon(self._cancel_all)

    def _cancel_all(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _start_buffered(self) -> None:
        if self._starting:
            # Called by a job that ended within `_start_task`: the loop below starts the next.
            return
        self._starting = True
        until = self._loop.time() + START_SECONDS
        try:
            while self._running < self.limit:
                try:
                    job = self.buffer.popleft()
                except IndexError:
                    return
                self._start_task(job)
                if self._loop.time() > until:
                    self._loop.call_soon(self._start_buffered)
                    return
        finally:
            self._starting = False

    def _start_task(self, job: LeasedJob) -> None:
        self._running += 1
        self._not_yet_started += 1
        task = job.task = _new_task(self._run(job), self._loop, self._context.copy())
        if not task.done():
            self._tasks.add(task)

    async def _run(self, job: LeasedJob) -> None:
        self._not_yet_started -= 1
        job.task_started = True
        try:
            if not self.may_start(job):
                return
            if self._started_jobs is not None:
                self._started_jobs.add(job)
            job.run_started = time.monotonic()
            if self.hooks.before or job.policy.timeout is not None:
                self.before_handler(job)
            function = job.handler.function
            if self._spans is None:
                result = await function(job)
            else:
                result = await self._spans.run_async(
                    function, job, job.owning_queue.key, job.record
                )
        except BaseException as error:
            self.end_handler(job, None, error)
        else:
            self.end_handler(job, result, None)
        finally:
            job.handler_ended = True
            if not job.given_up:
                self._running -= 1
            if job.task is not None:
                self._tasks.discard(job.task)
            if self.buffer:
                self._start_buffered()

    def give_up_on(self, job: LeasedJob) -> None:
        self._call_soon(self._give_up_on, job)
        self._timers.call_later(STOP_TIMEOUT, lambda: self._check_loop_responds(job))

    def _check_loop_responds(self, job: LeasedJob) -> None:
        # If the loop has not run `_give_up_on` by now, a handler blocks all the others.
        self._hung = self._hung or not (job.handler_ended or job.given_up)

    def _give_up_on(self, job: LeasedJob) -> None:
        if job.task is not None and not job.handler_ended and not job.given_up:
            job.given_up = True
            self._running -= 1
            self._start_buffered()

    def _cancel(self, job: LeasedJob) -> None:
        # A task that is cancelled before it starts never runs: its job would stay unsettled.
        # Once it runs, `may_start` sees that it was interrupted.
        if job.task is not None and job.task_started and not job.task.done():
            job.task.cancel()
