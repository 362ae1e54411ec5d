"""Runs handlers: what the executors of sync and async ones have in common."""

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
from ackline.core.outcome import RaisableOutcome
from ackline.queue import StopReason, tracing
from ackline.worker.handler_outcome import HandlerTimeout, LeaseNotKept, transition_for
from ackline.worker.hooks import NO_HOOKS, Execution, Hooks, run_after_hooks
from ackline.worker.leased_jobs import COMPLETE, LeasedJob
from ackline.worker.processes.started_jobs import StartedJobsWriter
from ackline.worker.timers import STOP_TIMEOUT, Timers

logger = logging.getLogger("ackline")

Settle = Callable[[LeasedJob, Transition], None]

MAX_BUFFERED_SECONDS = 1.0
"""Seconds that a job may wait for a free slot before it is released to other workers."""

STOP_ERRORS = (asyncio.CancelledError, Stopped)
"""What interrupted handlers raise."""

FALLBACK_DELAY = 60.0
"""Seconds before the next attempt of a job whose backoff failed."""


@dataclass(frozen=True, slots=True)
class ExecutorContext:
    """What a worker gives each of its executors."""

    settle: Settle
    hooks: Hooks
    timers: Timers
    before_inline_run: Callable[[], None]
    """Called before a job is run in the thread that claimed it: another thread has to listen."""
    started_jobs: StartedJobsWriter | None = None
    measures_runs: Callable[[], bool] = lambda: False
    """Whether somebody wants to know how long completed jobs took."""


def _lease_not_kept(job: LeasedJob, error: BaseException) -> BaseException:
    """Why the handler was stopped, rather than how: a cancellation has no message of its own."""
    reason = LeaseNotKept(f"its lease could not be kept for {job.lease:g} s")
    reason.__cause__ = error
    return reason


def _fail_with(job: LeasedJob, error: BaseException) -> Transition:
    """Fail the attempt with this error, whatever else fails: a job must not stay unsettled."""
    try:
        return transition_for(job.owning_queue, job, job.policy, None, error)
    except Exception:
        logger.exception("job %r: its backoff failed; next attempt in %g s", job.id, FALLBACK_DELAY)
        failure = Failure(act=Act.FAIL, attempt=job.attempt, type=type(error).__name__)
        random = job.owning_queue.random
        return lifecycle.fail(job.record, failure, job.policy, random, FALLBACK_DELAY)


class Executor(ABC):
    """Runs up to `limit` handlers at once; other jobs wait in a buffer."""

    def __init__(self, limit: int, context: ExecutorContext) -> None:
        self.limit = limit
        self.hooks = context.hooks
        self.buffer: deque[LeasedJob] = deque()
        self._settle = context.settle
        self._measures_runs = context.measures_runs
        self._measures_completed = False
        self._timers = context.timers
        self._before_inline_run = context.before_inline_run
        self._started_jobs = context.started_jobs
        self._spans: tracing.HandlerSpans | None = None
        self._context = contextvars.copy_context()
        """Each job runs in a copy of it, so that no job sees what another sets."""

    @property
    @abstractmethod
    def blocked_by_hung_handlers(self) -> bool:
        """Whether a handler that does not stop occupies a slot that cannot be replaced."""

    @abstractmethod
    def start(self) -> None:
        """Start threads."""

    def run_inline(self, job: LeasedJob) -> bool:  # noqa: ARG002
        """Run the only job of a claim in the thread that claimed it; False if it cannot be."""
        return False

    @abstractmethod
    def submit(self, batch: Sequence[LeasedJob]) -> None:
        """Run these jobs, in order, as soon as slots are free."""

    @abstractmethod
    def interrupt(self, job: LeasedJob, reason: StopReason) -> None:
        """Tell a handler to stop: set its signal, and cancel it if it is a task."""

    @property
    @abstractmethod
    def running_count(self) -> int:
        """How many handlers are running."""

    @property
    def waits_for_cpu(self) -> bool:
        """Whether jobs wait only for the CPU: there are free slots to run them."""
        return bool(self.buffer) and self.running_count < self.limit

    @abstractmethod
    def stop(self) -> None:
        """Stop threads and loops; handlers that are still running are left behind."""

    def _buffer_jobs(self, batch: Sequence[LeasedJob]) -> None:
        now = time.monotonic()
        for job in batch:
            job.buffered_at = now
        self.buffer.extend(batch)

    def _check_observers(self) -> None:
        # Each time: a program may start tracing, or change a log level, after the worker's start.
        self._spans = self._spans or tracing.handler_spans()
        self._measures_completed = self._measures_runs()

    def take_buffered(self) -> list[LeasedJob]:
        """Remove and return the buffered jobs."""
        taken: list[LeasedJob] = []
        try:
            while True:
                taken.append(self.buffer.popleft())
        except IndexError:
            return taken

    def take_stale(self) -> list[LeasedJob]:
        """Remove and return jobs that have waited too long: another worker may have a free slot."""
        before = time.monotonic() - MAX_BUFFERED_SECONDS
        stale: list[LeasedJob] = []
        try:
            while self.buffer[0].buffered_at < before:
                stale.append(self.buffer.popleft())
        except IndexError:
            pass
        return stale

    def may_start(self, job: LeasedJob) -> bool:
        """Whether to call a job's handler; a job that was interrupted meanwhile is released."""
        if job.lost or job.settling:
            return False
        if not job.stop_requested:
            return True
        note = f"stopped before it started: {job.signal.reason}"
        self._settle(job, lifecycle.release(job.record, job.policy, note))
        return False

    def end_handler(self, job: LeasedJob, result: object, error: BaseException | None) -> None:
        """Settle a job whose handler returned or raised, unless it is no longer ours."""
        if job.timeout_timer is not None:
            job.timeout_timer.cancel()
        if isinstance(error, RaisableOutcome):
            result, error = error, None
        if job.lost or job.settling:
            # What `before` hooks have opened must be closed all the same.
            self._run_after_hooks(job, result, error)
        elif job.release_requested and error is not None:
            self._run_after_hooks(job, result, error)
            self._settle(job, lifecycle.release(job.record, job.policy, "the worker stopped"))
        else:
            self._settle_as(job, result, error, self.hooks)

    def _run_after_hooks(self, job: LeasedJob, result: object, error: BaseException | None) -> None:
        """Run the hooks of a job whose outcome they cannot change."""
        if hook_error := run_after_hooks(job, Execution(result, error), self.hooks):
            logger.error("job %r: an after hook failed", job.id, exc_info=hook_error)

    def _settle_as(
        self, job: LeasedJob, result: object, error: BaseException | None, hooks: Hooks
    ) -> None:
        if job.timed_out:
            error = HandlerTimeout(f"took longer than {job.policy.timeout:g} s")
        elif isinstance(error, STOP_ERRORS) and job.signal.reason is StopReason.LEASE_LOST:
            error = _lease_not_kept(job, error)
        try:
            transition = transition_for(job.owning_queue, job, job.policy, result, error, hooks)
        except BaseException as unexpected:
            # Whatever the error: a job that is never settled would stay leased forever.
            transition = _fail_with(job, unexpected)
        if job.run_started and (self._measures_completed or transition.act is not COMPLETE):
            job.run_seconds = time.monotonic() - job.run_started
        self._settle(job, transition)

    def before_handler(self, job: LeasedJob) -> None:
        """Start the timeout, and run the `before` hooks."""
        if job.policy.timeout is not None:
            job.timeout_timer = self._timers.call_later(
                job.policy.timeout, lambda: self._on_timeout(job)
            )
        for hook in self.hooks.before:
            hook(job)

    def _on_timeout(self, job: LeasedJob) -> None:
        job.timed_out = True
        job.timeout_timer = self._timers.call_later(STOP_TIMEOUT, lambda: self._settle_hung(job))
        self.interrupt(job, StopReason.TIMEOUT)

    def _settle_hung(self, job: LeasedJob) -> None:
        if not job.lost and not job.settling:
            logger.warning("job %r: its handler did not stop after its timeout", job.id)
            # Without hooks: the handler's own thread runs them if it ever ends.
            self._settle_as(job, None, None, NO_HOOKS)
        self.give_up_on(job)

    @abstractmethod
    def give_up_on(self, job: LeasedJob) -> None:
        """Give up on an interrupted handler that may never stop: another job gets its slot."""
