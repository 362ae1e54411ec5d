"""Requests that wait, for jobs or for a result, until the client disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from litestar.types import Receive

from ackline.service.auth.caller import Caller
from ackline.service.delivery.claims import Claimer
from ackline.service.delivery.in_flight import InFlightJob
from ackline.service.http.problems import ShuttingDown
from ackline.service.http.request_body import ClientDisconnected
from ackline.service.http.sse import StreamSignal

T = TypeVar("T")

LOOP_PASSES = 6
"""Passes of the event loop in which it notices that a connection was closed."""


async def claim_for_request(
    caller: Caller,
    claims: Claimer,
    limit: int,
    wait: float,
    document: Callable[[InFlightJob], T],
) -> list[T]:
    """Claim jobs for a request, as documents, and remember them until they are settled.

    If the client has left before its answer is written, it gets no jobs: they are given back.
    """
    runtime = claims.runtime
    if runtime.draining:
        return []
    jobs = await (_wait_for_jobs(caller, claims, limit, wait) if wait > 0 else claims.claim(limit))
    try:
        size = sum(len(handed.job.payload) for handed in jobs)
        documents = await runtime.run_if_large(size, lambda: list(map(document, jobs)))
        left = bool(jobs) and await _is_disconnected(caller.receive)
    except BaseException:
        runtime.start_task(claims.release(jobs))
        raise
    if left:
        await claims.release(jobs)
        return []
    runtime.in_flight.add(jobs)
    return documents


async def _is_disconnected(receive: Receive) -> bool:
    stream = StreamSignal()
    watching = asyncio.create_task(stream.watch_disconnect(receive))
    for _ in range(LOOP_PASSES):
        await asyncio.sleep(0)
    watching.cancel()
    return stream.disconnected


async def _wait_for_jobs(
    caller: Caller, claims: Claimer, limit: int, seconds: float
) -> list[InFlightJob]:
    runtime = caller.runtime
    caller.count_waiting_queues(claims.queue_count)
    with runtime.limits.stream_slot(caller.tenant):
        stream = runtime.streams.open()
        watching = asyncio.create_task(stream.watch_disconnect(caller.receive))
        try:
            return await claims.wait_for(limit, seconds, stream)
        finally:
            watching.cancel()
            runtime.streams.close(stream)


async def wait_for_result(caller: Caller, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of the work, unless the client leaves or the service stops before."""
    with caller.runtime.limits.stream_slot(caller.tenant):
        return await _wait_for(caller, work())


async def _wait_for(caller: Caller, work: Coroutine[Any, Any, T]) -> T:
    streams = caller.runtime.streams
    stream = streams.open(caller.principal.until)
    watching = asyncio.create_task(stream.watch_disconnect(caller.receive))
    ending = asyncio.create_task(stream.wake.wait())
    working = asyncio.create_task(work)
    try:
        await asyncio.wait({working, ending}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        if stream.disconnected:
            raise ClientDisconnected("the client left before there was an answer")
        raise ShuttingDown("the service is about to stop: ask again, of another instance or later")
    finally:
        for task in (watching, ending, working):
            task.cancel()
        streams.close(stream)
