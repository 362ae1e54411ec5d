"""One act on everything that matches a filter, in steps, with a count beforehand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, assert_never

import msgspec

from ackline import lifecycle
from ackline.job import LIVE, WAITING, QueueKey, Record, State
from ackline.lifecycle import Transition
from ackline.queue import Queue
from ackline.service.limits import Limits
from ackline.stores.base import Filter

STEP = 500

Action = Literal["cancel", "redrive", "move", "delete"]

Decide = Callable[[Record], Transition]

STATES: dict[Action, frozenset[State]] = {
    "cancel": WAITING,
    "redrive": frozenset({State.FAILED}),
    "move": frozenset(State) - {State.PROCESSING},
    "delete": frozenset(State),
}
"""What an action can be done to; the rest of what matches is left alone."""


def count(queue: Queue[Any, Any], which: Filter) -> int:
    """How many match now."""
    if which == Filter(states=which.states):
        counts = queue.counts()
        return sum(counts[state] for state in which.states)
    return sum(len(step) for step in _steps(queue, which))


def act_within(
    limits: Limits,
    queue: Queue[Any, Any],
    action: Action,
    which: Filter,
    target: QueueKey | None,
    by: str,
) -> int:
    """Do it to all that match, or to none if there is no room for them where it leads."""
    more = _added(queue, action, which) if limits.counts_jobs_of(queue.key.tenant) else 0
    limits.require_room(target or queue.key, more, moved=action == "move")
    return act(queue, action, which, target, by)


def _added(queue: Queue[Any, Any], action: Action, which: Filter) -> int:
    """How many more jobs would be live where it leads."""
    match action:
        case "redrive":
            return count(queue, which)
        case "move":
            return count(queue, msgspec.structs.replace(which, states=which.states & LIVE))
        case "cancel" | "delete":
            return 0
        case _:
            assert_never(action)


def act(
    queue: Queue[Any, Any], action: Action, which: Filter, target: QueueKey | None, by: str
) -> int:
    """Do it to all that match and were there when it began; returns how many it was done to."""
    if action == "delete":
        return _delete(queue, which, by)
    decide = _decision(queue, action, target, by)
    began = queue.store.info().now
    done = 0
    for step in _steps(queue, which):
        # The caller has not seen what was enqueued or came back since.
        seen = [job for job in step if (job.finished_at or job.created_at) <= began]
        done += sum(verdict.applied for verdict in queue.apply([decide(job) for job in seen]))
    return done


def _steps(queue: Queue[Any, Any], which: Filter) -> Any:
    cursor: str | None = None
    while which.states:
        page = queue.store.page(queue.key, which, cursor, STEP)
        yield page.jobs
        cursor = page.cursor
        if cursor is None:
            return


def _delete(queue: Queue[Any, Any], which: Filter, by: str) -> int:
    total = 0
    while gone := queue.store.purge(queue.key, which, STEP, by):
        total += gone
    return total


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
