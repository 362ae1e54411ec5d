"""Server-sent events: how they are encoded, and the open streams of a process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from litestar.response import Stream
from litestar.types import Receive

MEDIA_TYPE = "text/event-stream"
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}
"""Proxies must not buffer the stream."""


def sse_event(name: str, data: bytes = b"", id: str | None = None) -> bytes:
    """Encode one event."""
    lines = [b"event: " + name.encode()]
    if id is not None:
        # A line break would start another field; clients ignore ids with a NUL.
        lines.append(b"id: " + id.translate(_NO_BREAKS).encode())
    lines += [b"data: " + line for line in _lines(data)]
    return b"\n".join([*lines, b"", b""])


def _lines(data: bytes) -> list[bytes]:
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")


_NO_BREAKS = {ord(break_): "\N{REPLACEMENT CHARACTER}" for break_ in "\r\n\0"}

PING = sse_event("ping")

EMPTY_CHUNK = b""
"""Sent after a large chunk, whose memory is otherwise kept until the next one."""

LARGE_CHUNK = 64 * 1024
"""Chunks with more bytes are large."""

TICKET_PARAMETER = "ticket"
"""The query parameter that authenticates streams in browsers, which cannot send headers."""


def is_event_stream(handler: Any) -> bool:
    """Whether a route responds with server-sent events."""
    return bool(getattr(handler, "media_type", None) == MEDIA_TYPE)


def stream_response(events: AsyncIterator[bytes]) -> Stream:
    """A response that lasts until its iterator ends or the client disconnects."""
    return Stream(events, media_type=MEDIA_TYPE, headers=HEADERS)


class StreamSignal:
    """Wakes a stream or long poll, or ends it."""

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self.ended = False
        self.disconnected = False
        """Whether it ended because its client disconnected."""

    async def watch_disconnect(self, receive: Receive) -> None:
        """End when the client disconnects; a stream that only waits would not notice."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self.disconnected = True
        self.end()

    def end(self) -> None:
        """End the stream as soon as it wakes."""
        self.ended = True
        self.wake.set()

    async def wait(self, seconds: float) -> bool:
        """Wait until woken (True), or for this many seconds (False)."""
        try:
            async with asyncio.timeout(seconds):
                await self.wake.wait()
        except TimeoutError:
            return False
        self.wake.clear()
        return True


class OpenStreams:
    """All open streams of this process."""

    def __init__(self) -> None:
        self._open: dict[StreamSignal, asyncio.TimerHandle | None] = {}
        self._draining = False

    def __len__(self) -> int:
        return len(self._open)

    def open(self, until: float | None = None, stream: StreamSignal | None = None) -> StreamSignal:
        """Open a stream until `until`; while the service shuts down, it ends immediately."""
        stream = stream or StreamSignal()
        self._open[stream] = None if until is None else _end_later(stream, until)
        if self._draining:
            stream.end()
        return stream

    def close(self, stream: StreamSignal) -> None:
        """Forget a stream that has ended."""
        timer = self._open.pop(stream, None)
        if timer is not None:
            timer.cancel()

    def end_all(self) -> None:
        """End all streams, and those that are opened later."""
        self._draining = True
        for stream in self._open:
            stream.end()


def _end_later(stream: StreamSignal, until: float) -> asyncio.TimerHandle:
    return asyncio.get_running_loop().call_later(max(0.0, until - time.time()), stream.end)
