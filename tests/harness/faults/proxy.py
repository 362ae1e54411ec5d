"""A proxy on loopback that cuts, refuses or stalls what goes between clients and a server.

It knows nothing of the protocol but this: an exchange begins with what a client sends, and is
answered by what the server sends next. That is exact for a client that waits for each answer.
On a connection to which the server also sends by itself, such as a subscription, a cut `after`
may take such a message for the answer.
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
"""Before the request reaches the server, after the server has answered it, or when the client has
its answer."""


class ConnectionCut(msgspec.Struct):
    """The next `count` cuts, of exchanges with these bytes in the request or the answer."""

    moment: CutPoint
    count: int = 1
    skip: int = 0
    matching: bytes = b""
    answering: bytes = b""


class CutSchedule:
    """Decides for each exchange whether it is cut; any thread may ask."""

    def __init__(self) -> None:
        self.done: Counter[CutPoint] = Counter()
        self._cuts: list[ConnectionCut] = []
        self._probability = 0.0
        self._chance = random.Random()
        self._lock = threading.Lock()

    def add(self, cut: ConnectionCut) -> None:
        """Cut the next exchanges that match, after letting `skip` of them pass."""
        with self._lock:
            self._cuts.append(msgspec.structs.replace(cut))

    def at_random(self, probability: float, seed: int) -> None:
        """Cut each exchange with this probability, at one moment or the other; 0 ends it."""
        with self._lock:
            self._probability = probability
            self._chance = random.Random(seed)

    def clear(self) -> None:
        """No more cuts."""
        with self._lock:
            self._cuts.clear()
            self._probability = 0.0

    def decide(self, request: bytes) -> CutPoint | None:
        """When to cut the exchange that begins with this request, if at all."""
        with self._lock:
            fitting = [cut for cut in self._cuts if not cut.answering and cut.matching in request]
            return self._count(self._next(fitting) or self._random_cut())

    def decide_on_answer(self, answer: bytes) -> CutPoint | None:
        """When to cut the exchange with this answer, if at all."""
        with self._lock:
            fitting = [cut for cut in self._cuts if cut.answering and cut.answering in answer]
            return self._count(self._next(fitting))

    def _count(self, moment: CutPoint | None) -> CutPoint | None:
        if moment is not None:
            self.done[moment] += 1
        return moment

    def _next(self, fitting: Sequence[ConnectionCut]) -> CutPoint | None:
        for cut in fitting:
            if cut.skip:
                cut.skip -= 1
                continue
            cut.count -= 1
            if cut.count == 0:
                self._cuts.remove(cut)
            return cut.moment
        return None

    def _random_cut(self) -> CutPoint | None:
        if self._chance.random() >= self._probability:
            return None
        return self._chance.choice(("before", "after"))


MAX_TRIES = 20
"""How often to try to listen on a port."""


class ProxyListener:
    """Listens on a port, a free one unless it is given, until it is closed."""

    def __init__(self, on_connection: Callable[[socket.socket], None], port: int = 0) -> None:
        self._on_connection = on_connection
        self._listener = _listen(port)
        self.port: int = self._listener.getsockname()[1]
        self._inside, self._outside = socket.socketpair()
        self._thread = threading.Thread(target=self._accept, name="proxy listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """From now on, connections are refused."""
        self._outside.close()
        self._thread.join()

    def _accept(self) -> None:
        with self._listener, self._inside:
            while True:
                ready, _, _ = select.select([self._listener, self._inside], [], [])
                if self._inside in ready:
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
        self.flowing = threading.Event()
        self._on_cut = on_cut
        self._links: set[ProxiedConnection] = set()
        self._lock = threading.Lock()
        self._listener: ProxyListener | None = None
        self._port = 0

    def start(self) -> Self:
        """Listen on a free port."""
        self.flowing.set()
        self._listener = ProxyListener(self._connect)
        self._port = self._listener.port
        return self

    def stop(self) -> None:
        """Cut everything and listen no more."""
        self.refuse()
        self.flowing.set()
        self.cut_all()
        for link in self.connections():
            link.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_error: object) -> None:
        self.stop()

    @property
    def address(self) -> Address:
        """Where clients find the server."""
        return HOST, self._port

    @property
    def done(self) -> Counter[CutPoint]:
        """How many exchanges were cut, at which moment."""
        return self.cuts.done

    # --- faults ---

    def cut_next(self, moment: CutPoint, **details: Any) -> None:
        """Cut the connection of the next exchanges; the details are those of a `ConnectionCut`."""
        self.cuts.add(ConnectionCut(moment, **details))

    def cut_at_random(self, probability: float, seed: int) -> None:
        """Cut each exchange with this probability, before or after; 0 ends it."""
        self.cuts.at_random(probability, seed)

    def cut_all(self) -> None:
        """Cut all open connections; new ones are accepted."""
        for link in self.connections():
            link.cut()

    def refuse(self) -> None:
        """Refuse new connections, as a machine does on which nothing listens."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def accept(self) -> None:
        """Accept new connections again, at the old address."""
        if self._listener is None:
            self._listener = ProxyListener(self._connect, self._port)

    def stall(self) -> None:
        """Delay everything, in both directions; what was sent arrives after `resume`."""
        self.flowing.clear()

    def resume(self) -> None:
        """Let it flow again."""
        self.flowing.set()

    def switch_to(self, upstream: Address) -> None:
        """Lead to another server from now on; connections to the old one are cut."""
        self.upstream = upstream
        self.cut_all()

    # --- connections ---

    def connections(self) -> list[ProxiedConnection]:
        """All connections that are open now."""
        with self._lock:
            return list(self._links)

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self.upstream, timeout=5)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        link = ProxiedConnection(self, client, server)
        with self._lock:
            self._links.add(link)
        link.start()

    def forget(self, link: ProxiedConnection) -> None:
        """Forget a connection that is closed."""
        with self._lock:
            self._links.discard(link)

    def report_cut(self, moment: CutPoint) -> None:
        """Report that a connection is about to be cut."""
        if self._on_cut is not None:
            self._on_cut(moment)


class ProxiedConnection:
    """A client's connection to the proxy, and the proxy's to the server."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._under_way = False
        self._cut_point: CutPoint | None = None
        self._answers = threading.Thread(target=self._forward_answers, daemon=True)
        self._requests = threading.Thread(target=self._forward_requests, daemon=True)
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self) -> None:
        """Carry in both directions."""
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
                self._under_way = False
                moment = self._cut_point or self._proxy.cuts.decide_on_answer(chunk)
                if moment is not None:
                    self._proxy.report_cut(moment)
                if moment != "after":
                    self._client.sendall(chunk)
                if moment is not None:
                    break
        self.cut()

    def _receive(self, end: socket.socket) -> bytes:
        chunk = end.recv(CHUNK)
        self._proxy.flowing.wait()
        return chunk

    def _is_cut_before(self, chunk: bytes) -> bool:
        # A long request comes in several chunks; only its beginning decides.
        if self._under_way:
            return False
        self._under_way = True
        self._cut_point = self._proxy.cuts.decide(chunk)
        if self._cut_point == "before":
            self._proxy.report_cut("before")
        return self._cut_point == "before"
