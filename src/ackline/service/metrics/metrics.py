"""All metrics: of the store, and of all processes of this service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from ackline.metrics.multiprocess import SharedMetrics, merge
from ackline.service.metrics.http_requests import RequestCollector
from ackline.service.metrics.job_timings import JobTimings
from ackline.service.metrics.process import ProcessCollector
from ackline.service.metrics.queues import QueueCollector
from ackline.service.threads.single_flight import SingleFlight

if TYPE_CHECKING:
    from ackline.service.runtime import Runtime


class Metrics:
    """The metrics of one process; with a folder, merged with those of all that share it."""

    def __init__(self, runtime: Runtime, folder: Path | None = None) -> None:
        self._runtime = runtime
        self.requests = RequestCollector()
        self.job_timings = JobTimings()
        self._own = CollectorRegistry()
        for collector in (self.requests, self.job_timings, ProcessCollector(runtime)):
            self._own.register(collector)
        self._shared = SharedMetrics(folder, runtime.worker) if folder is not None else None
        # A thread of its own, so that metrics show what holds up everything else.
        self._thread = ThreadPoolExecutor(1, "ackline metrics")
        self._scrapes = SingleFlight()

    def publish(self) -> None:
        """Publish the metrics of this process for the other processes."""
        if self._shared is not None:
            self._shared.publish(generate_latest(self._own))

    async def scrape(self) -> bytes:
        """All metrics as they are now."""
        return await self._scrapes.call("text", self.text, self._in_thread)

    def text(self) -> bytes:
        """All metrics as they are now. Blocks: it asks the store."""
        self.job_timings.retain_queues([info.key for info in self._runtime.store.describe(None)])
        registry = CollectorRegistry()
        registry.register(QueueCollector(self._runtime))
        registry.register(_MergedCollector(self._own, self._shared))
        return generate_latest(registry)

    def text_for(self, tenant: str, can_see: Callable[[str], bool]) -> bytes:
        """The metrics of the queues of one tenant that the caller can see."""
        registry = CollectorRegistry()
        registry.register(QueueCollector(self._runtime, tenant, can_see))
        return generate_latest(registry)

    def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown(wait=False)

    def _in_thread(self, function: Callable[[], bytes]) -> asyncio.Future[bytes]:
        return asyncio.get_running_loop().run_in_executor(self._thread, function)


class _MergedCollector(Collector):
    def __init__(self, own: CollectorRegistry, shared: SharedMetrics | None) -> None:
        self._own = own
        self._shared = shared

    def collect(self) -> Iterator[Metric]:
        others = self._shared.read() if self._shared is not None else []
        return merge([list(self._own.collect()), *others])
