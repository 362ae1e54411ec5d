"""Handing jobs out to a request, which may wait for some."""

from __future__ import annotations

import asyncio

from litestar.types import Receive

from ackline.service.claims import Claims
from ackline.service.held import Handed


async def hand_out(claims: Claims, limit: int, wait: float, receive: Receive) -> list[Handed]:
    """Claim jobs for a request, and remember them until they are settled."""
    runtime = claims.runtime
    if runtime.draining:
        return []
    jobs = await (_await_jobs(claims, limit, wait, receive) if wait > 0 else claims.claim(limit))
    runtime.held.add(jobs)
    return jobs


async def _await_jobs(claims: Claims, limit: int, seconds: float, receive: Receive) -> list[Handed]:
    runtime = claims.runtime
    limits, tenant = runtime.limits, claims.tenant
    with limits.waiting(tenant, claims.names), limits.seated(tenant):
        stream = runtime.streams.open()
        watching = asyncio.create_task(stream.watch(receive))
        try:
            jobs = await claims.wait_for(limit, seconds, stream)
        finally:
            watching.cancel()
            runtime.streams.close(stream)
    if jobs and stream.left:
        await claims.release(jobs)
        return []
    return jobs
