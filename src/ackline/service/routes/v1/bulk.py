"""Bulk: one act on everything that matches, counted first if asked."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import Router
from litestar.di import NamedDependency
from litestar.params import JSONBody

from ackline.core.job import QueueKey, State
from ackline.service.auth.caller import Caller
from ackline.service.auth.job_acts import legal_states
from ackline.service.auth.permissions import Permission
from ackline.service.http.parameters import QueuePath
from ackline.service.http.problems import Unprocessable
from ackline.service.http.request_body import Body
from ackline.service.operations.bulk import Action, BulkOperation, BulkStep, count, start_cursor
from ackline.service.routes.decorators import post
from ackline.stores.contract import Filter


class FilterBody(Body):
    """Which jobs; what is left out does not matter."""

    states: list[State] | None = None
    kinds: list[str] | None = None
    ids: list[str] | None = None
    created_after: float | None = None
    created_before: float | None = None
    text: str | None = None
    fingerprint: str | None = None
    """Only dead letters of this group, as `…/dlq/groups` names it."""


class BulkBody(Body):
    """What to do to which jobs; with `dry_run` they are only counted."""

    action: Action
    filter: FilterBody
    dry_run: bool = False
    to: str | None = None
    """With `move`, the queue; jobs can be counted without it."""
    rate: Annotated[float, msgspec.Meta(gt=0, le=1_000_000)] | None = None
    """With `redrive`, how many jobs become due per second."""
    as_of: str | None = None
    """The `as_of` of a preview: jobs that have changed since then are left alone."""
    cursor: str | None = None
    """The cursor of the same request before, to go on where that stopped."""


class BulkResult(msgspec.Struct):
    """How many matched, or how many it was done to, in this request.

    A `cursor` that is not null says that something is left: send the same request with it.
    """

    action: Action
    dry_run: bool
    count: int
    cursor: str | None
    as_of: str
    """Where this began: send it to act on no other jobs than those that match now."""


@post(
    "/bulk",
    status_code=200,
    summary="Act on all that match",
    problems=(
        404,
        409,
    ),
    example={
        "action": "redrive",
        "filter": {"kinds": ["welcome"], "fingerprint": "3f1d9c07a2be"},
        "rate": 10,
        "dry_run": True,
    },
)
async def run_bulk(
    queue: QueuePath, data: JSONBody[BulkBody], caller: NamedDependency[Caller]
) -> BulkResult:
    """Cancel, redrive, move or delete all jobs that match and can be; others are left alone.

    A cancel asks jobs that run to stop.

    After some seconds, or when a queue has no more room, it stops and answers with the count so
    far and a cursor to go on with. Jobs that have changed since the first of these requests, or
    since `as_of`, are left alone: send the `as_of` of a `dry_run` to act on what it counted.
    """
    caller.require(Permission.BULK)
    target, runtime = _target(caller, data), caller.runtime
    line = (await caller.existing_queue(queue, Permission.BULK)).sync
    cursor = await runtime.call(start_cursor, data.cursor, data.as_of, line)
    which, fingerprint = _filter(caller, data), data.filter.fingerprint
    step = BulkStep(line, which, fingerprint, cursor, lambda: runtime.draining)
    act = BulkOperation(data.action, caller.by, target, data.rate)
    done = await caller.run_chunks(count(step) if data.dry_run else act.apply_to(step))
    rest = None if done.rest is None else str(done.rest)
    return BulkResult(data.action, data.dry_run, done.count, rest, cursor.as_of)


def _filter(caller: Caller, data: BulkBody) -> Filter:
    given = data.filter
    states = frozenset(given.states if given.states is not None else State)
    if given.fingerprint is not None:
        states &= {State.FAILED}
    return Filter(
        states=states & legal_states(data.action),
        kinds=caller.kinds(given.kinds),
        ids=frozenset(given.ids) if given.ids is not None else None,
        created_after=given.created_after,
        created_before=given.created_before,
        text=given.text,
    )


def _target(caller: Caller, data: BulkBody) -> QueueKey | None:
    if data.action != "redrive" and data.rate is not None:
        raise Unprocessable("only `redrive` has a `rate`", at="$.rate")
    if data.action != "move" and data.to is not None:
        raise Unprocessable("only `move` has a `to`", at="$.to")
    if data.action == "move" and data.to is None and not data.dry_run:
        raise Unprocessable("`to` must name the queue to move to", at="$.to")
    return caller.queue(data.to, Permission.MOVE).sync.key if data.to is not None else None


router = Router("/queues/{queue:str}", route_handlers=[run_bulk], tags=["Bulk"])
