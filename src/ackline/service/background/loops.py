"""The maintenance loops of all queues of a store, including those that are created later."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from ackline.core.job import QueueKey, State
from ackline.maintenance import Promoter, Pruner, Scheduler, StoreMonitor
from ackline.maintenance.loop import AFTER_INTERVAL, MaintenanceLoop
from ackline.maintenance.reaper import Reaper, expire_leases
from ackline.service import schedules
from ackline.service.background.queue_index import AnyQueue, QueueIndex
from ackline.service.settings import Settings
from ackline.service.webhooks.concurrency import delivery_groups
from ackline.service.webhooks.dispatcher import Dispatcher
from ackline.service.webhooks.worker import DeliveryWorker
from ackline.stores.contract import KeyValue, Store

logger = logging.getLogger("ackline.service")

DISCOVER_EVERY = 1.0
PROMOTE_EVERY = 1.0
PRUNE_EVERY = 30.0
WATCH_EVERY = 60.0

WAITING_FOR_TIME = frozenset({State.SCHEDULED, State.FAILING})
RUNNING = frozenset({State.PROCESSING})


class IndexedPromoter(Promoter):
    """Promotes jobs in queues with jobs that wait for their time."""

    def __init__(self, index: QueueIndex, interval: float) -> None:
        super().__init__([], interval)
        self._index = index

    def candidates(self) -> Sequence[AnyQueue]:
        return self._index.queues(WAITING_FOR_TIME)


class LeaseSweeper(Reaper):
    """Expires lapsed leases, a batch at a time, in queues with running jobs."""

    name = "sweeper"

    def __init__(self, index: QueueIndex, interval: float, batch: int) -> None:
        super().__init__([], interval)
        self._index = index
        self._batch = batch

    def candidates(self) -> Sequence[AnyQueue]:
        return self._index.queues(RUNNING)

    def _expire_lapsed(self, queue: AnyQueue) -> None:
        if lapsed := queue.store.leases(queue.key, limit=self._batch):
            self._count_expired(expire_leases(queue, lapsed, "lease expired"))


class QueueDiscovery(MaintenanceLoop):
    """Finds the queues that the other loops maintain, and fires schedules."""

    name = "queue discovery"
    counters = ("fired",)

    def __init__(self, store: Store, index: QueueIndex, loops: list[MaintenanceLoop]) -> None:
        super().__init__([], DISCOVER_EVERY)
        self._store = store
        self._index = index
        self._loops = loops
        self._schedules = schedules.ScheduleCache(store)
        self._stored: dict[QueueKey, list[KeyValue]] = {}
        self._maintained: dict[QueueKey, list[KeyValue]] = {}
        self._schedulers: dict[QueueKey, Scheduler] = {}

    def due(self) -> Mapping[AnyQueue, float]:
        """The queues whose schedules changed or fire soon; also gives all loops their queues."""
        found = self._index.queues()
        if found != self.queues:
            self.queues = found
            for loop in self._loops:
                # The store monitor needs only one queue to reach the store.
                loop.queues = found[:1] if isinstance(loop, StoreMonitor) else found
        self._stored = self._schedules.read()
        now = self._store.now() if self._stored else 0.0
        keys = self._stored.keys() | self._schedulers.keys()
        # A queue may not exist yet: the first tick of its schedule creates it.
        queues = [self._index.queue(key) for key in keys if self._is_due(key, now)]
        return dict.fromkeys(queues, 0.0)

    def _is_due(self, key: QueueKey, now: float) -> bool:
        scheduler = self._schedulers.get(key)
        changed = self._maintained.get(key) != self._stored.get(key)
        # What is due before the next step is maintained now, to find out when exactly.
        return changed or scheduler is None or scheduler.next_at(now) <= now + 2 * DISCOVER_EVERY

    def maintain(self, queue: AnyQueue) -> float:
        """Fire the schedules of a queue, as they are now."""
        stored = self._schedules.read_of(queue.key)
        self._maintained[queue.key] = stored
        current = list(map(schedules.decode, stored))
        scheduler = self._schedulers.get(queue.key)
        if scheduler is None or list(scheduler.schedules) != current:
            if not current:
                self._schedulers.pop(queue.key, None)
                if not stored:
                    self._maintained.pop(queue.key, None)
                return AFTER_INTERVAL
            scheduler = self._schedulers[queue.key] = Scheduler(queue, current)
        before = scheduler.stats().done["fired"]
        pause = scheduler.maintain(queue)
        self.count("fired", scheduler.stats().done["fired"] - before)
        return pause


class BackgroundLoops:
    """All loops of one process; other processes may safely run the same loops."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.delivery_worker = DeliveryWorker(store, settings.webhooks)
        index = QueueIndex(store, settings)
        loops: list[MaintenanceLoop] = [
            Dispatcher(store, self.delivery_worker.start, delivery_groups(settings.webhooks).count),
            IndexedPromoter(index, PROMOTE_EVERY),
            Pruner([], PRUNE_EVERY),
            StoreMonitor([], WATCH_EVERY),
        ]
        if settings.sweep_every:
            loops.append(LeaseSweeper(index, settings.sweep_every, settings.sweep_batch))
        self.loops = [QueueDiscovery(store, index, loops), *loops]

    def start(self) -> None:
        """Start every loop in its own thread."""
        for loop in self.loops:
            loop.start()
        intervals = ", ".join(f"{loop.name} every {loop.interval:g} s" for loop in self.loops)
        logger.info("maintenance started: %s", intervals)

    def stop(self) -> None:
        """Stop every loop after the step in progress."""
        for loop in self.loops:
            loop.stop()
        self.delivery_worker.stop()
