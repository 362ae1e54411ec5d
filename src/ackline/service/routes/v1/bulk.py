"""Bulk: one act on everything that matches, counted first if asked."""

from __future__ import annotations

import msgspec
from litestar import Router, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from ackline.job import QueueKey, State
from ackline.service import bulk
from ackline.service.auth.authorization import Access
from ackline.service.auth.caller import Caller
from ackline.service.bodies import Body
from ackline.service.bulk import STATES, Action
from ackline.service.parameters import Queue
from ackline.service.problems import Unfit
from ackline.service.stints import Stint, place_of
from ackline.stores.base import Filter


class FilterBody(Body):
    """Which jobs; what is left out does not matter."""

    states: list[State] | None = None
    kinds: list[str] | None = None
    ids: list[str] | None = None
    created_after: float | None = None
    created_before: float | None = None
    text: str | None = None


class BulkBody(Body):
    """What to do to which jobs; with `dry_run` they are only counted."""

    action: Action
    filter: FilterBody
    dry_run: bool = False
    to: str | None = None
    """With `move`, the queue; jobs can be counted without it."""
    as_of: str | None = None
    """The `as_of` of a preview: jobs that have changed since then are left alone."""
    cursor: str | None = None
    """The cursor of the same request before, to go on where that stopped."""


class BulkDone(msgspec.Struct):
    """How many matched, or how many it was done to, in this request.

    A `cursor` that is not null says that time was up: send the same request with it to go on.
    """

    action: Action
    dry_run: bool
    count: int
    cursor: str | None
    as_of: str
    """Where this began: send it to act on no other jobs than those that match now."""


@post("/bulk", status_code=200, summary="Act on all that match")
async def act_on_all(
    queue: Queue, data: JSONBody[BulkBody], caller: NamedDependency[Caller]
) -> BulkDone:
    """Cancel, redrive, move or delete all jobs that match and can be; others are left alone.

    After some seconds it stops, and answers with the count so far and a cursor to go on with. Jobs
    that have changed since the first of these requests, or since `as_of`, are left alone: send the
    `as_of` of a `dry_run` to act on what it counted.
    """
    caller.require(Access.BULK)
    target, runtime = _target(caller, data), caller.runtime
    line = (await caller.known_queue(queue, Access.BULK)).sync
    place = await runtime.call(place_of, data.cursor, data.as_of, line)
    stint = Stint(line, _filter(caller, data), place, lambda: runtime.draining)
    if data.dry_run:
        steps = bulk.count(stint)
    else:
        steps = bulk.act_within(runtime.limits, stint, data.action, target, caller.by)
    done = await caller.in_steps(steps)
    return BulkDone(data.action, data.dry_run, done.count, done.cursor, place.as_of)


def _filter(caller: Caller, data: BulkBody) -> Filter:
    given = data.filter
    states = frozenset(given.states) if given.states is not None else frozenset(State)
    return Filter(
        states=states & STATES[data.action],
        kinds=caller.kinds(given.kinds),
        ids=frozenset(given.ids) if given.ids is not None else None,
        created_after=given.created_after,
        created_before=given.created_before,
        text=given.text,
    )


def _target(caller: Caller, data: BulkBody) -> QueueKey | None:
    if data.action != "move" and data.to is not None:
        raise Unfit("only `move` has a `to`", at="$.to")
    if data.action == "move" and data.to is None and not data.dry_run:
        raise Unfit("`to` must name the queue to move to", at="$.to")
    return caller.queue(data.to, Access.MOVE).sync.key if data.to is not None else None


router = Router("/queues/{queue:str}", route_handlers=[act_on_all], tags=["Bulk"])
