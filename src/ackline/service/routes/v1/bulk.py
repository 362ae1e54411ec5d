"""Bulk operations: one act on all jobs that match, with a preview."""

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
    """Which jobs; omitted fields match all."""

    states: list[State] | None = None
    kinds: list[str] | None = None
    ids: list[str] | None = None
    created_after: float | None = None
    created_before: float | None = None
    text: str | None = None
    tags: list[str] | None = None
    fingerprint: str | None = None
    """Only failed jobs of this error group, see `…/dlq/groups`."""


class BulkBody(Body):
    """What to do with which jobs; with `dry_run` they are only counted."""

    action: Action
    filter: FilterBody
    dry_run: bool = False
    to: str | None = None
    """With `move`, the target queue; not needed with `dry_run`."""
    rate: Annotated[float, msgspec.Meta(gt=0, le=1_000_000)] | None = None
    """With `redrive`, how many jobs become due per second."""
    as_of: str | None = None
    """The `as_of` of a preview: jobs that have changed since are skipped."""
    cursor: str | None = None
    """The cursor of the previous request, to continue where it stopped."""


class BulkResult(msgspec.Struct):
    """How many jobs matched, or were changed, in this request.

    If `cursor` is not null, there are more: send the same request with it.
    """

    action: Action
    dry_run: bool
    count: int
    cursor: str | None
    as_of: str
    """When this started: send it to change only jobs that match now."""


@post(
    "/bulk",
    status_code=200,
    summary="Change all jobs that match",
    problems=(404, 409),
    example={
        "action": "redrive",
        "filter": {"kinds": ["welcome"], "fingerprint": "3f1d9c07a2be"},
        "rate": 10,
        "dry_run": True,
    },
)
async def run_bulk_operation(
    queue: QueuePath, data: JSONBody[BulkBody], caller: NamedDependency[Caller]
) -> BulkResult:
    """Cancel, redrive, move or delete all jobs that match, if their state allows it.

    For running jobs, a cancel requests cancellation.

    After some seconds, or when a queue is full, it stops and returns the count so far and a cursor
    to continue with. Jobs that have changed since the first of these requests, or since `as_of`,
    are skipped: send the `as_of` of a `dry_run` to change what it counted.
    """
    caller.require(Permission.BULK)
    target, runtime = _target(caller, data), caller.runtime
    job_queue = (await caller.existing_queue(queue, Permission.BULK)).sync
    cursor = await runtime.call(start_cursor, data.cursor, data.as_of, job_queue)
    job_filter, fingerprint = _filter(caller, data), data.filter.fingerprint
    step = BulkStep(job_queue, job_filter, fingerprint, cursor, lambda: runtime.draining)
    operation = BulkOperation(data.action, caller.by, target, data.rate)
    progress = await caller.run_chunks(count(step) if data.dry_run else operation.apply_to(step))
    rest = None if progress.rest is None else str(progress.rest)
    return BulkResult(data.action, data.dry_run, progress.count, rest, cursor.as_of)


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
        tags=frozenset(given.tags) if given.tags is not None else None,
    )


def _target(caller: Caller, data: BulkBody) -> QueueKey | None:
    if data.action != "redrive" and data.rate is not None:
        raise Unprocessable("`rate` is only for `redrive`", at="$.rate")
    if data.action != "move" and data.to is not None:
        raise Unprocessable("`to` is only for `move`", at="$.to")
    if data.action == "move" and data.to is None and not data.dry_run:
        raise Unprocessable("`move` needs `to`, the target queue", at="$.to")
    return caller.queue(data.to, Permission.MOVE).sync.key if data.to is not None else None


router = Router("/queues/{queue:str}", route_handlers=[run_bulk_operation], tags=["Bulk"])
