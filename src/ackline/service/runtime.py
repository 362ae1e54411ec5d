"""The runtime of one process: what its requests share, from the store to the open streams."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from ackline.aio.thread_pools import ThreadPools
from ackline.core.job import QueueKey
from ackline.journal_views.throughput import ThroughputReader
from ackline.metrics.multiprocess import PUBLISH_EVERY
from ackline.queue.consume import new_worker_id
from ackline.service.auth.authenticator import Authenticator, authenticator_for
from ackline.service.background.loops import BackgroundLoops
from ackline.service.callback_tenants import CallbackTenants
from ackline.service.delivery.fair_share import FairShareCache
from ackline.service.delivery.in_flight import InFlightJobs
from ackline.service.http.body_memory import BodyMemory
from ackline.service.http.sse import OpenStreams
from ackline.service.keyspace.prefix_watcher import PrefixWatchers
from ackline.service.limits.limiter import Limiter
from ackline.service.metrics import Metrics
from ackline.service.queues import LimitedQueue, MeteredQueue
from ackline.service.readiness import CachedStoreChecks
from ackline.service.settings import Settings
from ackline.service.threads.single_flight import SingleFlight
from ackline.service.threads.slow_work import SlowWorkPool
from ackline.service.views.overview import OverviewCache
from ackline.service.wakeups.registry import Wakeups
from ackline.stores.contract import Store
from ackline.stores.registry import store_from_url

T = TypeVar("T")
P = ParamSpec("P")

THREAD_ABOVE_BYTES = 100_000
"""Converting more bytes than this runs in a thread, so that it does not block the event loop."""

MAX_OPEN_QUEUES = 5000
"""Queues that stay open: each takes a few kilobytes, and some time to reopen."""


class Runtime:
    """One process of the service."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        authenticator: Authenticator,
        shared_folder: Path | None = None,
    ) -> None:
        self.settings = settings
        self.store = store
        self.authenticator = authenticator
        self.limits = Limiter(settings, store, shared_folder)
        self.threads = ThreadPools()
        self.slow_work = SlowWorkPool()
        self.worker = new_worker_id()
        """The worker id under which streams lease jobs."""
        self.callback_tenants = CallbackTenants(store)
        self.wakeups = Wakeups(store, self.threads)
        self.in_flight = InFlightJobs()
        self.fair_share = FairShareCache()
        self.streams = OpenStreams()
        self.body_memory = BodyMemory(settings.max_bodies)
        self.journal_single_flight = SingleFlight()
        self.prefix_watchers = PrefixWatchers(self)
        self.background = BackgroundLoops(store, settings)
        self.metrics = Metrics(self, shared_folder)
        self.throughput = ThroughputReader(store)
        self.overview = OverviewCache(self)
        self.store_checks = CachedStoreChecks()
        self.opened_at = time.time()
        self.draining = False
        self._queues: OrderedDict[QueueKey, MeteredQueue] = OrderedDict()
        self._used: Counter[QueueKey] = Counter()
        self._tasks: set[asyncio.Task[Any]] = set()

    @classmethod
    def from_settings(cls, settings: Settings, shared_folder: Path | None = None) -> Runtime:
        """Create the runtime of these settings; nothing is opened yet.

        `shared_folder` is where the processes of one service share their limits and metrics.
        """
        store = store_from_url(settings.store)
        return cls(settings, store, authenticator_for(settings, store), shared_folder)

    async def open(self) -> None:
        """Open the store and start the background loops."""
        self.limits.open()
        await asyncio.to_thread(self.store.open)
        self.opened_at = time.time()
        if self.settings.maintenance:
            self.background.start()
        self._publishing = asyncio.get_running_loop().create_task(self._publish())

    def queue(self, key: QueueKey, *, keep: bool = True) -> MeteredQueue:
        """A queue for use on the event loop.

        With `keep=False` it does not stay open: a queue that is only read may not even exist.
        """
        queue = self._queues.get(key)
        if queue is not None:
            self._queues.move_to_end(key)
        else:
            queue = self._open_queue(key)
            if keep:
                self._queues[key] = queue
                self._close_unused()
        return queue

    @contextmanager
    def pinned_queue(self, key: QueueKey) -> Iterator[MeteredQueue]:
        """A queue that stays open inside the block, however many others are opened."""
        self._used[key] += 1
        try:
            yield self.queue(key)
        finally:
            self._used[key] -= 1
            if not self._used[key]:
                del self._used[key]

    def _close_unused(self) -> None:
        if len(self._queues) > MAX_OPEN_QUEUES:
            unused = next((key for key in self._queues if key not in self._used), None)
            if unused is not None:
                self.start_task(self._queues.pop(unused).close())

    def _open_queue(self, key: QueueKey) -> MeteredQueue:
        queue = LimitedQueue(self.store, key, self.settings.max_payload, self.limits)
        queue.policies.defaults = self.settings.defaults
        return MeteredQueue(queue, self.threads, self.metrics.job_timings)

    async def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run something short that blocks in a thread."""
        return await self.threads.call(function, *args, **kwargs)

    async def run_if_large(self, size: int, function: Callable[[], T]) -> T:
        """Convert `size` bytes, in a thread if there are many."""
        return await self.call(function) if size > THREAD_ABOVE_BYTES else function()

    def start_task(self, work: Coroutine[Any, Any, Any]) -> None:
        """Start a task that no request waits for; `close` does."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def drain(self) -> None:
        """Prepare to stop: lease no more jobs, and end the streams."""
        self.draining = True
        self.streams.end_all()

    async def _publish(self) -> None:
        while True:
            await asyncio.sleep(PUBLISH_EVERY)
            await self.call(self.metrics.publish)
            await self.call(self._save_recoveries)

    def _save_recoveries(self) -> None:
        for queue in list(self._queues.values()):
            queue.sync.recoveries.save()

    async def close(self) -> None:
        """Close everything after the tasks in progress have finished."""
        self.drain()
        self._publishing.cancel()
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.prefix_watchers.close()
        await asyncio.to_thread(self.wakeups.close)
        await asyncio.to_thread(self.background.stop)
        await asyncio.to_thread(self.metrics.publish)
        self.metrics.close()
        await asyncio.to_thread(self._save_recoveries)
        for queue in self._queues.values():
            await queue.close()
        await asyncio.to_thread(self.store.close)
        self.limits.close()
        self.threads.close()
        self.slow_work.close()
