"""Settling by hand: also of a job that a transaction holds, whose end nobody here sees."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from ackline.errors import LeaseLost
from ackline.events import Act
from ackline.job import State
from ackline.lifecycle import Transition, Verdict
from ackline.queue.job import Job

MOMENTS = (0.005, 0.01, 0.02, 0.05)
"""Seconds between tries at a lease that somebody has just now, be it a heartbeat."""

Take = Callable[[Transition], Verdict]


def settle(job: Job[Any], step: Transition, take: Take, *, joined: bool) -> None:
    """Take a step of a claimed job, `joined` if in a transaction; or raise `LeaseLost`."""
    before = job.in_transaction
    if joined:
        # At once: a heartbeat that is sent meanwhile must not wait for the transaction's end.
        job.in_transaction = step.act
    try:
        if before is None:
            require_applied(step, take(step))
        else:
            _settle_again(step, take, before)
    except BaseException:
        job.in_transaction = before
        raise


def _settle_again(step: Transition, take: Take, before: Act) -> None:
    """Take a step though an earlier one is in a transaction: one that is still open is told of.

    To wait for its end would be to wait for oneself.
    """
    step = msgspec.structs.replace(step, wait=False)
    verdict = take(step)
    for pause in MOMENTS:
        if verdict.applied or verdict.state is not State.PROCESSING:
            break
        time.sleep(pause)
        verdict = take(step)
    require_applied(step, verdict, before)


def require_applied(step: Transition, verdict: Verdict, before: Act | None = None) -> None:
    """Raise `LeaseLost` for a settling that was refused."""
    if not verdict.applied:
        open_act = before if verdict.state is State.PROCESSING else None
        raise LeaseLost(step.id, verdict.state, open_act)
