"""Admits jobs on the event loop, within the limits of their tenant."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from ackline.aio import AsyncQueue

if TYPE_CHECKING:
    from ackline.service.runtime import Runtime


@asynccontextmanager
async def admit_jobs(
    runtime: Runtime, queue: AsyncQueue[Any, Any], jobs: int, ids: Sequence[str] = ()
) -> AsyncIterator[None]:
    """Wraps an enqueue like `Limiter.admitting`, in a thread if that may block."""
    key, limits = queue.sync.key, runtime.limits
    if not limits.has_depth_limit(key.tenant):
        limits.admit_jobs(key.tenant, jobs)
        yield
        return
    admitted = limits.admitting(key, jobs, ids)
    entering = runtime.threads.call(admitted.__enter__)
    try:
        await asyncio.shield(entering)
    except asyncio.CancelledError:
        # The thread goes on: release the capacity that it reserves.
        entering.add_done_callback(partial(_release, admitted))
        raise
    try:
        yield
    finally:
        admitted.__exit__(None, None, None)


def _release(admitted: AbstractContextManager[None], entered: asyncio.Future[None]) -> None:
    if entered.exception() is None:
        admitted.__exit__(None, None, None)
