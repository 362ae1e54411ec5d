"""The dead-letter queue: messages whose attempts are spent."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Router
from litestar.di import NamedDependency
from litestar.params import PathParameter, QueryParameter

from ackline.aio import AsyncQueue
from ackline.errors import JobNotFound, WrongState
from ackline.job import Record, State
from ackline.queue.documents import payload_of
from ackline.queue.purging import purge_steps
from ackline.service.auth.authorization import Access
from ackline.service.auth.caller import Caller
from ackline.service.default_queue import known_queue
from ackline.service.handlers import delete, get, post
from ackline.service.message_bodies import DEFAULT_QUEUE, Done
from ackline.service.parameters import QueueName
from ackline.service.problems import NotFound
from ackline.service.served_queue import ServedQueue
from ackline.stores.base import ANSWER_BYTES, Filter
from ackline.stores.budget import Budget

DEAD = Filter(states=frozenset({State.FAILED}))
FARTHEST = 100_000
"""How far an offset may reach: each page before it has to be read."""

LetterId = Annotated[str, PathParameter(description="The id of the message.")]


class DeadLetter(msgspec.Struct, rename="camel"):
    """A message that was given up; times are in milliseconds since 1970."""

    id: str
    original_id: str
    value: msgspec.Raw
    attempts: int
    error_message: str
    original_created_at: int
    failed_at: int
    kind: str


class Requeued(msgspec.Struct, rename="camel"):
    """It is back in its queue."""

    ok: bool
    new_id: str


class Purged(msgspec.Struct, rename="camel"):
    """How many were deleted."""

    deleted_count: int


@get("/", summary="List dead letters", problems=(404,))
async def list_letters(
    caller: NamedDependency[Caller],
    queue: QueueName = DEFAULT_QUEUE,
    limit: Annotated[int, QueryParameter(ge=1, le=1000)] = 50,
    offset: Annotated[int, QueryParameter(ge=0, le=FARTHEST)] = 0,
) -> list[DeadLetter]:
    """Dead letters, in the order of their line.

    Of large ones, fewer than `limit` come at once: go on with the `offset` behind them.
    """
    line = await known_queue(caller, queue, Access.READ_JOBS)
    which = msgspec.structs.replace(DEAD, kinds=caller.kinds(None))
    found = await caller.slowly(_slice, line, which, offset, limit)
    return [_letter(record) for record in found]


@get("/{id:str}", summary="Show a dead letter", problems=(404,))
async def get_letter(
    id: LetterId, caller: NamedDependency[Caller], queue: QueueName = DEFAULT_QUEUE
) -> DeadLetter:
    """One dead letter."""
    _, letter = await _find(caller, queue, id, Access.READ_JOBS)
    return _letter(letter)


@post(
    "/{id:str}/requeue",
    status_code=200,
    summary="Requeue a dead letter",
    problems=(
        404,
        409,
    ),
)
async def requeue(
    id: LetterId, caller: NamedDependency[Caller], queue: QueueName = DEFAULT_QUEUE
) -> Requeued:
    """Back into its queue, with all its attempts; it moves and is never copied."""
    line, _ = await _find(caller, queue, id, Access.REDRIVE)
    try:
        await line.redrive(id, by=caller.by)
    except (JobNotFound, WrongState):
        raise _absent(queue, id) from None
    return Requeued(True, id)


@delete("/{id:str}", status_code=200, summary="Delete a dead letter", problems=(404,))
async def delete_letter(
    id: LetterId, caller: NamedDependency[Caller], queue: QueueName = DEFAULT_QUEUE
) -> Done:
    """Gone for good."""
    line = caller.queue(queue, Access.DELETE)
    if not await line.purge(
        states=[State.FAILED], kinds=caller.kinds(None), ids=[id], by=caller.by
    ):
        raise _absent(queue, id)
    return Done()


@delete("/", status_code=200, summary="Purge the dead letters", problems=(404,))
async def purge(caller: NamedDependency[Caller], queue: QueueName = DEFAULT_QUEUE) -> Purged:
    """All dead letters of the queue, gone for good."""
    line = (await known_queue(caller, queue, Access.DELETE)).sync
    which = Filter(states=frozenset({State.FAILED}), kinds=caller.kinds(None))
    return Purged(await caller.in_steps(purge_steps(line, which, caller.by)))


async def _find(caller: Caller, queue: str, id: str, access: Access) -> tuple[ServedQueue, Record]:
    try:
        line, record = await caller.job(queue, id, access)
    except JobNotFound:
        raise _absent(queue, id) from None
    if record.state is not State.FAILED:
        raise _absent(queue, id)
    return line, record


def _absent(queue: str, id: str) -> NotFound:
    return NotFound(f"queue {queue!r} has no dead letter {id!r}")


def _slice(queue: AsyncQueue[Any, Any], which: Filter, offset: int, limit: int) -> list[Record]:
    """The store pages by cursor, so what lies before the offset is read and skipped."""
    store, key = queue.sync.store, queue.sync.key
    found, budget = list[Record](), Budget(ANSWER_BYTES)
    cursor = None
    while len(found) < limit and not budget.reached:
        page = store.page(key, which, cursor, offset + limit if offset else limit - len(found))
        found += budget.within(page.jobs[offset:], lambda job: len(job.payload))
        offset = max(0, offset - len(page.jobs))
        cursor = page.cursor
        if cursor is None:
            break
    return found[:limit]


def _letter(record: Record) -> DeadLetter:
    failure = record.failure
    return DeadLetter(
        id=record.id,
        original_id=record.id,
        value=payload_of(record),
        attempts=record.attempts,
        error_message=failure.message if failure is not None else "",
        original_created_at=round(record.created_at * 1000),
        failed_at=round((record.finished_at or 0.0) * 1000),
        kind=record.kind,
    )


router = Router(
    "/queue/dlq",
    route_handlers=[list_letters, get_letter, requeue, delete_letter, purge],
    tags=["Dead letters"],
)
