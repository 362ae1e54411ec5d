"""The DLQ: by what went wrong, and what to do about it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import Router, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from ackline.job import State
from ackline.service.auth.authorization import Access
from ackline.service.auth.caller import Caller
from ackline.service.bodies import Body
from ackline.service.error_groups import ErrorGroup, groups_in
from ackline.service.letters import Letters, Remedy
from ackline.service.parameters import KindList, Queue, Text
from ackline.service.problems import Unfit
from ackline.service.slow_work import Steps
from ackline.service.stints import Done, Stint, place_of
from ackline.stores.base import Filter

DEAD = frozenset({State.FAILED})


class ErrorGroups(msgspec.Struct):
    """Groups of dead letters, the largest first; `complete` tells whether all were looked at."""

    groups: list[ErrorGroup]
    complete: bool


class RemedyBody(Body):
    """What to do with which dead letters; with `dry_run` they are only counted."""

    action: Remedy
    fingerprint: str | None = None
    """Only those of this group."""
    kinds: list[str] | None = None
    text: str | None = None
    rate: Annotated[float, msgspec.Meta(gt=0, le=1_000_000)] | None = None
    """With `redrive`: how many a second."""
    dry_run: bool = False
    as_of: str | None = None
    """The `as_of` of a preview: jobs that have changed since then are left alone."""
    cursor: str | None = None
    """The cursor of the same request before, to go on where that stopped."""


class RemedyDone(msgspec.Struct):
    """How many matched, or how many it was done to, in this request.

    A `cursor` that is not null says that time was up: send the same request with it to go on.
    """

    action: Remedy
    dry_run: bool
    count: int
    cursor: str | None
    as_of: str
    """Where this began: send it to act on no other jobs than those that match now."""


@get("/groups", summary="Group the DLQ by error")
async def list_groups(
    queue: Queue, caller: NamedDependency[Caller], kinds: KindList = None, text: Text = None
) -> ErrorGroups:
    """Errors that differ only in quoted words and numbers are one group, with a sample."""
    line = (await caller.known_queue(queue, Access.READ_JOBS)).sync
    which = Filter(states=DEAD, kinds=caller.kinds(kinds), text=text)
    return ErrorGroups(*await caller.slowly(groups_in, line, which))


@post("/", status_code=200, summary="Redrive or delete dead letters")
async def act_on_dlq(
    queue: Queue, data: JSONBody[RemedyBody], caller: NamedDependency[Caller]
) -> RemedyDone:
    """All of a group, or all that match; with a `rate`, a redrive is no faster than that.

    After some seconds it stops, and answers with the count so far and a cursor to go on with.
    """
    caller.require(Access.BULK)
    if data.rate is not None and data.action != "redrive":
        raise Unfit("only `redrive` has a `rate`", at="$.rate")
    line = (await caller.known_queue(queue, Access.BULK)).sync
    which = Filter(states=DEAD, kinds=caller.kinds(data.kinds), text=data.text)
    runtime = caller.runtime
    place = await runtime.call(place_of, data.cursor, data.as_of, line)
    letters = Letters(Stint(line, which, place, lambda: runtime.draining), data.fingerprint)

    def act() -> Steps[Done]:
        counts = data.action == "redrive" and runtime.limits.counts_jobs_of(caller.tenant)
        more = (yield from letters.count()).count if counts else 0
        runtime.limits.require_room(line.key, more)
        if data.action == "delete":
            return (yield from letters.delete(caller.by))
        return (yield from letters.redrive(data.rate, caller.by))

    done = await caller.in_steps(letters.count() if data.dry_run else act())
    return RemedyDone(data.action, data.dry_run, done.count, done.cursor, place.as_of)


router = Router("/queues/{queue:str}/dlq", route_handlers=[list_groups, act_on_dlq], tags=["DLQ"])
