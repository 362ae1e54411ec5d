"""Running handlers: sync ones on lanes of threads, async ones on an event loop."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from ackline import lifecycle, tracing
from ackline.lifecycle import Transition
from ackline.queue import StopReason
from ackline.worker.begun import Board
from ackline.worker.held import Held
from ackline.worker.running import (
    NO_HOOKS,
    Execution,
    HandlerTimeout,
    Hooks,
    run_after,
    transition_for,
)
from ackline.worker.timekeeper import GIVE_UP, Timekeeper

logger = logging.getLogger("ackline")

Settle = Callable[[Held, Transition], None]

STALL, BRISK = 0.002, 20
"""When in so many seconds no job was taken up, or few while the process idled, more lanes help."""

TURN = 0.005
"""Seconds for which new jobs are begun before the loop looks after those that run."""

STALE = 1.0
"""Seconds that a fetched job may wait for a free lane; then another worker may have it."""

MOST_HANGING = 4
"""So many times its limit of lanes may hang in handlers that do not stop."""


class Executor(ABC):
    """Runs up to `limit` handlers at once; the rest wait in a buffer."""

    def __init__(
        self,
        limit: int,
        settle: Settle,
        hooks: Hooks,
        timekeeper: Timekeeper,
        board: Board | None = None,
    ) -> None:
        self.limit = limit
        self._timekeeper = timekeeper
        self.hooks = hooks
        self.buffer: deque[Held] = deque()
        self._settle = settle
        self._board = board
        self._spans = tracing.spans()
        self._context = contextvars.copy_context()
        """Of which each job gets a copy: what one sets, no other sees."""
        self.stuck = False
        """Whether a handler that does not stop keeps a place which nothing can make up for."""

    @abstractmethod
    def start(self) -> None:
        """Be ready to run."""

    @abstractmethod
    def submit(self, batch: Sequence[Held]) -> None:
        """Run these, in order, as soon as there is room."""

    @abstractmethod
    def interrupt(self, held: Held, reason: StopReason) -> None:
        """Tell a handler to stop, as forcefully as its sort allows."""

    @property
    @abstractmethod
    def busy(self) -> int:
        """How many handlers run."""

    @property
    def craves(self) -> bool:
        """Whether jobs wait for the processor alone: there would be a place for them to run."""
        return bool(self.buffer) and self.busy < self.limit

    @abstractmethod
    def stop(self) -> None:
        """Let go of threads and loops; handlers that still run are left behind."""

    def _take_in(self, batch: Sequence[Held]) -> None:
        now = time.monotonic()
        for held in batch:
            held.since = now
        self.buffer.extend(batch)

    def take_unstarted(self) -> list[Held]:
        """Take back what has not begun."""
        taken: list[Held] = []
        try:
            while True:
                taken.append(self.buffer.popleft())
        except IndexError:
            return taken

    def take_stale(self) -> list[Held]:
        """Take back what has waited too long for a free lane: another worker may have one."""
        before = time.monotonic() - STALE
        stale: list[Held] = []
        try:
            while self.buffer[0].since < before:
                stale.append(self.buffer.popleft())
        except IndexError:
            pass
        return stale

    def ended(self, held: Held, result: object, error: BaseException | None) -> None:
        """A handler returned or raised: settle, unless the job is no longer ours."""
        if held.alarm is not None:
            held.alarm.call_off()
        if held.lost or held.settling:
            # What `before` hooks have opened is to be closed all the same.
            run_after(held, Execution(result, error), self.hooks)
        elif held.releasing and error is not None:
            run_after(held, Execution(result, error), self.hooks)
            self._settle(held, lifecycle.release(held.record, "the worker stopped", held.policy))
        else:
            self._settle_as(held, result, error, self.hooks)

    def _settle_as(
        self, held: Held, result: object, error: BaseException | None, hooks: Hooks
    ) -> None:
        if held.timed_out:
            error = HandlerTimeout(f"took longer than {held.policy.timeout:g} s")
        try:
            transition = transition_for(held.holder, held, held.policy, result, error, hooks)
        except BaseException as unexpected:
            # Whatever it was: a job that nobody settles would be held for ever.
            logger.exception("job %r could not be settled as its handler asked", held.id)
            transition = transition_for(held.holder, held, held.policy, None, unexpected)
        self._settle(held, transition)

    def before(self, held: Held) -> None:
        """Run the hooks, and start the job's own clock."""
        if held.policy.timeout is not None:
            held.alarm = self._timekeeper.call_later(
                held.policy.timeout, lambda: self._time_is_up(held)
            )
        for hook in self.hooks.before:
            hook(held)

    def _time_is_up(self, held: Held) -> None:
        held.timed_out = True
        held.alarm = self._timekeeper.call_later(GIVE_UP, lambda: self._abandon(held))
        self.interrupt(held, StopReason.TIMEOUT)

    def _abandon(self, held: Held) -> None:
        if not held.lost and not held.settling:
            logger.error(
                "job %r: its handler does not stop after its timeout; the attempt fails without it",
                held.id,
            )
            # Without hooks: they are for the handler's own thread, should it end one day.
            self._settle_as(held, None, None, NO_HOOKS)
        self.write_off(held)

    @abstractmethod
    def write_off(self, held: Held) -> None:
        """A handler was told to stop and may never do so: let others have its place."""


class ThreadExecutor(Executor):
    """Lanes of threads. Quick handlers share few lanes, slow ones get as many as allowed.

    Waking a thread for each job would cost more than a quick job itself. So one lane takes
    job after job, and only when it has taken none for a moment do others join in.
    """

    def __init__(
        self,
        limit: int,
        settle: Settle,
        hooks: Hooks,
        timekeeper: Timekeeper,
        board: Board | None = None,
    ) -> None:
        super().__init__(limit, settle, hooks, timekeeper, board)
        self._work = threading.Condition()
        self._idle = 0
        self._lanes = 0
        self._taken = 0
        self._hanging = 0
        self._stopped = False
        self._stalled = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._watch_stall, name="ackline lanes", daemon=True).start()

    def submit(self, batch: Sequence[Held]) -> None:
        self._take_in(batch)
        if not self._engage(1) or len(self.buffer) > 1:
            # Beyond the one job that a woken lane takes, some may get stuck behind a slow one.
            self._stalled.set()

    def interrupt(self, held: Held, reason: StopReason) -> None:
        held.signal.set(reason)

    @property
    def busy(self) -> int:
        return self._lanes - self._idle - self._hanging

    def write_off(self, held: Held) -> None:
        with self._work:
            if held.written_off or held.over:
                return
            if self._hanging >= MOST_HANGING * self.limit:
                self.stuck = True
                return
            held.written_off = True
            self._hanging += 1
        self._engage(1)

    def stop(self) -> None:
        with self._work:
            self._stopped = True
            self._work.notify_all()
        self._stalled.set()

    def _engage(self, lanes: int) -> int:
        """Have so many lanes more take up jobs; how many of them idled until now."""
        with self._work:
            woken = min(lanes, self._idle)
            self._work.notify(woken)
            for _ in range(min(lanes - woken, self.limit + self._hanging - self._lanes)):
                self._lanes += 1
                name = f"ackline lane {self._lanes}"
                threading.Thread(target=self._lane, name=name, daemon=True).start()
            return woken

    def _watch_stall(self) -> None:
        while not self._stopped:
            self._stalled.wait()
            self._stalled.clear()
            while self.buffer and not self._stopped:
                taken, busy = self._taken, time.process_time()
                time.sleep(STALL)
                taken, busy = self._taken - taken, time.process_time() - busy
                # Lanes that compute gain nothing from others beside them; those that wait do.
                if not taken or (taken < BRISK and busy < STALL / 2):
                    self._engage(len(self.buffer))

    def _lane(self) -> None:
        while not self._stopped:
            try:
                held = self.buffer.popleft()
            except IndexError:
                with self._work:
                    if not self.buffer and not self._stopped:
                        self._idle += 1
                        self._work.wait()
                        self._idle -= 1
                continue
            self._taken += 1
            self._context.copy().run(self._run, held)
            if not self._free_lane(held):
                return

    def _free_lane(self, held: Held) -> bool:
        """A handler has ended; False if this lane was replaced meanwhile and so must end."""
        if not held.written_off:
            held.over = True
            if not held.written_off:
                return True
        with self._work:
            self._hanging -= 1
            self._lanes -= 1
        return False

    def _run(self, held: Held) -> None:
        if held.lost or held.settling:
            return
        try:
            if self._board is not None:
                self._board.begin(held)
            if self.hooks.before or held.policy.timeout is not None:
                self.before(held)
            function = held.handler.function
            if self._spans is None:
                result = function(held)
            else:
                result = self._spans.run(function, held, held.holder.key, held.record)
        except BaseException as error:
            self.ended(held, None, error)
        else:
            self.ended(held, result, None)


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

    def __init__(
        self,
        limit: int,
        settle: Settle,
        hooks: Hooks,
        timekeeper: Timekeeper,
        board: Board | None = None,
    ) -> None:
        super().__init__(limit, settle, hooks, timekeeper, board)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="ackline loop", daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self._running = 0
        self._unstepped = 0
        """Of those that run, how many have not had their first moment yet."""
        self._filling = False

    def start(self) -> None:
        self._thread.start()

    def submit(self, batch: Sequence[Held]) -> None:
        self._take_in(batch)
        self._loop.call_soon_threadsafe(self._fill)

    def interrupt(self, held: Held, reason: StopReason) -> None:
        held.signal.set(reason)
        self._loop.call_soon_threadsafe(self._cancel, held)

    @property
    def busy(self) -> int:
        return self._running - self._unstepped

    def stop(self) -> None:
        if self._thread.ident is None:
            self._loop.close()
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            for task in self._tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def _fill(self) -> None:
        if self._filling:
            # A job that ended before its task was made: the loop below goes on with the next.
            return
        self._filling = True
        until = self._loop.time() + TURN
        try:
            while self._running < self.limit:
                try:
                    held = self.buffer.popleft()
                except IndexError:
                    return
                if not held.lost and not held.settling:
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
        try:
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
        self._loop.call_soon_threadsafe(self._write_off, held)
        self._timekeeper.call_later(GIVE_UP, lambda: self._require_answer(held))

    def _require_answer(self, held: Held) -> None:
        # The loop has not come round to it: a handler blocks all the others.
        self.stuck = self.stuck or not (held.over or held.written_off)

    def _write_off(self, held: Held) -> None:
        if held.task is not None and not held.over and not held.written_off:
            held.written_off = True
            self._running -= 1
            self._fill()

    def _cancel(self, held: Held) -> None:
        if held.task is not None and not held.task.done():
            held.task.cancel()
