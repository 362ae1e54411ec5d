"""Running handlers: what `lanes` for sync ones and `loop` for async ones have in common."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ackline import lifecycle, tracing
from ackline.errors import Stopped
from ackline.events import Act
from ackline.job import Failure
from ackline.lifecycle import Transition
from ackline.queue import StopReason
from ackline.worker.begun import Board
from ackline.worker.held import Held
from ackline.worker.running import (
    NO_HOOKS,
    Execution,
    HandlerTimeout,
    Hooks,
    LeaseNotKept,
    run_after,
    transition_for,
)
from ackline.worker.timekeeper import GIVE_UP, Timekeeper

logger = logging.getLogger("ackline")

Settle = Callable[[Held, Transition], None]

STALE = 1.0
"""Seconds that a fetched job may wait for a free lane; then another worker may have it."""

STOPPED = (asyncio.CancelledError, Stopped)
"""What handlers raise when they were told to stop."""

WAIT_ANYWAY = 60.0
"""Seconds before the next attempt of a job whose backoff could not be worked out."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a worker gives each of its executors."""

    settle: Settle
    hooks: Hooks
    timekeeper: Timekeeper
    before_running: Callable[[], None]
    """To be called before a job is run in the thread that claimed it: another one has to listen."""
    board: Board | None = None


def _not_kept(held: Held, error: BaseException) -> BaseException:
    """Why the handler was stopped, rather than how: a cancellation has no message of its own."""
    reason = LeaseNotKept(f"its lease could not be kept for {held.lease:g} s")
    reason.__cause__ = error
    return reason


def _failed(held: Held, error: BaseException) -> Transition:
    """The attempt failed with this error, whatever else fails: a job must not stay unsettled."""
    try:
        return transition_for(held.holder, held, held.policy, None, error)
    except Exception:
        logger.exception("job %r: its next attempt waits %g s", held.id, WAIT_ANYWAY)
        failure = Failure(act=Act.FAIL, attempt=held.attempts, type=type(error).__name__)
        random = held.holder.random
        return lifecycle.fail(held.record, failure, held.policy, random, WAIT_ANYWAY)


class Executor(ABC):
    """Runs up to `limit` handlers at once; the rest wait in a buffer."""

    def __init__(self, limit: int, setting: Setting) -> None:
        self.limit = limit
        self.hooks = setting.hooks
        self.buffer: deque[Held] = deque()
        self._settle = setting.settle
        self._timekeeper = setting.timekeeper
        self._before_running = setting.before_running
        self._board = setting.board
        self._spans: tracing.Spans | None = None
        self._context = contextvars.copy_context()
        """Each job gets a copy of it, so that no job sees what another sets."""
        self.stuck = False
        """Whether a handler that does not stop occupies a place that cannot be replaced."""

    @abstractmethod
    def start(self) -> None:
        """Be ready to run."""

    def run_alone(self, held: Held) -> bool:  # noqa: ARG002
        """Run the only job of a claim in the thread that claimed it; False if it cannot be now."""
        return False

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
    def waits_for_processor(self) -> bool:
        """Whether jobs wait for nothing but the processor: there are free places to run them."""
        return bool(self.buffer) and self.busy < self.limit

    @abstractmethod
    def stop(self) -> None:
        """Let go of threads and loops; handlers that still run are left behind."""

    def _take_in(self, batch: Sequence[Held]) -> None:
        now = time.monotonic()
        for held in batch:
            held.buffered_at = now
        self.buffer.extend(batch)

    def _see_whether_to_trace(self) -> None:
        # Each time: a program may begin to trace after its worker has started.
        self._spans = self._spans or tracing.spans()

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
            while self.buffer[0].buffered_at < before:
                stale.append(self.buffer.popleft())
        except IndexError:
            pass
        return stale

    def may_begin(self, held: Held) -> bool:
        """Whether to call a job's handler; one that was told to stop meanwhile is given back."""
        if held.lost or held.settling:
            return False
        if not held.told_to_stop:
            return True
        note = f"asked to stop before it began: {held.signal.reason}"
        self._settle(held, lifecycle.release(held.record, held.policy, note))
        return False

    def ended(self, held: Held, result: object, error: BaseException | None) -> None:
        """A handler returned or raised: settle, unless the job is no longer ours."""
        if held.alarm is not None:
            held.alarm.call_off()
        if held.lost or held.settling:
            # What `before` hooks have opened is to be closed all the same.
            run_after(held, Execution(result, error), self.hooks)
        elif held.releasing and error is not None:
            run_after(held, Execution(result, error), self.hooks)
            self._settle(held, lifecycle.release(held.record, held.policy, "the worker stopped"))
        else:
            self._settle_as(held, result, error, self.hooks)

    def _settle_as(
        self, held: Held, result: object, error: BaseException | None, hooks: Hooks
    ) -> None:
        if held.timed_out:
            error = HandlerTimeout(f"took longer than {held.policy.timeout:g} s")
        elif isinstance(error, STOPPED) and held.signal.reason is StopReason.LEASE_LOST:
            error = _not_kept(held, error)
        try:
            transition = transition_for(held.holder, held, held.policy, result, error, hooks)
        except BaseException as unexpected:
            # Whatever the error: a job that is never settled would be held for ever.
            logger.exception("job %r could not be settled as its handler asked", held.id)
            transition = _failed(held, unexpected)
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
                "job %r: its handler did not stop after its timeout; the attempt has failed",
                held.id,
            )
            # Without hooks: the handler's own thread runs them, should it end one day.
            self._settle_as(held, None, None, NO_HOOKS)
        self.write_off(held)

    @abstractmethod
    def write_off(self, held: Held) -> None:
        """Give up a handler that was told to stop and may never do so: others get its place."""
