"""`Idempotency-Key`: the same request sent again is the same job, not a second one."""

from __future__ import annotations

from typing import Annotated, Any

from litestar.params import HeaderParameter

from ackline.aio import AsyncQueue
from ackline.queue import Enqueued, EnqueueOptions, Queued
from ackline.service.problems import Refused
from ackline.service.runtime import Runtime

PREFIX = "idempotency-key:"
"""Keeps ids made of keys apart from the ids that producers choose."""

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
    runtime: Runtime,
    queue: AsyncQueue[Any, Any],
    payload: Any,
    options: EnqueueOptions,
    key: str | None,
) -> Enqueued:
    """Enqueue; with a key and no id, the key decides whether it has been done before."""
    if key is None or "id" in options:
        return await queue.enqueue(payload, **options)
    options = {**options, "id": PREFIX + key}
    answer = await queue.enqueue(payload, **options)
    if not isinstance(answer, Queued):
        await _require_same(runtime, queue, payload, options, key)
    return answer


async def _require_same(
    runtime: Runtime,
    queue: AsyncQueue[Any, Any],
    payload: Any,
    options: EnqueueOptions,
    key: str,
) -> None:
    draft = queue.sync.draft(payload, options)
    there = (await runtime.call(runtime.store.get, queue.sync.key, [draft.id]))[0]
    if there is not None and (there.payload, there.kind) != (draft.payload, draft.kind):
        raise KeyReused(f"the key {key!r} belongs to a job with another payload or kind")
