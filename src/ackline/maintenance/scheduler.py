"""Enqueues the jobs of cron schedules: one per tick, however many processes run it."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from ackline.core.cron import Schedule
from ackline.core.errors import ConfigError
from ackline.core.ids import new_id
from ackline.core.reserved_keys import KeyFamily, reserved_key
from ackline.maintenance.loop import MaintenanceLoop
from ackline.queue import NewJob, Queue, Queued
from ackline.queue.drafts.builder import MAX_TIMESTAMP
from ackline.stores.contract import KeyWrite, Store, find_key, read_each_key

logger = logging.getLogger("ackline")

ENQUEUE_TIMEOUT = 15.0
"""Seconds that a scheduler has to enqueue the ticks it took; after that, another does."""

MAX_CLOCK_AHEAD = 3600.0
"""Seconds; a state this far ahead of the store's clock was saved while that clock was wrong."""


SCHEDULE_STATES = reserved_key(KeyFamily.CRON)
"""The keys of the states of a tenant's schedules: queue, then name."""

MAX_LISTED = 100_000
"""Maximum number of schedules that are listed."""


class ScheduleState(msgspec.Struct, frozen=True):
    """What all schedulers know of a schedule, kept in the store.

    A tick is first taken, by compare-and-set on this state, and then enqueued by the scheduler
    that took it. So one that is late finds the tick taken, even if its job has been pruned in the
    meantime; and the ticks of one that died in between are still `pending`.
    """

    tick: float
    updated_at: float
    owner: str = ""
    pending: tuple[float, ...] = ()
    last_job: str = ""
    """The id of the job of the last tick."""
    cron: str = ""
    tz: str = "UTC"
    kind: str = "default"

    def with_schedule(self, schedule: Schedule) -> ScheduleState:
        """The state with what the schedule is, for those who list schedules."""
        return msgspec.structs.replace(self, cron=schedule.cron, tz=schedule.tz, kind=schedule.kind)

    def schedule(self, name: str) -> Schedule:
        """The schedule, without its payload and options."""
        return Schedule(name, self.cron, self.kind, tz=self.tz)


def decode_schedule_state(value: bytes) -> ScheduleState:
    """Decode a stored state; raises if the value is something else."""
    state = msgspec.json.decode(value, type=ScheduleState)
    if not all(0 <= at < MAX_TIMESTAMP for at in (state.tick, state.updated_at, *state.pending)):
        raise ValueError("its times are not seconds since 1970")
    try:
        if state.cron:
            state.schedule("schedule")
    except ConfigError as error:
        raise ValueError(str(error)) from None
    return state


class ScheduleInfo(msgspec.Struct, frozen=True):
    """A schedule as its schedulers have published it."""

    queue: str
    name: str
    cron: str
    tz: str
    kind: str
    next_at: float
    """The tick after the last one; if it is in the past, no scheduler runs."""
    last_at: float | None
    """The last tick; None before the first."""
    last_job: str | None
    """The id of its job, which may have been pruned since."""


def list_schedules(store: Store, tenant: str, queue: str | None = None) -> list[ScheduleInfo]:
    """The schedules that any process has run, by their next tick."""
    prefix = SCHEDULE_STATES if queue is None else (*SCHEDULE_STATES, queue)
    found = list[ScheduleInfo]()
    for entry in read_each_key(store, tenant, prefix, MAX_LISTED):
        *_, queue_name, name = entry.key
        state = decode_schedule_state(entry.value)
        if not state.cron:
            continue
        fired = bool(state.last_job)
        found.append(
            ScheduleInfo(
                queue=queue_name,
                name=name,
                cron=state.cron,
                tz=state.tz,
                kind=state.kind,
                next_at=state.schedule(name).next_tick(state.tick),
                last_at=state.tick if fired else None,
                last_job=state.last_job if fired else None,
            )
        )
    return sorted(found, key=lambda info: (info.next_at, info.queue, info.name))


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
        """For each schedule, when it was last checked, and when its next tick is due."""
        names = [schedule.name for schedule in schedules]
        if duplicates := {name for name in names if names.count(name) > 1}:
            raise ConfigError(f"two schedules are called {', '.join(sorted(duplicates))}")
        for schedule in schedules:
            # A job that the queue would reject is rejected now, not at the first tick.
            queue.draft_builder.draft(schedule.payload, {"kind": schedule.kind, **schedule.options})  # type: ignore[typeddict-item]

    def maintain(self, queue: Queue[Any, Any]) -> float:
        now = queue.store.now()
        return min(
            (self._check(queue, schedule, now) for schedule in self.schedules),
            default=self.interval,
        )

    def next_at(self, now: float) -> float:
        """When the next tick of any schedule is due; `now` if that is not known."""
        known = [self._next.get(schedule.name, (now, now)) for schedule in self.schedules]
        # Also if the clock was set back: then the next tick is a different one.
        return min((due if checked_at <= now else now for checked_at, due in known), default=now)

    def _check(self, queue: Queue[Any, Any], schedule: Schedule, now: float) -> float:
        checked_at, due = self._next.get(schedule.name, (now, now))
        # Also if the clock was set back: then the next tick is a different one.
        if not checked_at <= now < due:
            wait = self._fire(queue, schedule, now)
            if wait is not None:
                return wait
            due = schedule.next_tick(now)
            self._next[schedule.name] = now, due
        return due - now

    def _fire(self, queue: Queue[Any, Any], schedule: Schedule, now: float) -> float | None:
        """Enqueue the ticks that are due; returns the seconds until the retry, None when done."""
        state, version = self._read(queue, schedule)
        if state is None:
            first = ScheduleState(now, now).with_schedule(schedule)
            return None if self._write(queue, schedule, first, version) else 0.0
        if max(state.tick, state.updated_at) > now + MAX_CLOCK_AHEAD:
            reset = ScheduleState(min(state.tick, now), now).with_schedule(schedule)
            self._reset(queue, schedule, reset, version)
            return 0.0
        taken_by_another = state.pending and state.owner != self._owner
        if taken_by_another and now - state.updated_at < ENQUEUE_TIMEOUT:
            return state.updated_at + ENQUEUE_TIMEOUT - now
        ticks = list(state.pending) or schedule.due(state.tick, now)
        if not ticks:
            changed = state.with_schedule(schedule)
            if changed != state:  # the code has changed since a scheduler wrote it
                self._write(queue, schedule, changed, version)
            return None
        started = time.monotonic()
        last_tick = max(state.tick, ticks[-1])
        handled = ScheduleState(last_tick, now, last_job=schedule.job_id(last_tick)).with_schedule(
            schedule
        )
        taken = msgspec.structs.replace(handled, owner=self._owner, pending=tuple(ticks))
        if not self._write(queue, schedule, taken, version):
            return 0.0
        stored, version = self._read(queue, schedule)
        if stored != taken or time.monotonic() - started > ENQUEUE_TIMEOUT / 2:
            # This process was delayed, and another may have taken over.
            return 0.0
        self._enqueue(
            queue, schedule, _ticks_without_job(queue, schedule, ticks) if state.pending else ticks
        )
        self._write(queue, schedule, handled, version)
        # Ticks that became due while others were pending are enqueued next.
        return 0.0 if state.pending else None

    def _reset(
        self, queue: Queue[Any, Any], schedule: Schedule, state: ScheduleState, version: int
    ) -> None:
        """Discard a state that was saved while the store's clock was far ahead."""
        if self._write(queue, schedule, state, version):
            logger.warning(
                "schedule %r of %s was reset: the store's clock was ahead when it last fired",
                schedule.name,
                queue.key,
            )

    def _enqueue(self, queue: Queue[Any, Any], schedule: Schedule, ticks: list[float]) -> None:
        receipts = queue.enqueue_many(
            NewJob(
                schedule.payload,
                id=schedule.job_id(tick),
                kind=schedule.kind,
                **schedule.options,
            )
            for tick in ticks
        )
        self.count("fired", sum(isinstance(receipt, Queued) for receipt in receipts))

    def _read(self, queue: Queue[Any, Any], schedule: Schedule) -> tuple[ScheduleState | None, int]:
        found = find_key(queue.store, queue.key.tenant, _key(queue, schedule))
        return (None, 0) if found is None else (decode_schedule_state(found.value), found.version)

    def _write(
        self, queue: Queue[Any, Any], schedule: Schedule, state: ScheduleState, version: int
    ) -> bool:
        value = msgspec.json.encode(state)
        write = KeyWrite(key=_key(queue, schedule), value=value, version=version)
        return queue.store.write_keys(queue.key.tenant, [write])


def _ticks_without_job(
    queue: Queue[Any, Any], schedule: Schedule, ticks: list[float]
) -> list[float]:
    """The ticks of an interrupted step that have no job yet.

    A job that has failed in the meantime is not enqueued again: its tick had its job already.
    """
    found = queue.store.get(queue.key, [schedule.job_id(tick) for tick in ticks])
    return [tick for tick, job in zip(ticks, found, strict=True) if job is None]


def _key(queue: Queue[Any, Any], schedule: Schedule) -> tuple[str, ...]:
    return (*SCHEDULE_STATES, queue.name, schedule.name)
