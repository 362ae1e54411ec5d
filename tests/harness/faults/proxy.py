"""A proxy on loopback that cuts, refuses or stalls connections between clients and a server.

It knows no protocol: an exchange is what a client sends, and what the server sends next. That is
exact for a client that waits for each answer. On a connection on which the server also sends
messages by itself, such as a subscription, a cut `after` may treat one as the answer.
"""

from __future__ import annotations

import contextlib
import random
import select
import socket
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

import msgspec

from tests.harness.servers.ports import HOST, free_port

CutPoint = Literal["before", "after", "delivered"]
"""Before the request reaches the server, before its answer reaches the client, or after that."""


class ConnectionCut(msgspec.Struct):
    """Cuts the next `count` exchanges with these bytes in the request or the answer."""

    point: CutPoint
    count: int = 1
    skip: int = 0
    matching: bytes = b""
    answering: bytes = b""


class CutSchedule:
    """Decides for each exchange whether it is cut; thread-safe."""

    def __init__(self) -> None:
        self.done: Counter[CutPoint] = Counter()
        self._cuts: list[ConnectionCut] = []
        self._probability = 0.0
        self._random = random.Random()
        self._lock = threading.Lock()

    def add(self, cut: ConnectionCut) -> None:
        """Cut the next exchanges that match, after letting `skip` of them pass."""
        with self._lock:
            self._cuts.append(msgspec.structs.replace(cut))

    def at_random(self, probability: float, seed: int) -> None:
        """Cut each exchange with this probability, before or after; 0 ends it."""
        with self._lock:
            self._probability = probability
            self._random = random.Random(seed)

    def clear(self) -> None:
        """Remove all cuts."""
        with self._lock:
            self._cuts.clear()
            self._probability = 0.0

    def decide(self, request: bytes) -> CutPoint | None:
        """When to cut the exchange that begins with this request, if at all."""
        with self._lock:
            matching_cuts = [
                cut for cut in self._cuts if not cut.answering and cut.matching in request
            ]
            return self._count(self._next(matching_cuts) or self._random_cut())

    def decide_on_answer(self, answer: bytes) -> CutPoint | None:
        """When to cut the exchange with this answer, if at all."""
        with self._lock:
            matching_cuts = [cut for cut in self._cuts if cut.answering and cut.answering in answer]
            return self._count(self._next(matching_cuts))

    def _count(self, point: CutPoint | None) -> CutPoint | None:
        if point is not None:
            self.done[point] += 1
        return point

    def _next(self, matching_cuts: Sequence[ConnectionCut]) -> CutPoint | None:
        for cut in matching_cuts:
            if cut.skip:
                cut.skip -= 1
                continue
            cut.count -= 1
            if cut.count == 0:
                self._cuts.remove(cut)
            return cut.point
        return None

    def _random_cut(self) -> CutPoint | None:
        if self._random.random() >= self._probability:
            return None
        return self._random.choice(("before", "after"))


MAX_TRIES = 20
"""How often to try to listen on a port."""


class ProxyListener:
    """Listens on a port, a free one unless it is given, until it is closed."""

    def __init__(self, on_connection: Callable[[socket.socket], None], port: int = 0) -> None:
        self._on_connection = on_connection
        self._listener = _listen(port)
        self.port: int = self._listener.getsockname()[1]
        self._stop_receiver, self._stop_sender = socket.socketpair()
        self._thread = threading.Thread(target=self._accept, name="proxy listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """From now on, connections are refused."""
        self._stop_sender.close()
        self._thread.join()

    def _accept(self) -> None:
        with self._listener, self._stop_receiver:
            while True:
                ready, _, _ = select.select([self._listener, self._stop_receiver], [], [])
                if self._stop_receiver in ready:
                    return
                with contextlib.suppress(OSError):
                    self._on_connection(self._listener.accept()[0])


def _listen(port: int) -> socket.socket:
    for _ in range(MAX_TRIES):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port or free_port()))
            listener.listen(128)
        except OSError:
            listener.close()
        else:
            return listener
    raise OSError(f"no port to listen on (asked for {port or 'any'})")


Address = tuple[str, int]

CHUNK = 1 << 16

OnCut = Callable[[CutPoint], None]


class Proxy:
    """Stands in front of a server; clients connect to its `address`.

    >>> with Proxy(server.address) as proxy:  # doctest: +SKIP
    ...     proxy.cut_next("after", matching=b"email-1")
    """

    def __init__(self, upstream: Address, on_cut: OnCut | None = None) -> None:
        self.upstream = upstream
        self.cuts = CutSchedule()
        self.not_stalled = threading.Event()
        self._on_cut = on_cut
        self._connections: set[ProxiedConnection] = set()
        self._lock = threading.Lock()
        self._listener: ProxyListener | None = None
        self._port = 0

    def start(self) -> Self:
        """Listen on a free port."""
        self.not_stalled.set()
        self._listener = ProxyListener(self._connect)
        self._port = self._listener.port
        return self

    def stop(self) -> None:
        """Cut all connections, and stop listening."""
        self.refuse()
        self.not_stalled.set()
        self.cut_all()
        for connection in self.connections():
            connection.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_error: object) -> None:
        self.stop()

    @property
    def address(self) -> Address:
        """The address for clients."""
        return HOST, self._port

    @property
    def done(self) -> Counter[CutPoint]:
        """How many exchanges were cut, by cut point."""
        return self.cuts.done

    # --- faults ---

    def cut_next(self, point: CutPoint, **details: Any) -> None:
        """Cut the connection of the next exchanges; the details are those of a `ConnectionCut`."""
        self.cuts.add(ConnectionCut(point, **details))

    def cut_at_random(self, probability: float, seed: int) -> None:
        """Cut each exchange with this probability, before or after; 0 ends it."""
        self.cuts.at_random(probability, seed)

    def cut_all(self) -> None:
        """Cut all open connections; new ones are accepted."""
        for connection in self.connections():
            connection.cut()

    def refuse(self) -> None:
        """Refuse new connections, as if no server were listening."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def accept(self) -> None:
        """Accept new connections again, at the old address."""
        if self._listener is None:
            self._listener = ProxyListener(self._connect, self._port)

    def stall(self) -> None:
        """Delay everything, in both directions; what was sent arrives after `resume`."""
        self.not_stalled.clear()

    def resume(self) -> None:
        """End a stall."""
        self.not_stalled.set()

    def switch_to(self, upstream: Address) -> None:
        """Forward new connections to another server, and cut those to the old one."""
        self.upstream = upstream
        self.cut_all()

    # --- connections ---

    def connections(self) -> list[ProxiedConnection]:
        """All connections that are open now."""
        with self._lock:
            return list(self._connections)

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self.upstream, timeout=5)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        connection = ProxiedConnection(self, client, server)
        with self._lock:
            self._connections.add(connection)
        connection.start()

    def forget(self, connection: ProxiedConnection) -> None:
        """Forget a connection that is closed."""
        with self._lock:
            self._connections.discard(connection)

    def report_cut(self, point: CutPoint) -> None:
        """Report that a connection is about to be cut."""
        if self._on_cut is not None:
            self._on_cut(point)


class ProxiedConnection:
    """A client's connection to the proxy, and the proxy's to the server."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._in_exchange = False
        self._cut_point: CutPoint | None = None
        self._answers = threading.Thread(target=self._forward_answers, daemon=True)
        self._requests = threading.Thread(target=self._forward_requests, daemon=True)
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self) -> None:
        """Forward in both directions."""
        self._answers.start()
        self._requests.start()

    def cut(self) -> None:
        """End the connection on both sides."""
        for end in (self._client, self._server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def join(self) -> None:
        """Wait until both sides are closed."""
        self._requests.join()

    def _forward_requests(self) -> None:
        with self._client, self._server:
            with contextlib.suppress(OSError):
                while chunk := self._receive(self._client):
                    if self._is_cut_before(chunk):
                        break
                    self._server.sendall(chunk)
            self.cut()
            self._answers.join()
        self._proxy.forget(self)

    def _forward_answers(self) -> None:
        with contextlib.suppress(OSError):
            while chunk := self._receive(self._server):
                self._in_exchange = False
                point = self._cut_point or self._proxy.cuts.decide_on_answer(chunk)
                if point is not None:
                    self._proxy.report_cut(point)
                if point != "after":
                    self._client.sendall(chunk)
                if point is not None:
                    break
        self.cut()

    def _receive(self, end: socket.socket) -> bytes:
        chunk = end.recv(CHUNK)
        self._proxy.not_stalled.wait()
        return chunk

    def _is_cut_before(self, chunk: bytes) -> bool:
        # A long request arrives in several chunks; only the first one counts.
        if self._in_exchange:
            return False
        self._in_exchange = True
        self._cut_point = self._proxy.cuts.decide(chunk)
        if self._cut_point == "before":
            self._proxy.report_cut("before")
        return self._cut_point == "before"
