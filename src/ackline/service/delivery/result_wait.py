"""Waiting on behalf of a request, which ends when its client leaves or the service stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ackline.service.auth.caller import Caller
from ackline.service.http.problems import ShuttingDown
from ackline.service.http.request_body import ClientDisconnected

T = TypeVar("T")


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
