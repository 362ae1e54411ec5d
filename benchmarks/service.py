"""The service, one process, against a trivial echo route of the same server in the same run.

python benchmarks/service.py [--store sqlite:///… ] [--seconds 3] [--connections 64]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from typing import Any

MESSAGE = {"value": {"to": "ann@example.com", "subject": "Welcome", "body": "x" * 40}}


# --- the server, a process of its own ---


def serve(store: str) -> None:
    from litestar import Litestar, post
    from litestar.params import JSONBody

    from ackline.service.app import create_app
    from ackline.service.runtime import Runtime
    from ackline.service.server import Server, address_of, bind
    from ackline.service.settings import Settings

    @post("/echo", status_code=200)
    async def echo(data: JSONBody[dict[str, Any]]) -> dict[str, Any]:
        return data

    settings = Settings(store=store, port=0)
    runtime = Runtime.from_settings(settings)
    service, plain = create_app(runtime=runtime), Litestar([echo], openapi_config=None)

    async def both(scope: Any, receive: Any, send: Any) -> None:
        app = plain if scope.get("path") == "/echo" else service
        await app(scope, receive, send)

    listener = bind(settings)
    server = Server(runtime, lambda: print(address_of(listener, settings), flush=True))
    server._server.config.app = both
    server.run(listener)


# --- the client: as little as it takes ---


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 24))

    async def post(self, path: str, body: bytes) -> bytes:
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        self._writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        head_bytes = await self._reader.readuntil(b"\r\n\r\n")
        status = head_bytes[9:12]
        length = int(head_bytes.lower().partition(b"content-length:")[2].partition(b"\r")[0])
        answer = await self._reader.readexactly(length)
        if status not in (b"200", b"201"):
            raise RuntimeError(answer.decode())
        return answer

    def close(self) -> None:
        self._writer.close()


async def rate(
    port: int, connections: int, seconds: float, act: Callable[[Connection], Awaitable[int]]
) -> tuple[float, float]:
    """How many a second, and the median of one request in milliseconds."""
    links = [await Connection.open(port) for _ in range(connections)]
    until = time.perf_counter() + seconds
    took: list[float] = []
    done = 0

    async def run(link: Connection) -> None:
        nonlocal done
        while (began := time.perf_counter()) < until:
            jobs = await act(link)
            done += jobs
            took.append(time.perf_counter() - began)

    await asyncio.gather(*map(run, links))
    for link in links:
        link.close()
    return done / seconds, sorted(took)[len(took) // 2] * 1000


def sender(path: str, body: Any, jobs: int = 1) -> Callable[[Connection], Awaitable[int]]:
    data = json.dumps(body).encode()

    async def act(link: Connection) -> int:
        await link.post(path, data)
        return jobs

    return act


async def claim_and_settle(link: Connection) -> int:
    answer = await link.post("/api/v1/queues/batch/claim", b'{"limit": 500}')
    jobs = json.loads(answer)["jobs"]
    done = [{"id": job["id"], "token": job["token"], "outcome": "complete"} for job in jobs]
    if done:
        await link.post("/api/v1/queues/batch/settle", json.dumps({"outcomes": done}).encode())
    return len(done)


async def stream(port: int, count: int) -> float:
    """How many messages a second one stream takes, each acknowledged."""
    fill = await Connection.open(port)
    batch = {"jobs": [{"payload": n} for n in range(500)]}
    for _ in range(count // 500):
        await fill.post("/api/v1/queues/sse/jobs/batch", json.dumps(batch).encode())
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    writer.write(
        b"GET /api/queue/listen?queue=sse&prefetch=100 HTTP/1.1\r\nhost: localhost\r\n\r\n"
    )
    links = [await Connection.open(port) for _ in range(8)]
    waiting: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    began, left = time.perf_counter(), count

    async def listen() -> None:
        async for line in reader:
            if line.startswith(b"data: {"):
                waiting.put_nowait(json.loads(line[6:]))

    async def acknowledge(link: Connection) -> None:
        nonlocal left
        while left > 0:
            with contextlib.suppress(TimeoutError):
                message = await asyncio.wait_for(waiting.get(), 0.2)
                left -= 1
                body = {"id": message["id"], "receipt": message["receipt"], "queue": "sse"}
                await link.post("/api/queue/ack", json.dumps(body).encode())

    listening = asyncio.create_task(listen())
    await asyncio.gather(*map(acknowledge, links))
    took = time.perf_counter() - began
    listening.cancel()
    writer.close()
    return count / took


async def measure(port: int, connections: int, seconds: float) -> None:
    batch = {"jobs": [{"payload": MESSAGE["value"]} for _ in range(500)]}
    enqueue, enqueue_v1 = (
        sender("/api/queue/enqueue", MESSAGE),
        sender("/api/v1/queues/one/jobs", {"payload": MESSAGE["value"]}),
    )
    echo_first, _ = await rate(port, connections, seconds, sender("/echo", MESSAGE))
    single, median = await rate(port, connections, seconds, enqueue)
    single_v1, _ = await rate(port, connections, seconds, enqueue_v1)
    echo_last, echo_median = await rate(port, connections, seconds, sender("/echo", MESSAGE))
    echo = (echo_first + echo_last) / 2
    print(f"echo               {echo:9,.0f}/s   p50 {echo_median:.2f} ms")
    print(
        f"enqueue            {single:9,.0f}/s   p50 {median:.2f} ms   {single / echo:.2f} of echo"
    )
    print(f"enqueue v1         {single_v1:9,.0f}/s   {single_v1 / echo:.2f} of echo")
    alone, alone_median = await rate(port, 1, 1.0, enqueue)
    _, echo_alone = await rate(port, 1, 1.0, sender("/echo", MESSAGE))
    print(
        f"enqueue, 1 caller  {alone:9,.0f}/s   p50 {alone_median:.2f} ms, echo {echo_alone:.2f} ms"
    )
    batched, _ = await rate(port, 4, seconds, sender("/api/v1/queues/batch/jobs/batch", batch, 500))
    print(f"enqueue by 500     {batched:9,.0f} jobs/s")
    worked, _ = await rate(port, 4, seconds, claim_and_settle)
    print(f"claim+settle 500   {worked:9,.0f} jobs/s")
    print(f"one stream         {await stream(port, 3000):9,.0f} messages/s, each acknowledged")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--store")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    with tempfile.TemporaryDirectory() as place:
        store = options.store or f"sqlite:///{place}/jobs.db"
        server = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--serve", store],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert server.stdout is not None
        port = int(server.stdout.readline().rpartition(":")[2])
        try:
            asyncio.run(measure(port, options.connections, options.seconds))
        finally:
            server.terminate()
            server.wait(20)


if __name__ == "__main__":
    main()
