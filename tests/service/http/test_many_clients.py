"""Many streams and incomplete requests: others are still answered promptly."""

from __future__ import annotations

import asyncio
import json
import resource
import time
from typing import Any

import pytest

from ackline.service.http.connection import raise_open_file_limit

QUEUES = 10
HALF = b"POST /api/queue/enqueue HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n{"


class Clients:
    """Listeners that acknowledge, incomplete requests, and one timed client."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.seen: list[str] = []
        self._settling: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._links: list[asyncio.StreamWriter] = []

    async def gather(self, listeners: int, halves: int) -> None:
        for n in range(listeners):
            reader, writer = await self._connect()
            target = f"/api/queue/listen?queue=q{n % QUEUES}&prefetch=1"
            writer.write(f"GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            await reader.readuntil(b"event: ping")
            self._start(self._listen(reader, f"q{n % QUEUES}"))
        for _ in range(halves):
            _, writer = await self._connect()
            writer.write(HALF)
        for _ in range(4):
            self._start(self._settle())

    async def time_requests(self, seconds: float) -> tuple[list[float], list[str]]:
        """The duration of each request of the timed client, and what it enqueued."""
        reader, writer = await self._connect()
        took: list[float] = []
        sent: list[str] = []
        until = time.perf_counter() + seconds
        while (began := time.perf_counter()) < until:
            id = f"job-{len(sent)}"
            body = {"value": 1, "options": {"queue": f"q{len(sent) % QUEUES}", "id": id}}
            await self._post(reader, writer, "/api/queue/enqueue", body)
            took.append(time.perf_counter() - began)
            sent.append(id)
            await asyncio.sleep(0.005)
        return took, sent

    async def drain(self, sent: list[str]) -> None:
        async with asyncio.timeout(30):
            while len(self.seen) < len(sent):
                await asyncio.sleep(0.05)
        for task in self._tasks:
            task.cancel()
        for link in self._links:
            link.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Any) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._links.append(writer)
        return reader, writer

    async def _listen(self, reader: asyncio.StreamReader, queue: str) -> None:
        async for line in reader:
            if line.startswith(b"data: {"):
                message = json.loads(line[6:])
                self.seen.append(message["id"])
                body = {"id": message["id"], "receipt": message["receipt"], "queue": queue}
                self._settling.put_nowait(body)

    async def _settle(self) -> None:
        reader, writer = await self._connect()
        while True:
            await self._post(reader, writer, "/api/queue/ack", await self._settling.get())

    async def _post(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, body: Any
    ) -> None:
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        writer.write(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
        answered = await reader.readuntil(b"\r\n\r\n")
        length = answered.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
        await reader.readexactly(int(length))
        assert answered.startswith(b"HTTP/1.1 200"), answered


def time_among(serve, listeners: int, halves: int, seconds: float) -> list[float]:
    raise_open_file_limit()
    port = int(serve().url.rpartition(":")[2].split("/")[0])

    async def run() -> list[float]:
        clients = Clients(port)
        await clients.gather(listeners, halves)
        took, sent = await clients.time_requests(seconds)
        await clients.drain(sent)
        assert sorted(clients.seen) == sorted(sent)
        return took

    return sorted(asyncio.run(run()))


def percentile(took: list[float], percent: int) -> float:
    return took[len(took) * percent // 100]


def test_many_clients(serve):
    took = time_among(serve, 100, 50, 1.5)

    assert percentile(took, 50) < 0.25


@pytest.mark.slow
def test_a_thousand_streams_and_two_hundred_incomplete_requests(serve):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 3000:
        pytest.skip(f"only {hard} files may be open here")
    took = time_among(serve, 1000, 200, 12.0)

    print(f"p50 {percentile(took, 50) * 1e3:.1f} ms, p99 {percentile(took, 99) * 1e3:.1f} ms")
    assert percentile(took, 99) < 0.25
