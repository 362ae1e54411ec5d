"""What Prometheus reads: requests, streams, sweeps, and what the queues hold."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, cast

from litestar.types import ASGIApp, Message, Receive, Scope, Send
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ackline.job import State
from ackline.stores.base import Filter, QueueInfo

if TYPE_CHECKING:
    from ackline.service.runtime import Runtime

_FIRST = Filter(states=frozenset({State.QUEUED}))


class Metrics:
    """The figures of one process, and of the store that all share."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._registry = CollectorRegistry()
        self._registry.register(_Queues(runtime))
        self._registry.register(_Process(runtime))
        self.requests = Counter(
            "ackline_http_requests",
            "Requests that were answered.",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self.seconds = Histogram(
            "ackline_http_seconds",
            "How long an answer took, streams left out.",
            ["method", "route"],
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
            registry=self._registry,
        )

    def text(self) -> bytes:
        """All figures as they are now; it asks the store, so off the event loop."""
        return generate_latest(self._registry)

    def text_for(self, tenant: str, may_see: Callable[[str], bool]) -> bytes:
        """What the queues of one tenant hold, those that it may see."""
        registry = CollectorRegistry()
        registry.register(_Queues(self._runtime, tenant, may_see))
        return generate_latest(registry)


class Measured:
    """Counts and times each request."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # type: ignore[comparison-overlap]
            await self._app(scope, receive, send)
            return
        began, status, streams = time.perf_counter(), 0, False

        async def note(message: Message) -> None:
            nonlocal status, streams
            if message["type"] == "http.response.start":
                status = message["status"]
                streams = any(value == _STREAM for _, value in message["headers"])
            await send(message)

        try:
            await self._app(scope, receive, note)
        finally:
            route = str(cast("dict[str, object]", scope).get("path_template") or "none")
            method = str(cast("dict[str, object]", scope)["method"])
            self._metrics.requests.labels(method, route, status or 499).inc()
            if not streams:
                self._metrics.seconds.labels(method, route).observe(time.perf_counter() - began)


_STREAM = b"text/event-stream"


class _Queues(Collector):
    """What the queues hold, as the store knows it: of one tenant, or of all."""

    def __init__(
        self,
        runtime: Runtime,
        tenant: str | None = None,
        may_see: Callable[[str], bool] = lambda _queue: True,
    ) -> None:
        self._runtime = runtime
        self._tenant = tenant
        self._may_see = may_see

    def collect(self) -> Iterator[Metric]:
        store = self._runtime.store
        jobs = GaugeMetricFamily(
            "ackline_jobs", "Jobs by state.", labels=["tenant", "queue", "state"]
        )
        oldest = GaugeMetricFamily(
            "ackline_oldest_queued_seconds",
            "How long the first job in line has been there.",
            labels=["tenant", "queue"],
        )
        now = store.info().now
        for info in filter(self._wanted, store.describe(self._tenant)):
            for state, number in info.counts.items():
                jobs.add_metric([info.key.tenant, info.key.name, state], number)
            oldest.add_metric([info.key.tenant, info.key.name], self._age(info, now))
        yield jobs
        yield oldest

    def _wanted(self, info: QueueInfo) -> bool:
        return self._may_see(info.key.name)

    def _age(self, info: QueueInfo, now: float) -> float:
        if not info.counts[State.QUEUED]:
            return 0.0
        first = self._runtime.store.page(info.key, _FIRST, None, 1).jobs
        return max(0.0, now - first[0].created_at) if first else 0.0


class _Process(Collector):
    """What this process does."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def collect(self) -> Iterator[Metric]:
        open_streams = len(self._runtime.streams)
        yield GaugeMetricFamily("ackline_streams", "Open streams and long polls.", open_streams)
        lag = GaugeMetricFamily(
            "ackline_loop_lag_seconds", "Since the last run of a loop.", labels=["loop"]
        )
        done = GaugeMetricFamily(
            "ackline_maintenance", "What the loops of this process have done.", labels=["what"]
        )
        for loop in (loop.stats() for loop in self._runtime.caretaker.loops):
            if loop.last_run is not None:
                lag.add_metric([loop.name], max(0.0, time.time() - loop.last_run))
            for what, number in loop.done.items():
                done.add_metric([what], number)
        yield lag
        yield done
