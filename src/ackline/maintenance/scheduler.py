"""Fires cron schedules: one job a tick, however many processes watch the clock."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from ackline.core.cron import Schedule
from ackline.core.errors import ConfigError
from ackline.core.ids import new_id
from ackline.core.limits import RESERVED_KEY_PREFIX
from ackline.maintenance.loop import MaintenanceLoop
from ackline.queue import NewJob, Queue, Queued
from ackline.queue.drafts.builder import MAX_TIMESTAMP
from ackline.stores.contract import KeyWrite, find_key

logger = logging.getLogger("ackline")

ENQUEUE_TIMEOUT = 15.0
"""Seconds that a scheduler has to enqueue the ticks it took; then another does it."""

MAX_CLOCK_AHEAD = 3600.0
"""Seconds: a note this far ahead of the store's clock was made while that clock was wrong."""


class ScheduleState(msgspec.Struct, frozen=True):
    """What all schedulers know of a schedule, kept in the store.

    A tick is first taken, by compare-and-set on this note, and then enqueued by the one who
    took it. So an instance that comes late finds the tick taken, even if its job has been
    pruned in the meantime; and ticks of one that died in between are still `pending`.
    """

    tick: float
    updated_at: float
    owner: str = ""
    pending: tuple[float, ...] = ()


def decode_schedule_state(value: bytes) -> ScheduleState:
    """Decode a stored note; raises if the value is something else."""
    note = msgspec.json.decode(value, type=ScheduleState)
    if not all(0 <= at < MAX_TIMESTAMP for at in (note.tick, note.updated_at, *note.pending)):
        raise ValueError("its times are not seconds since 1970")
    return note


class Scheduler(MaintenanceLoop):
    """Enqueues the jobs of a queue's schedules.

    >>> Scheduler(queue, [Schedule("report", "0 3 * * *")]).start()  # doctest: +SKIP
    """

    name = "scheduler"
    counters = ("fired",)

    def __init__(
        self, queue: Queue[Any, Any], schedules: Sequence[Schedule], interval: float = 1.0
    ) -> None:
        super().__init__([queue], interval)
        self.schedules = tuple(schedules)
        self._owner = new_id()
        self._next: dict[str, tuple[float, float]] = {}
        """For each schedule, when it was last looked after, and when its next tick is due."""
        names = [schedule.name for schedule in schedules]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ConfigError(f"two schedules are called {', '.join(sorted(twice))}")
        for schedule in schedules:
            # A job that the queue would refuse is refused now, not at the first tick.
            queue.draft_builder.draft(schedule.payload, {"kind": schedule.kind, **schedule.options})  # type: ignore[typeddict-item]

    def maintain(self, queue: Queue[Any, Any]) -> float:
        now = queue.store.now()
        return min(
            (self._check(queue, schedule, now) for schedule in self.schedules),
            default=self.interval,
        )

    def next_at(self, now: float) -> float:
        """When a schedule needs to be looked after next; `now` if that is not known."""
        known = [self._next.get(schedule.name, (now, now)) for schedule in self.schedules]
        # Also if the clock was put back: then the next tick is a different one.
        return min((due if looked_at <= now else now for looked_at, due in known), default=now)

    def _check(self, queue: Queue[Any, Any], schedule: Schedule, now: float) -> float:
        looked_at, due = self._next.get(schedule.name, (now, now))
        # Also if the clock was put back: then the next tick is a different one.
        if not looked_at <= now < due:
            wait = self._fire(queue, schedule, now)
            if wait is not None:
                return wait
            due = schedule.next_tick(now)
            self._next[schedule.name] = now, due
        return due - now

    def _fire(self, queue: Queue[Any, Any], schedule: Schedule, now: float) -> float | None:
        """Enqueue the ticks that are due; returns in how many seconds to retry, None when done."""
        note, version = self._read(queue, schedule)
        if note is None:
            first = self._write(queue, schedule, ScheduleState(now, now), version)
            return None if first else 0.0
        if max(note.tick, note.updated_at) > now + MAX_CLOCK_AHEAD:
            self._reset(queue, schedule, ScheduleState(min(note.tick, now), now), version)
            return 0.0
        taken_by_another = note.pending and note.owner != self._owner
        if taken_by_another and now - note.updated_at < ENQUEUE_TIMEOUT:
            return note.updated_at + ENQUEUE_TIMEOUT - now
        ticks = list(note.pending) or schedule.due(note.tick, now)
        if not ticks:
            return None
        began = time.monotonic()
        taken = ScheduleState(max(note.tick, ticks[-1]), now, self._owner, tuple(ticks))
        if not self._write(queue, schedule, taken, version):
            return 0.0
        mine, version = self._read(queue, schedule)
        if mine != taken or time.monotonic() - began > ENQUEUE_TIMEOUT / 2:
            # We were held up, and someone else may believe us dead.
            return 0.0
        self._enqueue(
            queue, schedule, _ticks_without_job(queue, schedule, ticks) if note.pending else ticks
        )
        self._write(queue, schedule, ScheduleState(taken.tick, now), version)
        # Ticks that became due while others were pending are looked after at once.
        return 0.0 if note.pending else None

    def _reset(
        self, queue: Queue[Any, Any], schedule: Schedule, note: ScheduleState, version: int
    ) -> None:
        """Forget what was noted while the store's clock was far ahead: it may be years away."""
        if self._write(queue, schedule, note, version):
            logger.warning(
                "schedule %r of %s begins anew: the store's clock was far ahead when it last fired",
                schedule.name,
                queue.key,
            )

    def _enqueue(self, queue: Queue[Any, Any], schedule: Schedule, ticks: list[float]) -> None:
        answers = queue.enqueue_many(
            NewJob(
                schedule.payload,
                id=schedule.job_id(tick),
                kind=schedule.kind,
                **schedule.options,
            )
            for tick in ticks
        )
        self.count("fired", sum(isinstance(answer, Queued) for answer in answers))

    def _read(self, queue: Queue[Any, Any], schedule: Schedule) -> tuple[ScheduleState | None, int]:
        found = find_key(queue.store, queue.key.tenant, _key(queue, schedule))
        return (None, 0) if found is None else (decode_schedule_state(found.value), found.version)

    def _write(
        self, queue: Queue[Any, Any], schedule: Schedule, note: ScheduleState, version: int
    ) -> bool:
        value = msgspec.json.encode(note)
        write = KeyWrite(key=_key(queue, schedule), value=value, version=version)
        return queue.store.write_keys(queue.key.tenant, [write])


def _ticks_without_job(
    queue: Queue[Any, Any], schedule: Schedule, ticks: list[float]
) -> list[float]:
    """The ticks of an interrupted step that have no job yet.

    A job that has failed in the meantime is not enqueued again: its tick was served already.
    """
    found = queue.store.get(queue.key, [schedule.job_id(tick) for tick in ticks])
    return [tick for tick, job in zip(ticks, found, strict=True) if job is None]


def _key(queue: Queue[Any, Any], schedule: Schedule) -> tuple[str, ...]:
    return (RESERVED_KEY_PREFIX, "cron", queue.name, schedule.name)
