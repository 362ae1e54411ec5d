"""All transitions that the token of a lease must fence."""

from __future__ import annotations

import random
from collections.abc import Callable

from ackline.core.config import ResolvedPolicy
from ackline.core.events import Act
from ackline.core.job import Failure, Record
from ackline.core.lifecycle import (
    Transition,
    bury,
    cancel_running,
    complete,
    expire,
    extend,
    fail,
    progress,
    release,
    snooze,
)

MakeTransition = Callable[[Record], Transition]


def failure_of(job: Record) -> Failure:
    """A failure of an attempt, for a test."""
    return Failure(act=Act.FAIL, attempt=job.attempts, type="E", message=f"of {job.worker}")


def fenced_transitions(
    policy_of: Callable[[Record], ResolvedPolicy],
    *,
    snoozed: float,
    extended: float,
    failure: Callable[[Record], Failure] = failure_of,
) -> dict[str, MakeTransition]:
    """The transitions by name, decided by a policy; `complete` and `fail` have two variants."""
    return {
        "complete": lambda job: complete(job, b"1", policy_of(job)),
        "complete otherwise": lambda job: complete(job, None, policy_of(job)),
        "fail": lambda job: fail(job, failure(job), policy_of(job), random.Random(0)),
        "fail at once": lambda job: fail(job, failure(job), policy_of(job), random.Random(0), 0.0),
        "bury": lambda job: bury(job, failure(job), policy_of(job)),
        "snooze": lambda job: snooze(job, snoozed, policy_of(job)),
        "release": lambda job: release(job, policy_of(job)),
        "stop": lambda job: cancel_running(job, "no longer wanted", policy_of(job)),
        "extend": lambda job: extend(job, extended),
        "progress": lambda job: progress(job, b"half"),
        "expire": lambda job: expire(job, policy_of(job)),
    }
