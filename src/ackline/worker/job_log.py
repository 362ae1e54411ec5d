"""The log of a worker's jobs: what failed, with what comes next; with DEBUG, every job.

Formatting tracebacks is slow, so a flood of failures is cut: each second, the first lines are
logged in full, and one line says how many more there were. A line is logged when the store has
accepted the outcome, so that each arrival in the DLQ is logged once.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ackline.core.events import Act
from ackline.core.job import QueueKey, State
from ackline.core.lifecycle import Transition, Verdict, journal_note
from ackline.core.outcome import Retry
from ackline.queue.job_log import (
    DEAD_LETTERED,
    JOB,
    RETRIED,
    RETRY_REQUESTED,
    fields,
    logger,
    names,
    one_line,
    reason_of,
)
from ackline.worker.handler_outcome import NotCommitted

if TYPE_CHECKING:
    from ackline.worker.leased_jobs import LeasedJob

main_logger = logging.getLogger("ackline")

MAX_LINES = 100
"""Lines that are logged per second, queue and level; there is no limit for DEBUG."""

LOST = "lost"
"""The outcome of a job whose lease was lost: what its handler returned does not count."""


class JobLog:
    """Logs the jobs that a worker runs for one queue, unless it is turned off."""

    def __init__(self, key: QueueKey, worker: str, *, enabled: bool = True) -> None:
        self._key = key
        self._worker = worker
        self._enabled = enabled
        self._lock = threading.Lock()
        self._second = 0.0
        self._lines: dict[int, int] = {}
        """How many lines there were in this second, by level, with those that were cut."""

    @property
    def logs_completed(self) -> bool:
        """Whether completed jobs are logged, too."""
        return self._enabled and logger.isEnabledFor(logging.DEBUG)

    def settled(self, job: LeasedJob, transition: Transition, verdict: Verdict) -> None:
        """Log the store's answer to an outcome."""
        if not self._enabled:
            return
        with self._reporting_failure():
            if job.settled_in_transaction:
                self._settled_in_transaction(job, transition, verdict)
            elif not verdict.applied:
                self.lost(
                    job, f"{transition.act} was rejected, it is {verdict.state or 'gone'} now"
                )
            elif transition.act is Act.FAIL and verdict.state is not State.CANCELLED:
                self._failed(job, transition)
            else:
                self._ended(job, transition, verdict)

    def lost(self, job: LeasedJob, how: str) -> None:
        """Log that the lease of a job was lost."""
        with self._reporting_failure():
            if self._may_log(logging.ERROR):
                self._log(logging.ERROR, job, LOST, f"{JOB}: its lease was lost: %s", how)

    @contextlib.contextmanager
    def _reporting_failure(self) -> Iterator[None]:
        """Go on if a filter or record factory of the program fails: the jobs count all the same."""
        try:
            yield
        except Exception:
            main_logger.exception("queue %s: the job log failed", self._key)

    def log_omitted(self) -> None:
        """Log how many lines were cut in a second that is over."""
        now = time.monotonic()
        with self._lock:
            if now < self._second + 1:
                return
            lines, self._lines, self._second = self._lines, {}, now
        for level, number in lines.items():
            if number > MAX_LINES:
                more = number - MAX_LINES
                logger.log(
                    level, "queue %s: … and %s more in the same second", self._key, f"{more:,}"
                )

    def _failed(self, job: LeasedJob, transition: Transition) -> None:
        failure, attempts, state = transition.failure, job.policy.max_attempts, transition.to
        if failure is None or state is None:
            return
        # Without an exception, this is the outcome; a handler's own exception may be called so.
        requested = failure.type == Retry.__name__ and job.exception is None
        if state is State.FAILED:
            level = logging.ERROR
        else:
            level = logging.INFO if requested else logging.WARNING
        if not self._may_log(level):
            return
        wait = f"in {_format_seconds(transition.delay)}" if transition.delay else "now"
        following = (job.attempt + 1, attempts)
        if state is State.FAILED:
            arguments = (job.attempt, attempts, reason_of(failure))
            self._log(level, job, state, DEAD_LETTERED, *arguments, error=job.exception)
        elif requested:
            reason = one_line(failure.message)
            self._log(level, job, state, RETRY_REQUESTED, wait, reason, *following)
        else:
            self._log(level, job, state, RETRIED, reason_of(failure), wait, *following)

    def _ended(self, job: LeasedJob, transition: Transition, verdict: Verdict) -> None:
        if not self._may_log(logging.DEBUG):
            return
        # Not always as in the verdict: applied by an earlier call, the job may have gone on since.
        state = State.CANCELLED if verdict.state is State.CANCELLED else transition.to
        took = "" if job.run_seconds is None else f" in {job.run_seconds * 1000:,.0f} ms"
        note = " ".join(journal_note(transition).split())
        text = f"{JOB}: attempt %d ended as %s%s%s"
        arguments = (job.attempt, state, took, f" ({note})" if note else "")
        self._log(logging.DEBUG, job, str(state), text, *arguments)

    def _settled_in_transaction(
        self, job: LeasedJob, transition: Transition, verdict: Verdict
    ) -> None:
        """Log how a job ended that was settled in a transaction: once committed, that one wins."""
        if verdict.applied and job.settled_in_transaction is transition.act:
            # Both transitions are the same act, so it does not matter which one was applied.
            explanation = "it failed in its transaction, or that was rolled back"
        elif verdict.applied:
            explanation = "its transaction was rolled back"
        elif verdict.state is State.PROCESSING:
            explanation = "its transaction is still open, or its lease was lost; its lease decides"
        elif transition.failure is not None and transition.failure.type != NotCommitted.__name__:
            explanation = "its handler failed after it was settled"
        else:
            explanation = ""
        dead = verdict.state is State.FAILED and job.settled_in_transaction is Act.FAIL
        level, where = (logging.ERROR, " is in the DLQ") if dead else (logging.WARNING, "")
        if (explanation or dead) and self._may_log(level):
            reason = " ".join((journal_note(transition) or transition.act).split())
            explanation = explanation or "it failed in its transaction"
            state, text = verdict.state or LOST, f"{JOB}%s: %s (%s)"
            self._log(level, job, state, text, where, explanation, reason, error=job.exception)

    def _may_log(self, level: int) -> bool:
        if not self._enabled or not logger.isEnabledFor(level):
            return False
        if level <= logging.DEBUG:
            return True
        self.log_omitted()
        with self._lock:
            number = self._lines[level] = self._lines.get(level, 0) + 1
        return number <= MAX_LINES

    def _log(
        self,
        level: int,
        job: LeasedJob,
        outcome: str,
        text: str,
        *arguments: object,
        error: BaseException | None = None,
    ) -> None:
        extra = fields(self._key, job.record, str(outcome), self._worker, job.run_seconds)
        arguments = (*names(self._key, job.record), *arguments)
        logger.log(level, text, *arguments, exc_info=error, extra=extra)


def _format_seconds(seconds: float) -> str:
    """A delay for people.

    >>> _format_seconds(5.0), _format_seconds(0.25), _format_seconds(1234.5)
    ('5 s', '0.25 s', '1,234 s')
    """
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
