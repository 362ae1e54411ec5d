"""One act on everything that matches a filter, in stints, with a count beforehand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, assert_never

import msgspec

from ackline import lifecycle
from ackline.job import LIVE, WAITING, QueueKey, Record, State
from ackline.lifecycle import Transition
from ackline.queue import Queue
from ackline.service.limits import Limits
from ackline.service.slow_work import Steps
from ackline.service.stints import Done, Stint

Action = Literal["cancel", "redrive", "move", "delete"]

Decide = Callable[[Record], Transition]

STATES: dict[Action, frozenset[State]] = {
    "cancel": WAITING,
    "redrive": frozenset({State.FAILED}),
    "move": frozenset(State) - {State.PROCESSING},
    "delete": frozenset(State),
}
"""The states that an action applies to; matching jobs in other states are left alone."""


def count(stint: Stint) -> Steps[Done]:
    """How many match."""
    return stint.on_pages(lambda jobs, _: len(jobs))


def act_within(
    limits: Limits, stint: Stint, action: Action, target: QueueKey | None, by: str
) -> Steps[Done]:
    """Act on all jobs that match, or on none if the queue they end up in has no room for them."""
    home = stint.queue.key
    # Counting has as much time as acting, so it covers all jobs that this stint can act on.
    more = (yield from _added(stint, action)) if limits.counts_jobs_of(home.tenant) else 0
    limits.require_room(target or home, more, moved=action == "move")
    return (yield from act(stint, action, target, by))


def _added(stint: Stint, action: Action) -> Steps[int]:
    """How many more jobs would be live in the queue they end up in."""
    which = stint.which
    match action:
        case "redrive":
            return (yield from count(stint)).count
        case "move":
            live = msgspec.structs.replace(which, states=which.states & LIVE)
            return (yield from count(msgspec.structs.replace(stint, which=live))).count
        case "cancel" | "delete":
            return 0
        case _:
            assert_never(action)


def act(stint: Stint, action: Action, target: QueueKey | None, by: str) -> Steps[Done]:
    """Act on all jobs that match and were there when the first stint began."""
    if action == "delete":
        return stint.on_pages(lambda jobs, _: stint.purge(jobs, by))
    queue, decide = stint.queue, _decision(stint.queue, action, target, by)

    return stint.on_pages(
        lambda jobs, _: sum(verdict.applied for verdict in queue.apply([*map(decide, jobs)]))
    )


def _decision(
    queue: Queue[Any, Any], action: Literal["cancel", "redrive", "move"], target: Any, by: str
) -> Decide:
    match action:
        case "cancel":
            return lambda job: lifecycle.cancel(job.id, queue.policies.of(job), by)
        case "redrive":
            return lambda job: lifecycle.redrive(job.id, by=by)
        case "move":
            return lambda job: lifecycle.move(job.id, target, by)
        case _:
            assert_never(action)
