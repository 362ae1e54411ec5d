"""Admitting jobs: no more than a tenant may have, on whichever route they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from ackline.aio import AsyncQueue
from ackline.job import LIVE, QueueKey, Record, State
from ackline.queue import Queue
from ackline.service.auth.caller import REPLACED
from ackline.service.limits import Limits
from ackline.service.limits.refusals import QueueFull
from ackline.service.runtime import Runtime


@asynccontextmanager
async def admitting(
    runtime: Runtime, queue: AsyncQueue[Any, Any], jobs: int, ids: Sequence[str] = ()
) -> AsyncIterator[None]:
    """Around an enqueue: refuses more jobs than the tenant may have.

    Jobs whose ids already exist take no room.
    """
    limits, key = runtime.limits, queue.sync.key
    limits.admit_jobs(key.tenant, jobs)
    if not limits.counts_jobs_of(key.tenant):
        yield
        return
    taking = runtime.threads.call(limits.take_room, key, jobs)
    try:
        await asyncio.shield(taking)
    except QueueFull:
        if len(ids) < jobs or not await _all_exist(runtime, queue, ids):
            raise
        yield
        return
    except asyncio.CancelledError:
        # The thread goes on, so the room that it takes has to be given back.
        taking.add_done_callback(partial(_leave, limits, key, jobs))
        raise
    try:
        yield
    finally:
        limits.leave_room(key, jobs)


def redrive(limits: Limits, queue: Queue[Any, Any], job: Record, delay: float, by: str) -> None:
    """Redrive a job if its queue has room for it; it may block."""
    limits.require_room(queue.key, int(job.state is State.FAILED))
    queue.redrive(job.id, delay=delay, by=by)


def move(limits: Limits, queue: Queue[Any, Any], job: Record, target: QueueKey, by: str) -> None:
    """Move a job if the other queue has room for it; it may block."""
    limits.require_room(target, int(job.state in LIVE), moved=True)
    queue.move(job.id, target.name, by=by)


def _leave(limits: Limits, key: QueueKey, jobs: int, taken: asyncio.Future[None]) -> None:
    if taken.exception() is None:
        limits.leave_room(key, jobs)


async def _all_exist(runtime: Runtime, queue: AsyncQueue[Any, Any], ids: Sequence[str]) -> bool:
    found = await runtime.call(runtime.store.get, queue.sync.key, ids)
    return all(job is not None and job.state not in REPLACED for job in found)
