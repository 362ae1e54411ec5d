"""Counts and times HTTP requests."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import cast

from litestar.types import ASGIApp, Message, Receive, Scope, Send
from prometheus_client import Counter, Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_STREAM = b"text/event-stream"


class RequestCollector(Collector):
    """The number of requests, and how long they took."""

    def __init__(self) -> None:
        self.count = Counter(
            "ackline_http_requests",
            "Answered requests.",
            ["method", "route", "status"],
            registry=None,
        )
        self.seconds = Histogram(
            "ackline_http_seconds",
            "Time to respond, without streams.",
            ["method", "route"],
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
            registry=None,
        )

    def collect(self) -> Iterable[Metric]:
        return [*self.count.collect(), *self.seconds.collect()]


class MeasureRequests:
    """ASGI middleware that counts and times each request."""

    def __init__(self, app: ASGIApp, requests: RequestCollector) -> None:
        self._app = app
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # type: ignore[comparison-overlap]
            await self._app(scope, receive, send)
            return
        started, status, is_stream = time.perf_counter(), 0, False

        async def record(message: Message) -> None:
            nonlocal status, is_stream
            if message["type"] == "http.response.start":
                status = message["status"]
                is_stream = any(value == _STREAM for _, value in message["headers"])
            await send(message)

        try:
            await self._app(scope, receive, record)
        finally:
            route = str(cast("dict[str, object]", scope).get("path_template") or "none")
            method = str(cast("dict[str, object]", scope)["method"])
            if method not in METHODS:
                method = "other"  # clients can make up any number of methods
            self._requests.count.labels(method, route, status or 499).inc()
            if not is_stream:
                self._requests.seconds.labels(method, route).observe(time.perf_counter() - started)
