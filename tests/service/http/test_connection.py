"""Clients that stall are disconnected, without effect on others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import socket
import time
from typing import Any, cast

import msgspec
import pytest
from litestar.types import HTTPScope
from tests.service.conftest import Live
from tests.waiting import until
from uvicorn.protocols.http.h11_impl import H11Protocol

from ackline.service import Settings, server
from ackline.service.http import connection
from ackline.service.http.body_memory import BodyMemory, ReceivedBody
from ackline.service.http.problems import Busy

SOON = 0.4
HALF_HEAD = b"POST /api/queue/enqueue HTTP/1.1\r\nhost: localhost\r\ncontent-ty"
HEAD = b"POST /api/queue/enqueue HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
HALF_BODY = HEAD + b'content-length: 100\r\n\r\n{"value": '
HALF_CHUNK = HEAD + b'transfer-encoding: chunked\r\n\r\n50\r\n{"value": '
PIPELINED = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n" + HALF_HEAD
UNREAD_BODY = b"GET /livez HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n"
HALVES = {
    "nothing": b"",
    "head": HALF_HEAD,
    "body": HALF_BODY,
    "chunk": HALF_CHUNK,
    "pipelined": PIPELINED,
    "unread body": UNREAD_BODY,
}


@pytest.fixture
def settings(tmp_path) -> Settings:
    return Settings(store=f"sqlite:///{tmp_path}/jobs.db", port=0, drain=0.0, receive_timeout=SOON)


def connect(live) -> socket.socket:
    host, port = live.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=10)


def read_to_end(link: socket.socket) -> bytes:
    response = b""
    while piece := link.recv(65536):
        response += piece
    return response


@pytest.mark.parametrize("half", HALVES)
def test_an_incomplete_request_is_timed_out(live, caplog, half):
    began = time.monotonic()
    with connect(live) as link:
        link.sendall(HALVES[half])
        response = read_to_end(link)

    assert SOON * 0.9 <= time.monotonic() - began < 5
    if half in ("nothing", "unread body"):
        assert b"408" not in response
    else:
        head, _, body = response.rpartition(b"\r\n\r\n")
        assert b"HTTP/1.1 408 Request Timeout" in head
        assert json.loads(body)["type"] == "urn:ackline:problem:request-timeout"
    assert live.api.get("/queue/stats")["total"] == 0
    assert not [one for one in caplog.records if one.levelname == "ERROR"]


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nhost: localhost\r\nbad header\r\n\r\n",
        b"GET /livez HTTP/1.1\r\n\r\n",
        b"POST /api/queue/enqueue HTTP/1.1\r\nhost: localhost\r\n"
        b"transfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["request line", "header", "no host", "chunk"],
)
def test_malformed_http_is_a_problem(live, sent):
    with connect(live) as link:
        link.sendall(sent)
        head, _, body = read_to_end(link).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"content-type: application/problem+json" in head
    problem = json.loads(body)
    assert (problem["type"], problem["status"]) == ("urn:ackline:problem:malformed-http", 400)
    live.api.get("/queue/stats")


def test_control_uvicorn_waits_forever(monkeypatch, runtime):
    """Control: uvicorn's own behaviour."""
    monkeypatch.setattr(server, "connection_class", lambda _settings: H11Protocol)
    plain = Live(runtime)
    try:
        with connect(plain) as link:
            link.sendall(HALF_HEAD)
            link.settimeout(SOON * 3)
            with pytest.raises(TimeoutError):
                link.recv(1000)
    finally:
        plain.stop()


def test_a_slow_trickle_is_timed_out(live):
    began = time.monotonic()
    with connect(live) as link, contextlib.suppress(OSError):
        link.sendall(HALF_BODY)
        while time.monotonic() - began < 5:
            link.sendall(b" ")
            time.sleep(SOON / 5)

    assert time.monotonic() - began < 5


def test_a_large_body_gets_more_time(live, monkeypatch):
    monkeypatch.setattr(connection, "MIN_UPLOAD_RATE", 1000)
    body = json.dumps({"value": "x" * 3000}).encode()
    pieces = [body[at : at + 1000] for at in range(0, len(body), 1000)]
    with connect(live) as link:
        link.sendall(HEAD + b"content-length: %d\r\n\r\n" % len(body))
        for piece in pieces:
            time.sleep(SOON / 2.5)
            link.sendall(piece)
        assert link.recv(100).startswith(b"HTTP/1.1 200")


def test_waiting_for_a_response_is_not_timed(live):
    assert live.api.get("/queue/poll", wait=SOON * 3)["message"] is None


class TestBetweenRequests:
    @pytest.fixture
    def settings(self, settings):
        return msgspec.structs.replace(settings, idle_timeout=0.3)

    def test_a_connection_is_kept_for_a_while(self, live):
        with connect(live) as link:
            for _ in range(2):
                link.sendall(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
                response = b""
                while not response.endswith(b'alive"}'):
                    response += link.recv(1000)
                assert response.startswith(b"HTTP/1.1 200")
            began = time.monotonic()
            assert link.recv(1000) == b""
            assert 0.2 < time.monotonic() - began < 5


class TestClientsThatDoNotRead:
    @pytest.fixture
    def settings(self, settings):
        return msgspec.structs.replace(settings, send_timeout=0.3)

    def test_are_disconnected_and_their_jobs_recovered(self, live):
        for _ in range(30):
            live.api.enqueue("x" * 500_000)
        with connect(live) as link:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            link.sendall(b"GET /api/queue/listen?prefetch=30 HTTP/1.1\r\nhost: localhost\r\n\r\n")
            until(lambda: live.api.get("/queue/stats")["processing"])
            until(lambda: not live.api.get("/queue/stats")["processing"])

        assert live.api.get("/queue/stats")["pending"] == 30


HALF_OPEN = 200


async def open_half(live, n: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection with an incomplete request, of one kind or another."""
    host, port = live.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write((HALF_HEAD, HALF_BODY, HALF_CHUNK)[n % 3])
    return reader, writer


def test_hundreds_of_incomplete_requests_are_timed_out(live):
    async def response(n: int) -> bytes:
        reader, writer = await open_half(live, n)
        response = await reader.read()
        writer.close()
        return response

    async def responses() -> list[bytes]:
        return await asyncio.gather(*map(response, range(HALF_OPEN)))

    assert all(b" 408 " in response for response in asyncio.run(responses()))


class TestManyIncompleteRequests:
    @pytest.fixture
    def settings(self, settings):
        return msgspec.structs.replace(settings, receive_timeout=300.0)

    def test_hundreds_do_not_delay_others(self, live):
        async def enqueue_meanwhile() -> None:
            halves = [await open_half(live, n) for n in range(HALF_OPEN)]
            # In a thread, because the client blocks.
            await asyncio.to_thread(lambda: [live.api.enqueue() for _ in range(20)])
            for _, writer in halves:
                writer.close()

        asyncio.run(enqueue_meanwhile())

        assert live.api.get("/queue/stats")["pending"] == 20


def test_the_limit_of_open_files_is_raised(monkeypatch):
    raised_to = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 5000))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: raised_to.append(limits))

    connection.raise_open_file_limit()

    assert raised_to == [(5000, 5000)]


class TestIncompleteBodies:
    """Clients that send almost all of a large body must not exhaust the memory."""

    LIMIT = 4 * 1024 * 1024
    SIZE = 1024 * 1024

    @pytest.fixture
    def settings(self, settings):
        return msgspec.structs.replace(
            settings, receive_timeout=20.0, max_body=self.LIMIT, max_bodies=self.LIMIT
        )

    def _send_half(self, live, path: str = "/api/v1/queues/q/jobs/batch") -> socket.socket:
        link = connect(live)
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        link.sendall(f"{head}content-length: {self.SIZE}\r\n\r\n".encode() + b"[" * (self.SIZE - 9))
        return link

    def test_the_oldest_of_too_many_are_refused(self, live):
        memory = live.runtime.body_memory
        with contextlib.ExitStack() as stack:
            halves = list[socket.socket]()
            while len(halves) < 4:
                halves.append(stack.enter_context(self._send_half(live)))
                until(lambda: memory.used == len(halves) * (self.SIZE - 9))
            for oldest in halves:
                stack.enter_context(self._send_half(live))
                answer = b""
                while b"problem:busy" not in answer:
                    answer += oldest.recv(65536)
                assert answer.startswith(b"HTTP/1.1 503 ")
            until(lambda: memory.used == 4 * (self.SIZE - 9))

            assert live.api.post("/queue/enqueue", {"value": "x" * 500_000})["ok"]
        until(lambda: memory.used == 0)

    def test_answered_bodies_are_released(self, live):
        for _ in range(10):
            live.api.post("/queue/enqueue", {"value": "x" * 900_000})

        until(lambda: live.runtime.body_memory.used == 0)

    def test_a_chunk_that_arrives_during_eviction_is_not_kept(self):
        async def run() -> int:
            memory = BodyMemory(16)
            scope = cast(HTTPScope, {})
            body, other = (ReceivedBody(memory, scope) for _ in range(2))
            piece = {"type": "http.request", "body": b"12", "more_body": True}
            chunk = asyncio.get_running_loop().create_future()

            async def receive():
                return await chunk

            memory.reserve(body, 6)
            reading = asyncio.create_task(body.next(receive))
            await asyncio.sleep(0)
            chunk.set_result(piece)
            memory.reserve(other, 11)
            with pytest.raises(Busy):
                await reading
            return memory.used

        assert asyncio.run(run()) == 11

    def test_a_waiting_request_keeps_no_body(self, live):
        runtime = live.runtime
        body = b'{"wait": 20}' + b" " * 500_000
        head = "POST /api/v1/queues/q/claim HTTP/1.1\r\nhost: localhost\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        with contextlib.ExitStack() as stack:
            claims = [stack.enter_context(connect(live)) for _ in range(8)]
            for claim in claims:
                claim.sendall(head.encode() + body)
            until(lambda: len(runtime.streams) == len(claims))

            assert runtime.body_memory.used == 0
            for _ in claims:
                live.api.enqueue(1, queue="q")
            assert {claim.recv(65536)[:13] for claim in claims} == {b"HTTP/1.1 200 "}

    def test_thousands_are_evicted_immediately(self):
        async def run() -> float:
            memory = BodyMemory(20_000)

            async def receive() -> Any:
                return await asyncio.Event().wait()

            bodies = [ReceivedBody(memory, cast(HTTPScope, {})) for _ in range(5000)]
            for body in bodies:
                memory.reserve(body, 4)
            tasks = [asyncio.create_task(body.next(receive)) for body in bodies]
            await asyncio.sleep(0)
            began = time.perf_counter()
            memory.reserve(ReceivedBody(memory, cast(HTTPScope, {})), 20_000)
            took = time.perf_counter() - began
            assert len(await asyncio.gather(*tasks, return_exceptions=True)) == len(bodies)
            return took

        assert asyncio.run(run()) < 2.0
