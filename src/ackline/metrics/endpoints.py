"""/metrics, /livez and /readyz of workers: as an ASGI app, or on a port of their own."""

from __future__ import annotations

import http
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.core import Metric

from ackline.metrics.multiprocess import PUBLISH_EVERY, SharedMetrics, as_text
from ackline.metrics.worker_metrics import ObservedWorker, WorkerMetrics

logger = logging.getLogger("ackline")

CLIENT_TIMEOUT = 10.0
"""Seconds that a client may take to send its request, and to read the answer."""

PLAIN = "text/plain; charset=utf-8"

Answer = tuple[http.HTTPStatus, str, bytes]
Message = MutableMapping[str, Any]
ASGIApp = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]


class Source(Protocol):
    """Metrics and health: of the workers of this process, or of those of a supervisor."""

    def metrics(self) -> bytes: ...

    def ready(self) -> bool: ...

    def error(self) -> str: ...


class WorkerSource:
    """The workers of this process."""

    def __init__(self, metrics: WorkerMetrics) -> None:
        self._metrics = metrics

    def metrics(self) -> bytes:
        return as_text(self._metrics.collect())

    def ready(self) -> bool:
        workers = self._metrics.stats()
        return bool(workers) and all(worker.ready for worker in workers)

    def error(self) -> str:
        return next((worker.error for worker in self._metrics.stats() if worker.error), "")


class SupervisorSource:
    """The workers of other processes, which publish their metrics in a folder."""

    def __init__(self, folder: Path) -> None:
        self._shared = SharedMetrics(folder, "supervisor")
        self._lock = threading.Lock()

    def metrics(self) -> bytes:
        return as_text(self._read())

    def ready(self) -> bool:
        ready = [family for family in self._read() if family.name == "ackline_worker_ready"]
        return any(sample.value for family in ready for sample in family.samples)

    def error(self) -> str:
        return ""  # a worker that stops is replaced

    def _read(self) -> Iterator[Metric]:
        with self._lock:
            self._shared.publish_dead()
            return iter(list(self._shared.read_all()))


def answer(source: Source, path: str) -> Answer:
    """Answer a request: /metrics, /livez or /readyz, below any prefix."""
    match path.rstrip("/").rsplit("/", 1)[-1]:
        case "" | "metrics":
            return http.HTTPStatus.OK, CONTENT_TYPE_LATEST, source.metrics()
        case "livez":
            return _health(not source.error(), source.error())
        case "readyz":
            return _health(source.ready(), source.error() or "no worker is ready")
        case _:
            return http.HTTPStatus.NOT_FOUND, PLAIN, b"/metrics, /livez, /readyz\n"


def _health(healthy: bool, reason: str) -> Answer:
    if healthy:
        return http.HTTPStatus.OK, PLAIN, b"ok\n"
    return http.HTTPStatus.SERVICE_UNAVAILABLE, PLAIN, f"{reason}\n".encode()


def asgi_app(*workers: ObservedWorker) -> ASGIApp:
    """An ASGI app that serves /metrics, /livez and /readyz of workers that have not started yet.

    >>> app.mount("/worker", ackline.metrics.asgi_app(worker))  # doctest: +SKIP
    """
    source = WorkerSource(WorkerMetrics(*workers))

    async def app(
        scope: Message,
        _receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        if scope["type"] != "http":
            raise ValueError(f"ackline.metrics serves HTTP, not {scope['type']}")
        status, content_type, body = answer(source, scope["path"])
        if scope["method"] not in ("GET", "HEAD"):
            status, content_type, body = http.HTTPStatus.METHOD_NOT_ALLOWED, PLAIN, b"only GET\n"
        headers = [
            (b"content-type", content_type.encode()),
            (b"content-length", str(len(body)).encode()),
        ]
        await send({"type": "http.response.start", "status": status.value, "headers": headers})
        shown = b"" if scope["method"] == "HEAD" else body
        await send({"type": "http.response.body", "body": shown})

    return app


class MetricsServer:
    """Serves a source on a port, in background threads."""

    def __init__(self, source: Source, host: str, port: int) -> None:
        class Handler(BaseHTTPRequestHandler):
            timeout = CLIENT_TIMEOUT

            def do_GET(self) -> None:
                status, content_type, body = answer(source, self.path.split("?", 1)[0])
                self.send_response(status)
                self.send_header("content-type", content_type)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Log no requests: a probe sends one every few seconds."""

        class Server(ThreadingHTTPServer):
            address_family = socket.getaddrinfo(host, port)[0][0]
            daemon_threads = True

        self._server = Server((host, port), Handler)
        self.port = self._server.server_address[1]
        name = "ackline metrics"
        self._thread = threading.Thread(target=self._server.serve_forever, name=name, daemon=True)
        self._thread.start()
        logger.info("metrics on http://%s:%d/metrics", host, self.port)

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


class MetricsPublisher:
    """Publishes the metrics of this process for its supervisor, until it is closed."""

    def __init__(self, metrics: WorkerMetrics, folder: Path, name: str) -> None:
        self._metrics = metrics
        self._shared = SharedMetrics(folder, name)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ackline metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Publish the last counts."""
        self._closed.set()
        self._thread.join()
        self._publish()

    def _run(self) -> None:
        while not self._closed.wait(PUBLISH_EVERY):
            self._publish()

    def _publish(self) -> None:
        try:
            self._shared.publish(as_text(self._metrics.collect()))
        except OSError as error:
            logger.warning("could not publish metrics for the supervisor: %s", error)
