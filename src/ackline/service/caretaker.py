"""Maintenance of all queues of a store, those that come into being later among them."""

from __future__ import annotations

from typing import Any

from ackline.job import QueueKey
from ackline.maintenance import Promoter, Pruner, Scheduler, Watcher
from ackline.maintenance.loop import NOTHING_KNOWN, Loop
from ackline.maintenance.reaper import Reaper, expire
from ackline.queue import Queue
from ackline.queues import Queues
from ackline.service import schedules
from ackline.service.settings import Settings
from ackline.service.webhooks.deliverer import Deliverer
from ackline.service.webhooks.dispatcher import Dispatcher
from ackline.stores.base import Store

CENSUS_EVERY = 1.0
PROMOTE_EVERY = 1.0
PRUNE_EVERY = 30.0
WATCH_EVERY = 60.0


class Sweeper(Reaper):
    """Takes overdue leases back, so many at a time."""

    name = "sweeper"

    def __init__(self, interval: float, batch: int) -> None:
        super().__init__([], interval)
        self._batch = batch

    def _expire_lapsed(self, queue: Queue[Any, Any]) -> None:
        if lapsed := queue.store.leases(queue.key, limit=self._batch):
            self._note(expire(queue, lapsed, "lease expired"))


class Census(Loop):
    """Looks which queues there are, has the other loops look after them, and fires schedules."""

    name = "census"

    def __init__(self, store: Store, settings: Settings, loops: list[Loop]) -> None:
        super().__init__([], CENSUS_EVERY)
        self._store = store
        self._settings = settings
        self._loops = loops
        self._known: dict[QueueKey, Queue[Any, Any]] = {}
        self._schedulers: dict[QueueKey, Scheduler] = {}

    def step(self) -> float:
        """Count the queues anew."""
        found = [info.key for info in self._store.describe(None, dropped=True)]
        if found != list(self._known):
            self._known = {key: self._known.get(key) or self._open(key) for key in found}
            self.queues = tuple(self._known.values())
            for loop in self._loops:
                # The watcher reaches the store that all are in by any of them.
                loop.queues = self.queues[:1] if isinstance(loop, Watcher) else self.queues
        return super().step()

    def look_after(self, queue: Queue[Any, Any]) -> float:
        """Fire its schedules, as they are now."""
        wanted = schedules.read(self._store, queue.key)
        scheduler = self._schedulers.get(queue.key)
        if scheduler is None or list(scheduler.schedules) != wanted:
            if not wanted:
                self._schedulers.pop(queue.key, None)
                return NOTHING_KNOWN
            scheduler = self._schedulers[queue.key] = Scheduler(queue, wanted)
        return scheduler.look_after(queue)

    def _open(self, key: QueueKey) -> Queue[Any, Any]:
        queue = Queues(self._store, key.tenant)[key.name]
        queue.policies.defaults = self._settings.defaults
        return queue


class Caretaker:
    """All loops of one process of the service; what two processes do at once does no harm."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.deliverer = Deliverer(store, settings.webhooks)
        loops: list[Loop] = [
            Dispatcher(store, self.deliverer.start),
            Promoter([], PROMOTE_EVERY),
            Pruner([], PRUNE_EVERY),
            Watcher([], WATCH_EVERY),
        ]
        if settings.sweep_every:
            loops.append(Sweeper(settings.sweep_every, settings.sweep_batch))
        self.loops = [Census(store, settings, loops), *loops]

    def start(self) -> None:
        """Start every loop in a thread of its own."""
        for loop in self.loops:
            loop.start()

    def stop(self) -> None:
        """End every loop after the step that is under way."""
        for loop in self.loops:
            loop.stop()
        self.deliverer.stop()
