"""A local receiver of webhooks, which records requests and answers as configured."""

from __future__ import annotations

import json
import ssl
import sys
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Received(NamedTuple):
    """A received request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def content(self) -> Any:
        return json.loads(self.body)


class Server(ThreadingHTTPServer):
    """Some tests kill the client: that is not an error."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


Answering = Callable[[Received], int | tuple[int, dict[str, str]]]


class Receiver:
    """Answers 200 unless `answer` is set."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.received: list[Received] = []
        self.answer: Answering = lambda _request: 200
        self._arrival = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                size = int(self.headers["content-length"])
                headers = {name.lower(): value for name, value in self.headers.items()}
                body = self.rfile.read(size)
                if len(body) == size:  # else its sender was killed in the middle
                    receiver.take(Received(self.path, headers, body), self)

            def do_GET(self) -> None:
                receiver.take(Received(self.path, {}, b""), self)

            def log_message(self, *_args: Any) -> None: ...

        self._server = Server(("127.0.0.1", 0), Handler)
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hook"
        # The interval at which it checks for a shutdown.
        threading.Thread(target=self._server.serve_forever, args=[0.01], daemon=True).start()

    def take(self, request: Received, handler: BaseHTTPRequestHandler) -> None:
        content = self.answer(request)
        status, headers = content if isinstance(content, tuple) else (content, {})
        with self._arrival:
            self.received.append(request)
            self._arrival.notify_all()
        handler.send_response(status)
        for name, value in {"content-length": "2", **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(b"ok")

    def wait_for(self, count: int, seconds: float = 15.0) -> list[Received]:
        """Wait for this many requests, and return them."""
        with self._arrival:
            arrived = self._arrival.wait_for(lambda: len(self.received) >= count, seconds)
        assert arrived, f"{len(self.received)} of {count} requests came"
        return self.received[:count]

    def wait_for_ids(self, ids: set[str], seconds: float = 30.0) -> None:
        """Wait for a message about each of these jobs."""
        with self._arrival:
            arrived = self._arrival.wait_for(lambda: ids <= self.jobs.keys(), seconds)
        assert arrived, f"never told of: {sorted(ids - self.jobs.keys())[:10]}"

    @property
    def jobs(self) -> Counter[str]:
        """The number of messages per job."""
        return Counter(one.content["data"].get("id") for one in self.received)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
