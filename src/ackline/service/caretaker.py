"""Maintenance of all queues of a store, including those that are created later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ackline.job import QueueKey, State
from ackline.maintenance import Promoter, Pruner, Scheduler, Watcher
from ackline.maintenance.loop import NOTHING_KNOWN, Loop
from ackline.maintenance.reaper import Reaper, expire
from ackline.service import schedules
from ackline.service.settings import Settings
from ackline.service.survey import AnyQueue, Survey
from ackline.service.webhooks.deliverer import Deliverer
from ackline.service.webhooks.dispatcher import Dispatcher
from ackline.service.webhooks.lanes import lanes_by
from ackline.stores.base import Key, Store

CENSUS_EVERY = 1.0
PROMOTE_EVERY = 1.0
PRUNE_EVERY = 30.0
WATCH_EVERY = 60.0

LATER = frozenset({State.SCHEDULED, State.FAILING})
RUNNING = frozenset({State.PROCESSING})


class SurveyedPromoter(Promoter):
    """Looks after queues with jobs that wait for their time."""

    def __init__(self, survey: Survey, interval: float) -> None:
        super().__init__([], interval)
        self._survey = survey

    def candidates(self) -> Sequence[AnyQueue]:
        return self._survey.queues(LATER)


class Sweeper(Reaper):
    """Takes overdue leases back, a batch at a time, from queues with running jobs."""

    name = "sweeper"

    def __init__(self, survey: Survey, interval: float, batch: int) -> None:
        super().__init__([], interval)
        self._survey = survey
        self._batch = batch

    def candidates(self) -> Sequence[AnyQueue]:
        return self._survey.queues(RUNNING)

    def _expire_lapsed(self, queue: AnyQueue) -> None:
        if lapsed := queue.store.leases(queue.key, limit=self._batch):
            self._note(expire(queue, lapsed, "lease expired"))


class Census(Loop):
    """Finds the queues that the other loops look after, and fires schedules."""

    name = "census"
    counts = ("fired",)

    def __init__(self, store: Store, survey: Survey, loops: list[Loop]) -> None:
        super().__init__([], CENSUS_EVERY)
        self._store = store
        self._survey = survey
        self._loops = loops
        self._schedules = schedules.StoredSchedules(store)
        self._stored: dict[QueueKey, list[Key]] = {}
        self._looked_after: dict[QueueKey, list[Key]] = {}
        self._schedulers: dict[QueueKey, Scheduler] = {}

    def due(self) -> Mapping[AnyQueue, float]:
        """The queues whose schedules changed or soon fire; also gives all loops their queues."""
        found = self._survey.queues()
        if found != self.queues:
            self.queues = found
            for loop in self._loops:
                # The watcher needs only one queue to reach the store.
                loop.queues = found[:1] if isinstance(loop, Watcher) else found
        self._stored = self._schedules.read()
        now = self._store.now() if self._stored else 0.0
        keys = self._stored.keys() | self._schedulers.keys()
        # A queue need not exist: the first tick of its schedule creates it.
        queues = [self._survey.queue(key) for key in keys if self._needs_a_look(key, now)]
        return dict.fromkeys(queues, 0.0)

    def _needs_a_look(self, key: QueueKey, now: float) -> bool:
        scheduler = self._schedulers.get(key)
        changed = self._looked_after.get(key) != self._stored.get(key)
        # What is due before the next step is looked after now: so it is known when exactly.
        return changed or scheduler is None or scheduler.next_at(now) <= now + 2 * CENSUS_EVERY

    def look_after(self, queue: AnyQueue) -> float:
        """Fire its schedules, as they are now."""
        stored = self._schedules.read_of(queue.key)
        self._looked_after[queue.key] = stored
        wanted = list(map(schedules.read, stored))
        scheduler = self._schedulers.get(queue.key)
        if scheduler is None or list(scheduler.schedules) != wanted:
            if not wanted:
                self._schedulers.pop(queue.key, None)
                if not stored:
                    self._looked_after.pop(queue.key, None)
                return NOTHING_KNOWN
            scheduler = self._schedulers[queue.key] = Scheduler(queue, wanted)
        before = scheduler.stats().done["fired"]
        pause = scheduler.look_after(queue)
        self.count("fired", scheduler.stats().done["fired"] - before)
        return pause


class Caretaker:
    """All loops of one process of the service; other processes may safely run the same loops."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.deliverer = Deliverer(store, settings.webhooks)
        survey = Survey(store, settings)
        loops: list[Loop] = [
            Dispatcher(store, self.deliverer.start, lanes_by(settings.webhooks).count),
            SurveyedPromoter(survey, PROMOTE_EVERY),
            Pruner([], PRUNE_EVERY),
            Watcher([], WATCH_EVERY),
        ]
        if settings.sweep_every:
            loops.append(Sweeper(survey, settings.sweep_every, settings.sweep_batch))
        self.loops = [Census(store, survey, loops), *loops]

    def start(self) -> None:
        """Start every loop in a thread of its own."""
        for loop in self.loops:
            loop.start()

    def stop(self) -> None:
        """End every loop after the step that is under way."""
        for loop in self.loops:
            loop.stop()
        self.deliverer.stop()
