"""Async handlers: tasks on an event loop."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from ackline.queue import StopReason
from ackline.worker.execute.daemon_thread_pool import DaemonThreadPool
from ackline.worker.execute.executor import Executor, ExecutorContext
from ackline.worker.leased_jobs import LeasedJob
from ackline.worker.timers import STOP_TIMEOUT

logger = logging.getLogger("ackline")

START_SECONDS = 0.005
"""Seconds for which new jobs are begun before the loop looks after those that run."""


def _new_task(
    coroutine: Coroutine[Any, Any, None],
    loop: asyncio.AbstractEventLoop,
    context: contextvars.Context,
) -> asyncio.Task[None]:
    """A task of a job's own; where Python can, it runs at once as far as it gets."""
    if sys.version_info >= (3, 12):
        return asyncio.Task(coroutine, loop=loop, context=context, eager_start=True)
    return loop.create_task(coroutine, context=context)


class AsyncExecutor(Executor):
    """An event loop in a thread of its own, a task for each running job."""

    def __init__(self, limit: int, setting: ExecutorContext) -> None:
        super().__init__(limit, setting)
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(DaemonThreadPool())
        self._stopped = False
        self._thread = threading.Thread(target=self._run_loop, name="ackline loop", daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self._running = 0
        self._not_yet_started = 0
        """How many of the running tasks have not taken their first step yet."""
        self._starting = False

    def start(self) -> None:
        self._thread.start()

    def submit(self, batch: Sequence[LeasedJob]) -> None:
        self._check_tracing()
        self._buffer_jobs(batch)
        self._call_soon(self._start_buffered)

    def interrupt(self, held: LeasedJob, reason: StopReason) -> None:
        held.signal.set(reason)
        self._call_soon(self._cancel, held)

    @property
    def running_count(self) -> int:
        return self._running - self._not_yet_started

    def stop(self) -> None:
        if self._thread.ident is None:
            self._loop.close()
            return
        self._call_soon(self._stop_loop)
        self._thread.join(timeout=5)

    def _call_soon(self, callback: Callable[..., None], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            # That the loop is closed is known already: it is stuck, or the worker has stopped.
            if not self._loop.is_closed():
                raise

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._run_until(lambda: self._stopped)
            ending = self._loop.create_task(self._cancel_tasks())
            ending.add_done_callback(lambda _: self._loop.stop())
            self._run_until(ending.done)
        except Exception:
            # For example, a handler has closed its selector: no job can go on here.
            self.blocked_by_hung_handlers = True
            logger.exception("the event loop of async handlers is broken")
        finally:
            self._loop.close()

    def _run_until(self, over: Callable[[], bool]) -> None:
        """Run the loop, even if a handler ends it, as by `sys.exit` in a task: others go on."""
        while not over():
            try:
                self._loop.run_forever()
            except (SystemExit, KeyboardInterrupt) as error:
                logger.exception(
                    "a task or callback that a handler began raised %s; the event loop goes on",
                    type(error).__name__,
                )
            else:
                if not over():
                    logger.error("a handler stopped the event loop of its worker; the loop goes on")

    def _stop_loop(self) -> None:
        self._stopped = True
        self._loop.stop()

    async def _cancel_tasks(self) -> None:
        """Cancel the remaining tasks: jobs, and what handlers have begun beside them."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._loop.shutdown_asyncgens()

    def _start_buffered(self) -> None:
        if self._starting:
            # Called by a job that ended within `_begin`: the loop below goes on with the next.
            return
        self._starting = True
        until = self._loop.time() + START_SECONDS
        try:
            while self._running < self.limit:
                try:
                    held = self.buffer.popleft()
                except IndexError:
                    return
                self._start_task(held)
                if self._loop.time() > until:
                    self._loop.call_soon(self._start_buffered)
                    return
        finally:
            self._starting = False

    def _start_task(self, held: LeasedJob) -> None:
        self._running += 1
        self._not_yet_started += 1
        task = held.task = _new_task(self._run(held), self._loop, self._context.copy())
        if not task.done():
            self._tasks.add(task)

    async def _run(self, held: LeasedJob) -> None:
        self._not_yet_started -= 1
        held.task_started = True
        try:
            if not self.may_start(held):
                return
            if self._started_jobs is not None:
                self._started_jobs.add(held)
            if self.hooks.before or held.policy.timeout is not None:
                self.before_handler(held)
            function = held.handler.function
            if self._spans is None:
                result = await function(held)
            else:
                result = await self._spans.run_async(
                    function, held, held.home_queue.key, held.record
                )
        except BaseException as error:
            self.end_handler(held, None, error)
        else:
            self.end_handler(held, result, None)
        finally:
            held.handler_ended = True
            if not held.given_up:
                self._running -= 1
            if held.task is not None:
                self._tasks.discard(held.task)
            if self.buffer:
                self._start_buffered()

    def give_up_on(self, held: LeasedJob) -> None:
        self._call_soon(self._give_up_on, held)
        self._timekeeper.call_later(STOP_TIMEOUT, lambda: self._check_loop_responds(held))

    def _check_loop_responds(self, held: LeasedJob) -> None:
        # If the loop has not come round to it, a handler blocks all the others.
        self.blocked_by_hung_handlers = self.blocked_by_hung_handlers or not (
            held.handler_ended or held.given_up
        )

    def _give_up_on(self, held: LeasedJob) -> None:
        if held.task is not None and not held.handler_ended and not held.given_up:
            held.given_up = True
            self._running -= 1
            self._start_buffered()

    def _cancel(self, held: LeasedJob) -> None:
        # A task that is cancelled before its first step never runs: its job would stay unsettled.
        # Once it runs, it sees for itself that it was told to stop.
        if held.task is not None and held.task_started and not held.task.done():
            held.task.cancel()
