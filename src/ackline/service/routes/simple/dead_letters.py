"""The dead-letter queue: messages whose attempts are spent."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Router
from litestar.di import NamedDependency
from litestar.params import PathParameter, QueryParameter

from ackline.aio import AsyncQueue
from ackline.core.errors import JobNotFound, WrongState
from ackline.core.job import DlqReason, Record, State
from ackline.queue.operate import purge_steps
from ackline.queue.transfer.documents import payload_json
from ackline.service.auth.caller import Caller
from ackline.service.auth.permissions import Permission
from ackline.service.http.parameters import Ok, QueueName
from ackline.service.http.problems import NotFound
from ackline.service.queues import MeteredQueue
from ackline.service.routes.decorators import delete, get, post
from ackline.service.routes.simple.bodies import DEFAULT_QUEUE, existing_or_default_queue
from ackline.stores.contract import MAX_ANSWER_BYTES, Filter
from ackline.stores.shared.byte_limit import ByteLimit

FAILED_JOBS = Filter(states=frozenset({State.FAILED}))
MAX_OFFSET = 100_000
"""The largest offset: everything before it has to be read."""

DeadLetterId = Annotated[str, PathParameter(description="The id of the message.")]


class DeadLetter(msgspec.Struct, rename="camel"):
    """A message in the DLQ; times are in milliseconds since 1970."""

    id: str
    original_id: str
    value: msgspec.Raw
    attempts: int
    error_message: str
    original_created_at: int
    failed_at: int
    kind: str
    dlq_reason: DlqReason | None
    """Why it is here: `max_attempts` if its attempts are used up, `dead` if it was given up."""


class RequeueResult(msgspec.Struct, rename="camel"):
    """The message was requeued."""

    ok: bool
    new_id: str


class PurgeResult(msgspec.Struct, rename="camel"):
    """How many dead letters were deleted."""

    deleted_count: int


@get("/", summary="List dead letters", problems=(404,))
async def list_dead_letters(
    caller: NamedDependency[Caller],
    queue: QueueName = DEFAULT_QUEUE,
    limit: Annotated[int, QueryParameter(ge=1, le=1000)] = 50,
    offset: Annotated[int, QueryParameter(ge=0, le=MAX_OFFSET)] = 0,
) -> list[DeadLetter]:
    """The dead letters of a queue, in order.

    Large values may make a page shorter than `limit`: continue with the `offset` after it.
    """
    job_queue = await existing_or_default_queue(caller, queue, Permission.READ_JOBS)
    job_filter = msgspec.structs.replace(FAILED_JOBS, kinds=caller.kinds(None))
    found = await caller.run_slow(_slice, job_queue, job_filter, offset, limit)
    return [_document(record) for record in found]


@get("/{id:str}", summary="Show a dead letter", problems=(404,))
async def get_dead_letter(
    id: DeadLetterId, caller: NamedDependency[Caller], queue: QueueName = DEFAULT_QUEUE
) -> DeadLetter:
    """A dead letter."""
    _, record = await _find(caller, queue, id, Permission.READ_JOBS)
    return _document(record)


@post(
    "/{id:str}/requeue",
    status_code=200,
    summary="Requeue a dead letter",
    problems=(404, 409),
)
async def requeue_dead_letter(
    id: DeadLetterId, caller: NamedDependency[Caller], queue: QueueName = DEFAULT_QUEUE
) -> RequeueResult:
    """Move a dead letter back into its queue, with all its attempts; it is never copied."""
    job_queue, _ = await _find(caller, queue, id, Permission.REDRIVE)
    try:
        await job_queue.redrive(id, by=caller.by)
    except (JobNotFound, WrongState):
        raise _absent(queue, id) from None
    return RequeueResult(True, id)


@delete("/{id:str}", status_code=200, summary="Delete a dead letter", problems=(404,))
async def delete_dead_letter(
    id: DeadLetterId, caller: NamedDependency[Caller], queue: QueueName = DEFAULT_QUEUE
) -> Ok:
    """Delete a dead letter permanently."""
    job_queue = caller.queue(queue, Permission.DELETE)
    if not await job_queue.purge(
        states=[State.FAILED], kinds=caller.kinds(None), ids=[id], by=caller.by
    ):
        raise _absent(queue, id)
    return Ok()


@delete("/", status_code=200, summary="Purge the dead letters", problems=(404,))
async def purge_dead_letters(
    caller: NamedDependency[Caller], queue: QueueName = DEFAULT_QUEUE
) -> PurgeResult:
    """Delete all dead letters of a queue permanently."""
    job_queue = (await existing_or_default_queue(caller, queue, Permission.DELETE)).sync
    job_filter = Filter(states=frozenset({State.FAILED}), kinds=caller.kinds(None))
    return PurgeResult(await caller.run_chunks(purge_steps(job_queue, job_filter, caller.by)))


async def _find(
    caller: Caller, queue: str, id: str, permission: Permission
) -> tuple[MeteredQueue, Record]:
    try:
        job_queue, record = await caller.job(queue, id, permission)
    except JobNotFound:
        raise _absent(queue, id) from None
    if record.state is not State.FAILED:
        raise _absent(queue, id)
    return job_queue, record


def _absent(queue: str, id: str) -> NotFound:
    return NotFound(f"queue {queue!r} has no dead letter {id!r}")


def _slice(
    queue: AsyncQueue[Any, Any], job_filter: Filter, offset: int, limit: int
) -> list[Record]:
    """Jobs by offset; those before it are read and skipped, as the store pages by cursor."""
    store, key = queue.sync.store, queue.sync.key
    found, budget = list[Record](), ByteLimit(MAX_ANSWER_BYTES)
    cursor = None
    while len(found) < limit and not budget.reached:
        page = store.page(key, job_filter, cursor, offset + limit if offset else limit - len(found))
        found += budget.limit(page.jobs[offset:], lambda job: len(job.payload))
        offset = max(0, offset - len(page.jobs))
        cursor = page.cursor
        if cursor is None:
            break
    return found[:limit]


def _document(record: Record) -> DeadLetter:
    failure = record.failure
    return DeadLetter(
        id=record.id,
        original_id=record.id,
        value=payload_json(record),
        attempts=record.attempts,
        error_message=failure.message if failure is not None else "",
        original_created_at=round(record.created_at * 1000),
        failed_at=round((record.finished_at or 0.0) * 1000),
        kind=record.kind,
        dlq_reason=failure.dlq_reason if failure is not None else None,
    )


router = Router(
    "/queue/dlq",
    route_handlers=[
        list_dead_letters,
        get_dead_letter,
        requeue_dead_letter,
        delete_dead_letter,
        purge_dead_letters,
    ],
    tags=["Dead letters"],
)
