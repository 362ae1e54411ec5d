"""The proxy cuts exactly at the requested points."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.harness.faults.processes import wait_for
from tests.harness.faults.proxy import CutSchedule, Proxy, ProxyListener


class Echo:
    """A server that echoes each line, and records what it received."""

    def __init__(self, name: bytes = b"") -> None:
        self.name = name
        self.received: list[bytes] = []
        self._listener = ProxyListener(self._serve)
        self.address = ("127.0.0.1", self._listener.port)

    def _serve(self, client: socket.socket) -> None:
        threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as lines, contextlib.suppress(ConnectionError):
            for line in lines:
                self.received.append(line.rstrip())
                client.sendall(self.name + line)

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def server() -> Iterator[Echo]:
    echo = Echo()
    yield echo
    echo.close()


@pytest.fixture
def proxy(server: Echo) -> Iterator[Proxy]:
    with Proxy(server.address) as proxy:
        yield proxy


def send(proxy: Proxy, *requests: bytes, timeout: float = 10.0) -> list[bytes]:
    """Send each over one connection; an empty answer is a connection that was cut."""
    with socket.create_connection(proxy.address, timeout=timeout) as client:
        return [exchange(client, request) for request in requests]


def exchange(client: socket.socket, request: bytes) -> bytes:
    try:
        client.sendall(request + b"\n")
        return client.recv(100).rstrip()
    except ConnectionError:
        return b""


def test_it_forwards_everything(proxy, server):
    assert send(proxy, b"one", b"two") == [b"one", b"two"]
    assert not proxy.done


def test_cut_before_the_request_reaches_the_server(proxy, server):
    proxy.cut_next("before")

    assert send(proxy, b"one") == [b""]
    assert send(proxy, b"two") == [b"two"]
    assert server.received == [b"two"]
    assert proxy.done == {"before": 1}


def test_cut_after_the_server_has_answered(proxy, server):
    proxy.cut_next("after")

    assert send(proxy, b"one") == [b""]
    assert send(proxy, b"two") == [b"two"]
    assert server.received == [b"one", b"two"]
    assert proxy.done == {"after": 1}


def test_skip_and_count_of_cuts(proxy):
    proxy.cut_next("after", skip=1, count=2)

    assert send(proxy, b"one", b"two") == [b"one", b""]
    assert send(proxy, b"three") == [b""]
    assert send(proxy, b"four") == [b"four"]


def test_cuts_can_match_requests(proxy, server):
    proxy.cut_next("before", matching=b"victim")

    assert send(proxy, b"one", b"the victim") == [b"one", b""]
    assert server.received == [b"one"]


def test_a_long_request_is_one_exchange(proxy, server):
    proxy.cut_next("after")
    proxy.cut_next("before")

    long = b"x" * 300_000

    assert send(proxy, long) == [b""]
    assert server.received == [long]
    assert proxy.done == {"after": 1}


def test_random_cuts_depend_on_the_seed():
    def drawn(seed: int) -> list[str | None]:
        cuts = CutSchedule()
        cuts.at_random(0.3, seed)
        return [cuts.decide(b"") for _ in range(200)]

    assert drawn(1) == drawn(1) != drawn(2)
    assert {"before", "after", None} == set(drawn(1))
    assert 30 < 200 - drawn(1).count(None) < 90


def test_clear_ends_the_cuts(proxy):
    proxy.cut_at_random(1.0, seed=1)
    assert send(proxy, b"one") == [b""]

    proxy.cuts.clear()

    assert send(proxy, b"one") == [b"one"]


def test_each_cut_is_reported_before_it_happens(server):
    reported: list[str] = []
    with Proxy(server.address, reported.append) as proxy:
        proxy.cut_next("before")
        proxy.cut_next("after")
        send(proxy, b"one")
        send(proxy, b"two")

    assert reported == ["before", "after"]


def test_refused_connections_fail_at_once(proxy):
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        send(proxy, b"one")

    proxy.accept()

    assert send(proxy, b"one") == [b"one"]


def test_refusing_leaves_old_connections_alone(proxy):
    with socket.create_connection(proxy.address, timeout=10) as client:
        assert exchange(client, b"one") == b"one"
        proxy.refuse()
        assert exchange(client, b"two") == b"two"
        proxy.cut_all()
        assert client.recv(100) == b""


def test_stalled_requests_arrive_later(proxy, server):
    proxy.stall()
    with pytest.raises(TimeoutError):
        send(proxy, b"one", timeout=0.05)
    assert server.received == []

    proxy.resume()

    wait_for("the request", lambda: server.received == [b"one"])


def test_it_can_switch_to_another_server(proxy):
    other = Echo(b"other ")
    with socket.create_connection(proxy.address, timeout=10) as client:
        assert exchange(client, b"one") == b"one"

        proxy.switch_to(other.address)

        assert client.recv(100) == b""
    assert send(proxy, b"two") == [b"other two"]
    other.close()


def test_an_unreachable_server_closes_the_connection(server):
    server.close()
    with Proxy(server.address) as proxy:
        assert send(proxy, b"one") == [b""]


def test_nothing_is_left_when_it_stops(server):
    before = threading.active_count()
    with Proxy(server.address) as proxy:
        client = socket.create_connection(proxy.address, timeout=10)
        proxy.stall()
        client.sendall(b"one")
    client.close()

    wait_for("the server's thread", lambda: threading.active_count() == before)
    assert proxy.connections() == []
