"""Settling by hand, also of a job in a caller's transaction whose end cannot be seen here."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ackline.core.errors import LeaseLost
from ackline.core.events import Act
from ackline.core.job import State
from ackline.core.lifecycle import Transition, Verdict
from ackline.queue.job import Job

RETRY_DELAYS = (0.005, 0.01, 0.02, 0.05)
"""Seconds between tries while something else, such as a heartbeat, is changing the lease."""

ApplyTransition = Callable[[Transition], Verdict]


def settle(job: Job[Any], step: Transition, take: ApplyTransition, *, joined: bool) -> None:
    """Take a step of a claimed job, `joined` if in a transaction; or raise `LeaseLost`."""
    earlier = job.settled_in_transaction
    if joined:
        # Before the step: a heartbeat sent meanwhile must not wait for the transaction's end.
        job.settled_in_transaction = step.act
    try:
        if earlier is None:
            require_applied(step, take(step))
        else:
            _settle_after_transaction(step, take, earlier)
    except BaseException:
        job.settled_in_transaction = earlier
        raise


def _settle_after_transaction(step: Transition, take: ApplyTransition, earlier: Act) -> None:
    """Take a step after an earlier one in a transaction; the error says if that is still open.

    Waiting for its end would be a deadlock: the caller itself has to end it.
    """
    verdict = take(step)
    for pause in RETRY_DELAYS:
        if verdict.applied or verdict.state is not State.PROCESSING:
            break
        time.sleep(pause)
        verdict = take(step)
    require_applied(step, verdict, earlier)


def require_applied(step: Transition, verdict: Verdict, earlier: Act | None = None) -> None:
    """Raise `LeaseLost` for a settling that was refused."""
    if not verdict.applied:
        open_act = earlier if verdict.state is State.PROCESSING else None
        raise LeaseLost(step.id, verdict.state, open_act)
