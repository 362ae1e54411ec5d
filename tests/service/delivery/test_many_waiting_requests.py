"""What many waiting requests cost a process, and everybody else: on each store that is shared.

`ACKLINE_WAITING=CLAIMS,QUEUES,STREAMS,HALVES` sets the size of the slow one.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.harness.servers.postgres import PostgresServer
from tests.harness.servers.redis import RedisServer
from tests.service.conftest import Process

from ackline.service.http.connection import raise_open_file_limit

HALF = b"POST /api/queue/enqueue HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n{"
TICKS = os.sysconf("SC_CLK_TCK")
STORES = ["sqlite", "redis", "postgres"]

MOST_THREADS = 64
MOST_BYTES = 600_000_000
MOST_SECONDS = 0.25

Figures = dict[str, float]


class Observed:
    """Statistics of a process from the operating system."""

    def __init__(self, pid: int) -> None:
        self._proc = Path(f"/proc/{pid}")

    def status(self, field: str) -> int:
        lines = (self._proc / "status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(f"{field}:")).split()[1])

    @property
    def threads(self) -> int:
        return self.status("Threads")

    @property
    def memory(self) -> int:
        return self.status("VmRSS") * 1024

    @property
    def files(self) -> int:
        return len(os.listdir(self._proc / "fd"))

    @property
    def cpu(self) -> float:
        """CPU seconds used."""
        fields = (self._proc / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


class Client:
    """One connection; it sends a request and reads the answer."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def open(self) -> None:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port)

    async def request(self, method: str, path: str, body: Any = None) -> Any:
        await self.send(method, path, body)
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
        answer = json.loads(await self.reader.readexactly(int(length)))
        assert head.startswith(b"HTTP/1.1 200"), answer
        return answer

    async def send(self, method: str, path: str, body: Any = None) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        self.writer.write(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
        await self.writer.drain()

    def leave(self) -> None:
        self.writer.transport.abort()


class Clients:
    """Waiting clients, and one that works and is timed."""

    def __init__(self, process: Process) -> None:
        self.port = int(process.url.rpartition(":")[2].split("/")[0])
        self.process = Observed(process.process.pid)
        self.delays: list[float] = []
        """Seconds from an enqueue to the response of the waiting claim."""
        self._sent: dict[str, float] = {}
        self._clients: list[Client] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def client(self) -> Client:
        client = Client(self.port)
        await client.open()
        self._clients.append(client)
        return client

    def begin(self, work: Any) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def leave(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for client in self._clients:
            client.leave()

    def failed(self) -> list[BaseException]:
        done = [task for task in self._tasks if task.done() and not task.cancelled()]
        return [error for task in done if (error := task.exception()) is not None]

    async def claim(self, queues: list[str]) -> None:
        """Claim and settle forever, with pauses of different lengths."""
        client = await self.client()
        while True:
            body = {"queues": queues, "wait": random.uniform(20.0, 60.0)}
            for job in (await client.request("POST", "/api/v1/claims", body))["jobs"]:
                self.delays.append(time.perf_counter() - self._sent.pop(job["id"]))
                await self.ack(client, job["queue"], job["id"], job["token"])

    async def ack(self, client: Client, queue: str, id: str, receipt: str) -> None:
        body = {"queue": queue, "id": id, "receipt": receipt}
        await client.request("POST", "/api/queue/ack", body)

    async def stream(self, path: str, opened: asyncio.Semaphore) -> None:
        client = await self.client()
        await client.send("GET", path)
        await client.reader.readuntil(b"event: ping")
        opened.release()
        while await client.reader.read(65536):
            pass

    async def half(self) -> None:
        """An incomplete request, and another each time it is refused."""
        await asyncio.sleep(random.uniform(0.0, 8.0))
        while True:
            client = await self.client()
            client.writer.write(HALF)
            await client.reader.read()
            client.leave()
            self._clients.remove(client)

    async def work(self, queues: list[str], seconds: float) -> list[float]:
        """Enqueue and read; returns the duration of each request."""
        client = await self.client()
        took: list[float] = []
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            queue, id = random.choice(queues), f"job-{len(took)}"
            self._sent[id] = time.perf_counter()
            took += await timed(client, queue, id)
            await asyncio.sleep(0.02)
        return took


async def timed(client: Client, queue: str, id: str) -> list[float]:
    """Seconds to enqueue a job, and to read the queue."""
    began = time.perf_counter()
    body = {"value": 1, "options": {"queue": queue, "id": id}}
    await client.request("POST", "/api/queue/enqueue", body)
    enqueued = time.perf_counter()
    await client.request("GET", f"/api/queue/stats?queue={queue}")
    return [enqueued - began, time.perf_counter() - enqueued]


async def time_baseline(clients: Clients, took: list[float]) -> None:
    """The same requests to an idle process, as a baseline of the machine."""
    client = await clients.client()
    while True:
        took += await timed(client, "q", f"job-{len(took)}")
        await asyncio.sleep(0.02)


def percentile(took: list[float], percent: int) -> float:
    return sorted(took)[len(took) * percent // 100]


async def load(
    process: Process,
    unused: Process,
    claims: int,
    queues: int,
    streams: int,
    halves: int,
    seconds: float,
    settle: float,
) -> Figures:
    clients, names = Clients(process), [f"q{n}" for n in range(queues)]
    first = await clients.client()
    for name in names:  # event streams are of queues that exist
        await first.request("POST", "/api/queue/enqueue", {"value": 0, "options": {"queue": name}})
        job = (await first.request("GET", f"/api/queue/poll?queue={name}"))["message"]
        await clients.ack(first, name, job["id"], job["receipt"])
    for n in range(claims):
        clients.begin(clients.claim([names[n % queues]]))
        await asyncio.sleep(0.002)
    opened = asyncio.Semaphore(0)
    for n in range(streams):
        name = names[n % queues]
        path = f"/api/v1/events/stream?queue={name}" if n % 2 else f"/api/queue/listen?queue={name}"
        clients.begin(clients.stream(path, opened))
        await asyncio.sleep(0.002)
    for _ in range(streams):
        await opened.acquire()
    for _ in range(halves):
        clients.begin(clients.half())
    await asyncio.sleep(settle)
    before = clients.process.cpu
    await asyncio.sleep(settle)
    waiting = (clients.process.cpu - before) / settle
    control: list[float] = []
    baseline = Clients(unused)
    baseline.begin(time_baseline(baseline, control))
    took = await clients.work(names, seconds)
    figures = {
        "p50 ms": percentile(took, 50) * 1e3,
        "p99 ms": percentile(took, 99) * 1e3,
        "p99 ms of a process that nobody uses": percentile(control, 99) * 1e3,
        "claimed after ms": percentile(clients.delays, 50) * 1e3 if clients.delays else 0.0,
        "threads": clients.process.threads,
        "MB": clients.process.memory / 1e6,
        "cores while all wait": waiting,
    }
    assert not clients.failed(), clients.failed()[:3]
    await baseline.leave()
    await clients.leave()
    return figures


async def random_names(process: Process, claims: int, each: int) -> Figures:
    clients = Clients(process)
    await (await clients.client()).request("GET", "/api/v1/queues")
    before = clients.process.files
    for n in range(claims):
        clients.begin(clients.claim([f"random {n} {m}" for m in range(each)]))
    await asyncio.sleep(8.0)
    figures: Figures = {
        "threads": clients.process.threads,
        "files": clients.process.files - before - claims,
    }
    assert not clients.failed(), clients.failed()[:3]
    await clients.leave()
    await asyncio.sleep(18.0)
    used = clients.process.cpu
    await asyncio.sleep(4.0)
    figures["cores after all have left"] = (clients.process.cpu - used) / 4
    figures["files after"] = clients.process.files - before
    return figures


def url_of(store: str, folder: Path, request: pytest.FixtureRequest) -> str:
    match store:
        case "redis":
            server: RedisServer = request.getfixturevalue("redis_server")
            return f"{server.url}?prefix={folder.name}"
        case "postgres":
            postgres: PostgresServer = request.getfixturevalue("postgres_server")
            return f"{postgres.socket_url}&schema={folder.name}"
        case _:
            return f"sqlite:///{folder}/jobs.db"


@pytest.fixture
def started(
    tmp_path: Path, request: pytest.FixtureRequest, serve: Callable[..., Process]
) -> Callable[[str], Process]:
    raise_open_file_limit()
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 20_000:
        pytest.skip("too few files may be open here")
    return lambda store: serve("--store", url_of(store, tmp_path, request))


def show(name: str, figures: Figures) -> None:
    print(f"{name}: " + ", ".join(f"{key} {value:.4g}" for key, value in figures.items()))


def test_many_waiting_requests(
    started: Callable[[str], Process], serve: Callable[..., Process]
) -> None:
    figures = asyncio.run(
        load(started("sqlite"), serve("--store", "memory://"), 100, 40, 40, 20, 2.0, 0.5)
    )

    show("sqlite", figures)
    assert figures["threads"] <= MOST_THREADS


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("store", STORES)
def test_thousands_of_waiting_requests(
    started: Callable[[str], Process], serve: Callable[..., Process], store: str
) -> None:
    size = os.environ.get("ACKLINE_WAITING", "5000,2000,2000,200")
    claims, queues, streams, halves = map(int, size.split(","))
    figures = asyncio.run(
        load(
            started(store),
            serve("--store", "memory://"),
            claims,
            queues,
            streams,
            halves,
            20.0,
            5.0,
        )
    )

    show(store, figures)
    machine = figures["p99 ms of a process that nobody uses"]
    assert figures["p99 ms"] <= MOST_SECONDS * 1e3 + machine
    assert figures["threads"] <= MOST_THREADS
    assert figures["MB"] <= MOST_BYTES / 1e6


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", STORES)
def test_claims_of_many_random_names(started: Callable[[str], Process], store: str) -> None:
    figures = asyncio.run(random_names(started(store), 160, 64))

    show(store, figures)
    assert figures["threads"] <= MOST_THREADS
    assert figures["files"] <= 64
    assert figures["files after"] <= 64
    assert figures["cores after all have left"] <= 0.5
