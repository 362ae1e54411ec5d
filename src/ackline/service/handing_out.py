"""Handing jobs out to a request, which may wait for some."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from litestar.types import Receive

from ackline.service.auth.caller import Caller
from ackline.service.claims import Claims
from ackline.service.held import Handed
from ackline.service.streams import StreamEnd

T = TypeVar("T")

PASSES = 6
"""Passes of the event loop in which it notices that a connection was closed."""


async def hand_out(
    caller: Caller,
    claims: Claims,
    limit: int,
    wait: float,
    document: Callable[[Handed], T],
) -> list[T]:
    """Claim jobs for a request, as documents, and remember them until they are settled.

    If the client has left before its answer is written, it gets no jobs: they are given back.
    """
    runtime = claims.runtime
    if runtime.draining:
        return []
    jobs = await (_await_jobs(caller, claims, limit, wait) if wait > 0 else claims.claim(limit))
    try:
        size = sum(len(handed.job.payload) for handed in jobs)
        documents = await runtime.convert(size, lambda: list(map(document, jobs)))
        left = bool(jobs) and await _has_left(caller.receive)
    except BaseException:
        runtime.soon(claims.release(jobs))
        raise
    if left:
        await claims.release(jobs)
        return []
    runtime.held.add(jobs)
    return documents


async def _has_left(receive: Receive) -> bool:
    stream = StreamEnd()
    watching = asyncio.create_task(stream.watch(receive))
    for _ in range(PASSES):
        await asyncio.sleep(0)
    watching.cancel()
    return stream.left


async def _await_jobs(caller: Caller, claims: Claims, limit: int, seconds: float) -> list[Handed]:
    runtime = caller.runtime
    caller.will_wait_for(claims.names)
    with runtime.limits.seated(caller.tenant):
        stream = runtime.streams.open()
        watching = asyncio.create_task(stream.watch(caller.receive))
        try:
            return await claims.wait_for(limit, seconds, stream)
        finally:
            watching.cancel()
            runtime.streams.close(stream)
