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
from ackline.worker.blocking import BlockingCalls
from ackline.worker.executor import Executor, Setting
from ackline.worker.held import Held
from ackline.worker.timekeeper import GIVE_UP

logger = logging.getLogger("ackline")

TURN = 0.005
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


class LoopExecutor(Executor):
    """An event loop in a thread of its own, a task for each running job."""

    def __init__(self, limit: int, setting: Setting) -> None:
        super().__init__(limit, setting)
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(BlockingCalls())
        self._over = False
        self._thread = threading.Thread(target=self._serve, name="ackline loop", daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self._running = 0
        self._unstepped = 0
        """How many of the running tasks have not taken their first step yet."""
        self._filling = False

    def start(self) -> None:
        self._thread.start()

    def submit(self, batch: Sequence[Held]) -> None:
        self._see_whether_to_trace()
        self._take_in(batch)
        self._call_soon(self._fill)

    def interrupt(self, held: Held, reason: StopReason) -> None:
        held.signal.set(reason)
        self._call_soon(self._cancel, held)

    @property
    def busy(self) -> int:
        return self._running - self._unstepped

    def stop(self) -> None:
        if self._thread.ident is None:
            self._loop.close()
            return
        self._call_soon(self._end)
        self._thread.join(timeout=5)

    def _call_soon(self, callback: Callable[..., None], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            # That the loop is closed is known already: it is stuck, or the worker has stopped.
            if not self._loop.is_closed():
                raise

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._run_until(lambda: self._over)
            ending = self._loop.create_task(self._end_tasks())
            ending.add_done_callback(lambda _: self._loop.stop())
            self._run_until(ending.done)
        except Exception:
            # For example, a handler has closed its selector: no job can go on here.
            self.stuck = True
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

    def _end(self) -> None:
        self._over = True
        self._loop.stop()

    async def _end_tasks(self) -> None:
        """Cancel the remaining tasks: jobs, and what handlers have begun beside them."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._loop.shutdown_asyncgens()

    def _fill(self) -> None:
        if self._filling:
            # Called by a job that ended within `_begin`: the loop below goes on with the next.
            return
        self._filling = True
        until = self._loop.time() + TURN
        try:
            while self._running < self.limit:
                try:
                    held = self.buffer.popleft()
                except IndexError:
                    return
                self._begin(held)
                if self._loop.time() > until:
                    self._loop.call_soon(self._fill)
                    return
        finally:
            self._filling = False

    def _begin(self, held: Held) -> None:
        self._running += 1
        self._unstepped += 1
        task = held.task = _new_task(self._run(held), self._loop, self._context.copy())
        if not task.done():
            self._tasks.add(task)

    async def _run(self, held: Held) -> None:
        self._unstepped -= 1
        held.stepped = True
        try:
            if not self.may_begin(held):
                return
            if self._board is not None:
                self._board.begin(held)
            if self.hooks.before or held.policy.timeout is not None:
                self.before(held)
            function = held.handler.function
            if self._spans is None:
                result = await function(held)
            else:
                result = await self._spans.run_async(function, held, held.holder.key, held.record)
        except BaseException as error:
            self.ended(held, None, error)
        else:
            self.ended(held, result, None)
        finally:
            held.over = True
            if not held.written_off:
                self._running -= 1
            if held.task is not None:
                self._tasks.discard(held.task)
            if self.buffer:
                self._fill()

    def write_off(self, held: Held) -> None:
        self._call_soon(self._write_off, held)
        self._timekeeper.call_later(GIVE_UP, lambda: self._require_answer(held))

    def _require_answer(self, held: Held) -> None:
        # If the loop has not come round to it, a handler blocks all the others.
        self.stuck = self.stuck or not (held.over or held.written_off)

    def _write_off(self, held: Held) -> None:
        if held.task is not None and not held.over and not held.written_off:
            held.written_off = True
            self._running -= 1
            self._fill()

    def _cancel(self, held: Held) -> None:
        # A task that is cancelled before its first step never runs: its job would stay unsettled.
        # Once it runs, it sees for itself that it was told to stop.
        if held.task is not None and held.stepped and not held.task.done():
            held.task.cancel()
