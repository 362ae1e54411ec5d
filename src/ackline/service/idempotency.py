"""`Idempotency-Key`: the same request sent again is the same job, not a second one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from litestar.params import HeaderParameter

from ackline.job import Draft, Record, State
from ackline.queue import Enqueued, EnqueueOptions, NewJob, Queued
from ackline.service.caller import REPLACED, Caller, taken
from ackline.service.problems import Refused
from ackline.service.runtime import Runtime
from ackline.service.served_queue import ServedQueue
from ackline.stores.base import Receipt

PREFIX, MANY_PREFIX = "idempotency-key:", "idempotency-key-of-many:"
"""Keep ids made of keys apart from the ids that producers choose."""

NONE: frozenset[str] = frozenset()
"""Kinds whose failed jobs a key runs again: the first request decided, and it was answered."""

CLOCKS = 0.01
"""Seconds that may lie between the time a delay was counted from and the one that was noted."""

IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="The same key again answers with the job of the first request, for as long "
        "as that job is kept. An id in the body goes before it.",
    ),
]


class KeyReused(Refused):
    """The key was used before, for something else."""

    status = 422
    type = "idempotency-key-reused"


async def enqueue_once(
    caller: Caller, queue: ServedQueue, payload: Any, options: EnqueueOptions, key: str | None
) -> Enqueued:
    """Enqueue; with a key and no id, the key decides whether it has been done before."""
    if key is not None and "id" not in options:
        named: EnqueueOptions = {**options, "id": PREFIX + key}
        return (await _each_once(caller.runtime, queue, [NewJob(payload, **named)], key))[0]
    if caller.principal.kinds is None or "id" not in options:
        return await queue.enqueue(payload, **options)
    [answer] = await _put_own(caller, queue, [NewJob(payload, **options)])
    if not isinstance(answer, Queued) and answer.state in REPLACED:
        raise taken(answer.id)
    return answer


async def enqueue_many_once(
    caller: Caller, queue: ServedQueue, jobs: list[NewJob[Any]], key: str | None
) -> list[Enqueued]:
    """Enqueue many; with a key, each that has no id of its own gets one by its place."""
    if key is not None:
        named = [_named(job, f"{MANY_PREFIX}{key}:{place}") for place, job in enumerate(jobs)]
        return await _each_once(caller.runtime, queue, named, key)
    if caller.principal.kinds is None:
        return await queue.enqueue_many(jobs)
    return await _put_own(caller, queue, jobs)


def _named(job: NewJob[Any], id: str) -> NewJob[Any]:
    options: EnqueueOptions = {"id": id, **job.options}
    return NewJob(job.payload, **options)


async def _put_own(caller: Caller, queue: ServedQueue, jobs: list[NewJob[Any]]) -> list[Enqueued]:
    """Replace failed jobs of the caller's kinds only, whatever has failed since it looked."""
    return await queue.put([caller.owned(_draft(queue, job)) for job in jobs])


async def _each_once(
    runtime: Runtime, queue: ServedQueue, jobs: Sequence[NewJob[Any]], key: str
) -> list[Enqueued]:
    """Return jobs that exist, whatever became of them; a failed one is not run again."""
    drafts = [msgspec.structs.replace(_draft(queue, job), replaces=NONE) for job in jobs]
    known = await _there(runtime, queue, drafts, key)
    new = [draft for draft in drafts if draft.id not in known]
    stored = await queue.put(new) if new else []
    # The same request was sent twice at once, and the other one was first.
    second = {answer.id for answer in stored if not isinstance(answer, Queued)}
    await _there(runtime, queue, [draft for draft in drafts if draft.id in second], key)
    answers = iter(stored)
    return [
        _answer(queue, known[draft.id]) if draft.id in known else next(answers) for draft in drafts
    ]


def _draft(queue: ServedQueue, job: NewJob[Any]) -> Draft:
    return queue.sync.drafter.draft(job.payload, job.options)


def _answer(queue: ServedQueue, job: Record) -> Enqueued:
    return queue.sync.answer(Receipt(job.id, False, job.state, job.result))


async def _there(
    runtime: Runtime, queue: ServedQueue, drafts: list[Draft], key: str
) -> dict[str, Record]:
    """The jobs that exist under these ids; refused if one of them is a different job."""
    if not drafts:
        return {}
    store, ids = runtime.store, [draft.id for draft in drafts]
    found = await runtime.call(store.get, queue.sync.key, ids)
    there = {job.id: job for job in found if job is not None}
    now = (await runtime.call(store.info)).now if there else 0.0
    for draft in drafts:
        if draft.id in there and not _alike(draft, there[draft.id], now):
            raise KeyReused(f"the key {key!r} belongs to a job with another payload or options")
    return there


def _alike(draft: Draft, job: Record, now: float) -> bool:
    """Whether a job is what this draft would have become; its trace may be of another try."""
    said = msgspec.structs.replace(draft.options, trace=None)
    kept = msgspec.structs.replace(job.options, trace=None)
    return (
        (draft.payload, draft.kind, draft.priority) == (job.payload, job.kind, job.priority)
        and said == kept
        and _as_late(draft, job, now)
    )


def _as_late(draft: Draft, job: Record, now: float) -> bool:
    """Whether it would run at the same time, as far as the job still shows."""
    due = job.created_at + draft.delay if draft.run_at is None else draft.run_at
    if job.state is State.SCHEDULED and not job.attempts:
        return abs(due - (job.run_at or 0.0)) <= CLOCKS
    return due <= now + CLOCKS
