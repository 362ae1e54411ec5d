"""The measures of one store, in the order of the table."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import threading
import time
from collections.abc import AsyncIterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import msgspec

import ackline
from service_benchmark.client import Act, Connection, rate, requests, sender

PAYLOAD = {"to": "ann@example.com", "subject": "Welcome", "body": "x" * 40}
MESSAGE = {"value": PAYLOAD}
BATCH = 500

Row = dict[str, Any]
"""`measure`, and of `per_second`, `p50_ms`, `of_echo`, `library_p50_ms` what it has."""


async def measure(port: int, store: str, connections: int, seconds: float) -> AsyncIterator[Row]:
    """One row after the other."""
    echo, echo_p50 = await requests(port, connections, seconds, "/echo", MESSAGE)
    rows: list[Row] = []
    for name, path, body in (
        ("enqueue", "/api/queue/enqueue", MESSAGE),
        ("enqueue, v1", "/api/v1/queues/one/jobs", {"payload": PAYLOAD}),
    ):
        enqueued, p50 = await requests(port, connections, seconds, path, body)
        again, _ = await requests(port, connections, seconds, "/echo", MESSAGE)
        rows.append({"measure": name, "per_second": enqueued, "p50_ms": p50, "echo": again})
    echo = statistics.mean([echo, *(row["echo"] for row in rows)])
    yield {"measure": "echo, which does nothing", "per_second": echo, "p50_ms": echo_p50}
    for row in rows:
        yield _of_echo(row, echo)
    yield await _alone(port, store)
    batch = {"jobs": [{"payload": PAYLOAD}] * BATCH}
    enqueued, _ = await rate(
        port, 4, seconds, sender("/api/v1/queues/batch/jobs/batch", batch, BATCH)
    )
    yield {"measure": f"enqueue, {BATCH} in a request", "per_second": enqueued}
    worked, _ = await rate(port, 4, seconds, worker_of("batch"))
    yield {"measure": f"claim and settle, {BATCH} in a request", "per_second": worked}
    yield {"measure": "one stream, each message acknowledged", "per_second": await _stream(port)}
    yield {"measure": "webhooks delivered", "per_second": await _webhooks(port)}


def _of_echo(row: Row, echo: float) -> Row:
    return {
        "measure": row["measure"],
        "per_second": row["per_second"],
        "p50_ms": row["p50_ms"],
        "of_echo": row["per_second"] / echo,
    }


async def _alone(port: int, store: str) -> Row:
    """One caller, and the same through the library: what HTTP adds."""
    enqueued, p50 = await rate(port, 1, 2.0, sender("/api/queue/enqueue", MESSAGE))
    return {
        "measure": "enqueue, one caller",
        "per_second": enqueued,
        "p50_ms": p50,
        "library_p50_ms": await asyncio.to_thread(_library_median, store),
    }


def _library_median(store: str) -> float:
    took = []
    with ackline.open(store) as queues:
        queue, until = queues["library"], time.perf_counter() + 2.0
        while (began := time.perf_counter()) < until:
            queue.enqueue(PAYLOAD)
            took.append(time.perf_counter() - began)
    return statistics.median(took) * 1000


async def _fill(port: int, queue: str, count: int, **options: Any) -> None:
    link = await Connection.open(port)
    batch = {"jobs": [{"payload": PAYLOAD, **options}] * BATCH}
    for _ in range(count // BATCH):
        await link.post(f"/api/v1/queues/{queue}/jobs/batch", msgspec.json.encode(batch))
    link.close()


async def _stream(port: int, count: int = 6000) -> float:
    """Messages per second of one stream, acknowledged over eight connections."""
    await _fill(port, "sse", count)
    stream = await Connection.open(port)
    began, left = time.perf_counter(), count
    stream.writer.write(
        b"GET /api/queue/listen?queue=sse&prefetch=100 HTTP/1.1\r\nhost: localhost\r\n\r\n"
    )
    waiting: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def listen() -> None:
        async for line in stream.reader:
            if line.startswith(b"data: {"):
                waiting.put_nowait(msgspec.json.decode(line[6:]))

    async def acknowledge(link: Connection) -> None:
        nonlocal left
        while left > 0:
            with contextlib.suppress(TimeoutError):
                message = await asyncio.wait_for(waiting.get(), 0.2)
                left -= 1
                body = {name: message[name] for name in ("id", "receipt", "queue")}
                await link.post("/api/queue/ack", msgspec.json.encode(body))

    listening = asyncio.create_task(listen())
    links = [await Connection.open(port) for _ in range(8)]
    await asyncio.gather(*map(acknowledge, links))
    took = time.perf_counter() - began
    listening.cancel()
    for link in (stream, *links):
        link.close()
    return count / took


class Receiver(BaseHTTPRequestHandler):
    """Answers 200, and records when."""

    protocol_version = "HTTP/1.1"
    received_at: ClassVar[list[float]] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.received_at.append(time.perf_counter())
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_args: Any) -> None:
        """Log nothing."""


class Receivers(ThreadingHTTPServer):
    """One thread for each connection."""

    daemon_threads = True
    request_queue_size = 128


async def _webhooks(port: int, count: int = 2000) -> float:
    """How many webhook messages per second a receiver here gets, from the first one on."""
    Receiver.received_at.clear()
    server = Receivers(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/"
    link = await Connection.open(port)
    await _fill(port, "hooks", count, callback_url=url)
    work, until = worker_of("hooks"), time.perf_counter() + 60
    while await work(link):
        pass
    while len(Receiver.received_at) < count and time.perf_counter() < until:
        await asyncio.sleep(0.01)
    link.close()
    server.shutdown()
    return len(Receiver.received_at) / (Receiver.received_at[-1] - Receiver.received_at[0])


def worker_of(queue: str) -> Act:
    """Claims a batch of a queue, and completes all of it."""

    async def act(link: Connection) -> int:
        answer = await link.post(f"/api/v1/queues/{queue}/claim", b'{"limit": %d}' % BATCH)
        jobs = msgspec.json.decode(answer)["jobs"]
        done = [{"id": job["id"], "token": job["token"], "outcome": "complete"} for job in jobs]
        if done:
            body = msgspec.json.encode({"outcomes": done})
            await link.post(f"/api/v1/queues/{queue}/settle", body)
        return len(done)

    return act
