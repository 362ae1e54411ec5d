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
"""Passes of the event loop after which it has noticed a closed connection."""


async def claim_for_request(
    caller: Caller,
    claims: Claimer,
    limit: int,
    wait: float,
    document: Callable[[InFlightJob], T],
) -> list[T]:
    """Claim jobs for a request, as documents, and remember them until they are settled.

    If the client has disconnected before the response is written, the jobs are released.
    """
    runtime = claims.runtime
    if runtime.draining:
        return []
    jobs = await (_wait_for_jobs(caller, claims, limit, wait) if wait > 0 else claims.claim(limit))
    try:
        size = sum(len(sent.job.payload) for sent in jobs)
        documents = await runtime.run_if_large(size, lambda: list(map(document, jobs)))
        disconnected = bool(jobs) and await _is_disconnected(caller.receive)
    except BaseException:
        runtime.start_task(claims.release(jobs))
        raise
    if disconnected:
        await claims.release(jobs)
        return []
    runtime.in_flight.add(jobs)
    return documents


async def _is_disconnected(receive: Receive) -> bool:
    stream = StreamSignal()
    watcher = asyncio.create_task(stream.watch_disconnect(receive))
    for _ in range(LOOP_PASSES):
        await asyncio.sleep(0)
    watcher.cancel()
    return stream.disconnected


async def _wait_for_jobs(
    caller: Caller, claims: Claimer, limit: int, seconds: float
) -> list[InFlightJob]:
    runtime = caller.runtime
    caller.count_waiting_queues(claims.queue_count)
    with runtime.limits.stream_slot(caller.tenant):
        stream = runtime.streams.open()
        watcher = asyncio.create_task(stream.watch_disconnect(caller.receive))
        try:
            return await claims.wait_for(limit, seconds, stream)
        finally:
            watcher.cancel()
            runtime.streams.close(stream)


async def wait_for_result(caller: Caller, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of the work, unless the client disconnects or the service stops first."""
    with caller.runtime.limits.stream_slot(caller.tenant):
        return await _wait_for(caller, work())


async def _wait_for(caller: Caller, work: Coroutine[Any, Any, T]) -> T:
    streams = caller.runtime.streams
    stream = streams.open(caller.principal.until)
    watcher = asyncio.create_task(stream.watch_disconnect(caller.receive))
    end = asyncio.create_task(stream.wake.wait())
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task, end}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if stream.disconnected:
            raise ClientDisconnected("the client disconnected before there was a result")
        raise ShuttingDown("the service is shutting down: retry, on another instance or later")
    finally:
        for one in (watcher, end, task):
            one.cancel()
        streams.close(stream)
