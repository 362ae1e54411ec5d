"""All figures: of the store, and of the processes of this service together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from ackline.service.metrics.http_requests import RequestCollector
from ackline.service.metrics.job_timings import JobTimings
from ackline.service.metrics.multiprocess import SharedMetrics, merge
from ackline.service.metrics.process import ProcessCollector
from ackline.service.metrics.queues import QueueCollector
from ackline.service.threads.single_flight import SingleFlight

if TYPE_CHECKING:
    from ackline.service.runtime import Runtime


class Metrics:
    """The figures of one process; with a folder, those of all that share it are added up."""

    def __init__(self, runtime: Runtime, folder: Path | None = None) -> None:
        self._runtime = runtime
        self.requests = RequestCollector()
        self.job_timings = JobTimings()
        self._own = CollectorRegistry()
        for collector in (self.requests, self.job_timings, ProcessCollector(runtime)):
            self._own.register(collector)
        self._siblings = SharedMetrics(folder, runtime.worker) if folder is not None else None
        # Apart from all other work: what holds that up must be seen here.
        self._thread = ThreadPoolExecutor(1, "ackline metrics")
        self._scrapes = SingleFlight()

    def publish(self) -> None:
        """Publish this process's figures for the other processes."""
        if self._siblings is not None:
            self._siblings.publish(generate_latest(self._own))

    async def scrape(self) -> bytes:
        """All figures as they are now."""
        return await self._scrapes.call("text", self.text, self._in_thread)

    def text(self) -> bytes:
        """All figures as they are now; it asks the store, so off the event loop."""
        self.job_timings.retain_queues([info.key for info in self._runtime.store.describe(None)])
        registry = CollectorRegistry()
        registry.register(QueueCollector(self._runtime))
        registry.register(_MergedCollector(self._own, self._siblings))
        return generate_latest(registry)

    def text_for(self, tenant: str, may_see: Callable[[str], bool]) -> bytes:
        """What the queues of one tenant hold, as far as the caller may see them."""
        registry = CollectorRegistry()
        registry.register(QueueCollector(self._runtime, tenant, may_see))
        return generate_latest(registry)

    def close(self) -> None:
        """Let the thread end."""
        self._thread.shutdown(wait=False)

    def _in_thread(self, function: Callable[[], bytes]) -> asyncio.Future[bytes]:
        return asyncio.get_running_loop().run_in_executor(self._thread, function)


class _MergedCollector(Collector):
    def __init__(self, own: CollectorRegistry, siblings: SharedMetrics | None) -> None:
        self._own = own
        self._siblings = siblings

    def collect(self) -> Iterator[Metric]:
        others = self._siblings.read() if self._siblings is not None else []
        return merge([list(self._own.collect()), *others])
