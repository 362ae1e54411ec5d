"""Log lines about jobs: a sentence for people, with the same fields for programs.

They go to the logger `ackline.jobs`. Payloads and results are never logged.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from ackline.core.job import Failure, QueueKey, Record, State
from ackline.core.lifecycle import MAX_FAILURE_NOTE, Transition, Verdict
from ackline.logs import escape_control_characters
from ackline.queue.policies import Policies

logger = logging.getLogger("ackline.jobs")

JOB = "job %r (%s, queue %s)"
RETRIED = f"{JOB} failed: %s; next attempt %s (%d of %d)"
RETRY_REQUESTED = f"{JOB} asked to be retried %s: %s (%d of %d)"
DEAD_LETTERED = f"{JOB} is in the DLQ after attempt %d of %d: %s"

MAX_EXPIRED = 20
"""Expired jobs that run again and get a line each, of those that are expired together."""


def names(key: QueueKey, job: Record) -> tuple[str, str, str]:
    """The arguments of `JOB`."""
    return job.id, escape_control_characters(job.kind), escape_control_characters(str(key))


def fields(
    key: QueueKey, job: Record, outcome: str, worker: str, duration: float | None = None
) -> Mapping[str, object]:
    """The fields of a line, as `extra`; `outcome` is the state that followed, or `lost`."""
    return {
        "job": job.id,
        "kind": job.kind,
        "queue": str(key),
        "attempt": job.attempts,
        "duration": duration,
        "worker": worker,
        "outcome": outcome,
    }


def reason_of(failure: Failure) -> str:
    """Why an attempt failed, in one short line."""
    return one_line(f"{failure.type}: {failure.message}").rstrip(":")


def one_line(text: str) -> str:
    """The beginning of a text from a handler, fit for a line of the log."""
    return escape_control_characters(" ".join(text[:MAX_FAILURE_NOTE].split()))


def log_expired(
    key: QueueKey,
    jobs: Sequence[Record],
    transitions: Sequence[Transition],
    verdicts: Sequence[Verdict],
    policies: Policies,
) -> None:
    """Log the jobs whose leases have expired: those in the DLQ as errors."""
    retried = 0
    for job, transition, verdict in zip(jobs, transitions, verdicts, strict=True):
        failure, state = transition.failure, transition.to
        if not verdict.applied or failure is None or verdict.state is State.CANCELLED:
            continue
        attempts = policies.last_known(job).max_attempts  # this reads nothing, so it cannot fail
        extra = fields(key, job, str(state), job.worker)
        if state is State.FAILED:
            spent = (job.attempts, attempts)
            logger.error(DEAD_LETTERED, *names(key, job), *spent, failure.message, extra=extra)
        elif state is State.QUEUED:
            retried += 1
            if retried <= MAX_EXPIRED:
                following = ("now", job.attempts + 1, attempts)
                logger.warning(RETRIED, *names(key, job), failure.message, *following, extra=extra)
    if retried > MAX_EXPIRED:
        logger.warning("queue %s: … and %d more leases expired", key, retried - MAX_EXPIRED)
