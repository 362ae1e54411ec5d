"""What all requests of one process share: the store, its queues, the streams, the shutdown."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from ackline.aio.base import Threads
from ackline.job import QueueKey
from ackline.journal_views.throughput import ThroughputReader
from ackline.queue.consumer import worker_id
from ackline.service.auth.authenticators import authenticator_for
from ackline.service.auth.base import Authenticator
from ackline.service.body_memory import BodyMemory
from ackline.service.caretaker import Caretaker
from ackline.service.fair_shares import FairShares
from ackline.service.health import StoreChecks
from ackline.service.held import Held
from ackline.service.key_watches import KeyWatches
from ackline.service.limits import Limits
from ackline.service.metrics import Metrics
from ackline.service.metrics.siblings import PUBLISH_EVERY
from ackline.service.overviews import Overviews
from ackline.service.served_queue import LimitedQueue, ServedQueue
from ackline.service.settings import Settings
from ackline.service.shared_calls import SharedCalls
from ackline.service.slow_work import SlowWork
from ackline.service.streams import Streams
from ackline.service.wakeups import Wakeups
from ackline.stores.base import Store
from ackline.stores.registry import store_from_url

T = TypeVar("T")
P = ParamSpec("P")

LARGE = 100_000
"""Bytes: to convert more takes longer than to change threads, and others would wait."""

MOST_QUEUES = 5000
"""Queues that are kept open: each takes some kilobytes, and some time to open again."""


class Runtime:
    """One process of the service."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        authenticator: Authenticator,
        shared: Path | None = None,
    ) -> None:
        self.settings = settings
        self.store = store
        self.authenticator = authenticator
        self.limits = Limits(settings, store, shared)
        self.threads = Threads()
        self.slow_work = SlowWork()
        self.worker = worker_id()
        """The name under which streams hold their leases."""
        self.wakeups = Wakeups(store, self.threads)
        self.held = Held()
        self.fair_shares = FairShares()
        self.streams = Streams()
        self.body_memory = BodyMemory(settings.max_bodies)
        self.journal_reads = SharedCalls()
        self.key_watches = KeyWatches(self)
        self.caretaker = Caretaker(store, settings)
        self.metrics = Metrics(self, shared)
        self.throughput = ThroughputReader(store)
        self.overviews = Overviews(self)
        self.store_checks = StoreChecks()
        self.opened_at = time.time()
        self.draining = False
        self._queues: OrderedDict[QueueKey, ServedQueue] = OrderedDict()
        self._used: Counter[QueueKey] = Counter()
        self._tasks: set[asyncio.Task[Any]] = set()

    @classmethod
    def from_settings(cls, settings: Settings, shared: Path | None = None) -> Runtime:
        """Create the runtime that the settings describe; nothing is opened yet.

        `shared` is a folder in which the processes of one service keep their limits and metrics.
        """
        store = store_from_url(settings.store)
        return cls(settings, store, authenticator_for(settings, store), shared)

    async def open(self) -> None:
        """Open the store and start the maintenance."""
        self.limits.open()
        await asyncio.to_thread(self.store.open)
        self.opened_at = time.time()
        if self.settings.maintenance:
            self.caretaker.start()
        self._publishing = asyncio.get_running_loop().create_task(self._publish())

    def queue(self, key: QueueKey, *, keep: bool = True) -> ServedQueue:
        """A queue, ready to be used from the event loop.

        A queue that is only read need not be kept open: it may not even exist.
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
    def using(self, key: QueueKey) -> Iterator[ServedQueue]:
        """A queue that stays open inside the block, however many others are used."""
        self._used[key] += 1
        try:
            yield self.queue(key)
        finally:
            self._used[key] -= 1
            if not self._used[key]:
                del self._used[key]

    def _close_unused(self) -> None:
        if len(self._queues) > MOST_QUEUES:
            unused = next((key for key in self._queues if key not in self._used), None)
            if unused is not None:
                self.soon(self._queues.pop(unused).close())

    def _open_queue(self, key: QueueKey) -> ServedQueue:
        queue = LimitedQueue(self.store, key, self.settings.max_payload, self.limits)
        queue.policies.defaults = self.settings.defaults
        return ServedQueue(queue, self.threads, self.metrics.work)

    async def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run something short that blocks, off the event loop."""
        return await self.threads.call(function, *args, **kwargs)

    async def convert(self, size: int, function: Callable[[], T]) -> T:
        """Convert so many bytes: off the event loop if they are many."""
        return await self.call(function) if size > LARGE else function()

    def soon(self, work: Coroutine[Any, Any, Any]) -> None:
        """Start something that no request waits for; only `close` does."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def drain(self) -> None:
        """Prepare to stop: hand out no more jobs, and end the streams."""
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
        """Close everything, after the tasks in progress."""
        self.drain()
        self._publishing.cancel()
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.key_watches.close()
        await asyncio.to_thread(self.wakeups.close)
        await asyncio.to_thread(self.caretaker.stop)
        await asyncio.to_thread(self.metrics.publish)
        self.metrics.close()
        await asyncio.to_thread(self._save_recoveries)
        for queue in self._queues.values():
            await queue.close()
        await asyncio.to_thread(self.store.close)
        self.limits.close()
        self.threads.close()
        self.slow_work.close()
