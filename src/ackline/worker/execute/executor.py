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

from ackline.core import lifecycle
from ackline.core.errors import Stopped
from ackline.core.events import Act
from ackline.core.job import Failure
from ackline.core.lifecycle import Transition
from ackline.queue import StopReason, tracing
from ackline.worker.handler_outcome import HandlerTimeout, LeaseNotKept, transition_for
from ackline.worker.hooks import NO_HOOKS, Execution, Hooks, run_after_hooks
from ackline.worker.leased_jobs import LeasedJob
from ackline.worker.processes.started_jobs import StartedJobsWriter
from ackline.worker.timers import STOP_TIMEOUT, Timers

logger = logging.getLogger("ackline")

Settle = Callable[[LeasedJob, Transition], None]

MAX_BUFFERED_SECONDS = 1.0
"""Seconds that a fetched job may wait for a free lane; then another worker may have it."""

STOP_ERRORS = (asyncio.CancelledError, Stopped)
"""What handlers raise when they were told to stop."""

FALLBACK_DELAY = 60.0
"""Seconds before the next attempt of a job whose backoff could not be worked out."""


@dataclass(frozen=True, slots=True)
class ExecutorContext:
    """What a worker gives each of its executors."""

    settle: Settle
    hooks: Hooks
    timers: Timers
    before_inline_run: Callable[[], None]
    """To be called before a job is run in the thread that claimed it: another one has to listen."""
    started_jobs: StartedJobsWriter | None = None


def _lease_not_kept(held: LeasedJob, error: BaseException) -> BaseException:
    """Why the handler was stopped, rather than how: a cancellation has no message of its own."""
    reason = LeaseNotKept(f"its lease could not be kept for {held.lease:g} s")
    reason.__cause__ = error
    return reason


def _fail_anyway(held: LeasedJob, error: BaseException) -> Transition:
    """The attempt failed with this error, whatever else fails: a job must not stay unsettled."""
    try:
        return transition_for(held.home_queue, held, held.policy, None, error)
    except Exception:
        logger.exception("job %r: its next attempt waits %g s", held.id, FALLBACK_DELAY)
        failure = Failure(act=Act.FAIL, attempt=held.attempts, type=type(error).__name__)
        random = held.home_queue.random
        return lifecycle.fail(held.record, failure, held.policy, random, FALLBACK_DELAY)


class Executor(ABC):
    """Runs up to `limit` handlers at once; the rest wait in a buffer."""

    def __init__(self, limit: int, setting: ExecutorContext) -> None:
        self.limit = limit
        self.hooks = setting.hooks
        self.buffer: deque[LeasedJob] = deque()
        self._settle = setting.settle
        self._timekeeper = setting.timers
        self._before_running = setting.before_inline_run
        self._started_jobs = setting.started_jobs
        self._spans: tracing.HandlerSpans | None = None
        self._context = contextvars.copy_context()
        """Each job gets a copy of it, so that no job sees what another sets."""
        self.blocked_by_hung_handlers = False
        """Whether a handler that does not stop occupies a place that cannot be replaced."""

    @abstractmethod
    def start(self) -> None:
        """Be ready to run."""

    def run_inline(self, held: LeasedJob) -> bool:  # noqa: ARG002
        """Run the only job of a claim in the thread that claimed it; False if it cannot be now."""
        return False

    @abstractmethod
    def submit(self, batch: Sequence[LeasedJob]) -> None:
        """Run these, in order, as soon as there is room."""

    @abstractmethod
    def interrupt(self, held: LeasedJob, reason: StopReason) -> None:
        """Tell a handler to stop, as forcefully as its sort allows."""

    @property
    @abstractmethod
    def running_count(self) -> int:
        """How many handlers run."""

    @property
    def waits_for_cpu(self) -> bool:
        """Whether jobs wait for nothing but the processor: there are free places to run them."""
        return bool(self.buffer) and self.running_count < self.limit

    @abstractmethod
    def stop(self) -> None:
        """Let go of threads and loops; handlers that still run are left behind."""

    def _buffer_jobs(self, batch: Sequence[LeasedJob]) -> None:
        now = time.monotonic()
        for held in batch:
            held.buffered_at = now
        self.buffer.extend(batch)

    def _check_tracing(self) -> None:
        # Each time: a program may begin to trace after its worker has started.
        self._spans = self._spans or tracing.handler_spans()

    def take_buffered(self) -> list[LeasedJob]:
        """Take back what has not begun."""
        taken: list[LeasedJob] = []
        try:
            while True:
                taken.append(self.buffer.popleft())
        except IndexError:
            return taken

    def take_stale(self) -> list[LeasedJob]:
        """Take back what has waited too long for a free lane: another worker may have one."""
        before = time.monotonic() - MAX_BUFFERED_SECONDS
        stale: list[LeasedJob] = []
        try:
            while self.buffer[0].buffered_at < before:
                stale.append(self.buffer.popleft())
        except IndexError:
            pass
        return stale

    def may_start(self, held: LeasedJob) -> bool:
        """Whether to call a job's handler; one that was told to stop meanwhile is given back."""
        if held.lost or held.settling:
            return False
        if not held.stop_requested:
            return True
        note = f"asked to stop before it began: {held.signal.reason}"
        self._settle(held, lifecycle.release(held.record, held.policy, note))
        return False

    def end_handler(self, held: LeasedJob, result: object, error: BaseException | None) -> None:
        """A handler returned or raised: settle, unless the job is no longer ours."""
        if held.timeout_timer is not None:
            held.timeout_timer.cancel()
        if held.lost or held.settling:
            # What `before` hooks have opened is to be closed all the same.
            run_after_hooks(held, Execution(result, error), self.hooks)
        elif held.release_requested and error is not None:
            run_after_hooks(held, Execution(result, error), self.hooks)
            self._settle(held, lifecycle.release(held.record, held.policy, "the worker stopped"))
        else:
            self._settle_as(held, result, error, self.hooks)

    def _settle_as(
        self, held: LeasedJob, result: object, error: BaseException | None, hooks: Hooks
    ) -> None:
        if held.timed_out:
            error = HandlerTimeout(f"took longer than {held.policy.timeout:g} s")
        elif isinstance(error, STOP_ERRORS) and held.signal.reason is StopReason.LEASE_LOST:
            error = _lease_not_kept(held, error)
        try:
            transition = transition_for(held.home_queue, held, held.policy, result, error, hooks)
        except BaseException as unexpected:
            # Whatever the error: a job that is never settled would be held for ever.
            logger.exception("job %r could not be settled as its handler asked", held.id)
            transition = _fail_anyway(held, unexpected)
        self._settle(held, transition)

    def before_handler(self, held: LeasedJob) -> None:
        """Run the hooks, and start the job's own clock."""
        if held.policy.timeout is not None:
            held.timeout_timer = self._timekeeper.call_later(
                held.policy.timeout, lambda: self._on_timeout(held)
            )
        for hook in self.hooks.before:
            hook(held)

    def _on_timeout(self, held: LeasedJob) -> None:
        held.timed_out = True
        held.timeout_timer = self._timekeeper.call_later(
            STOP_TIMEOUT, lambda: self._settle_hung(held)
        )
        self.interrupt(held, StopReason.TIMEOUT)

    def _settle_hung(self, held: LeasedJob) -> None:
        if not held.lost and not held.settling:
            logger.error(
                "job %r: its handler did not stop after its timeout; the attempt has failed",
                held.id,
            )
            # Without hooks: the handler's own thread runs them, should it end one day.
            self._settle_as(held, None, None, NO_HOOKS)
        self.give_up_on(held)

    @abstractmethod
    def give_up_on(self, held: LeasedJob) -> None:
        """Give up a handler that was told to stop and may never do so: others get its place."""
