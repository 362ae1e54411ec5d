"""Takes back the leases of workers that crashed, hang, or were cut off."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ackline.core import lifecycle
from ackline.core.config import QueueSettings
from ackline.core.job import Record, State
from ackline.maintenance.loop import AFTER_INTERVAL, MaintenanceLoop, next_due
from ackline.queue import Queue, RecoveredBy
from ackline.stores.contract import CLAIM_MAINTENANCE_LIMIT

logger = logging.getLogger("ackline")

HEARTBEAT_MISSED = "worker heartbeat missed"

EXPIRED_TTL = 0.001
"""A heartbeat's ttl that is over at the next look; 0 would mean goodbye, and be forgotten."""


class ExpiredLeases(msgspec.Struct, frozen=True):
    """How many leases were taken back, and how many of those jobs went to the DLQ."""

    expired: int = 0
    dead_lettered: int = 0

    def __add__(self, other: ExpiredLeases) -> ExpiredLeases:
        return ExpiredLeases(self.expired + other.expired, self.dead_lettered + other.dead_lettered)


class RecoveredJobs(msgspec.Struct, frozen=True):
    """How many jobs of a dead worker were taken back."""

    expired: int = 0
    """It cost them an attempt."""
    released: int = 0
    """Nobody had begun them, so it cost them nothing."""


SelectJobs = Callable[[Sequence[Record]], list[Record]]


def expire_worker(
    queue: Queue[Any, Any], worker: str, reason: str, never_started: SelectJobs | None = None
) -> RecoveredJobs:
    """Take back all jobs that a worker holds, because it is known to be dead.

    It costs each job an attempt, except those that `unbegun` picks: they are released.

    >>> expire_worker(queue, "host-4711-0a1b", "its process was killed")  # doctest: +SKIP
    """
    total = RecoveredJobs()
    while held := queue.store.leases(queue.key, worker=worker):
        unstarted_ids = (
            {job.id for job in never_started(held)} if never_started is not None else set()
        )
        released = _release(queue, [job for job in held if job.id in unstarted_ids], reason)
        begun = [job for job in held if job.id not in unstarted_ids]
        expired = expire_leases(queue, begun, reason, RecoveredBy.MONITOR).expired
        if not expired and not released:
            # Someone else has already taken back every one of them.
            break
        total = RecoveredJobs(total.expired + expired, total.released + released)
    _mark_worker_dead(queue, worker)
    return total


def _release(queue: Queue[Any, Any], leases: Sequence[Record], reason: str) -> int:
    verdicts = queue.apply(
        [lifecycle.release(job, queue.policies.of(job), reason) for job in leases]
    )
    return sum(verdict.applied for verdict in verdicts)


def _mark_worker_dead(queue: Queue[Any, Any], worker: str) -> None:
    """List it for as long as a worker that fell silent, so that people see which one died."""
    for known in queue.store.workers([queue.key])[0]:
        if known.heartbeat.id == worker:
            queue.store.heartbeat(
                queue.key, msgspec.structs.replace(known.heartbeat, ttl=EXPIRED_TTL), []
            )


def expire_leases(
    queue: Queue[Any, Any],
    leases: Sequence[Record],
    reason: str,
    way: RecoveredBy = RecoveredBy.SWEEP,
) -> ExpiredLeases:
    """Take leases back, and count what came of it."""
    applied = [verdict for verdict in queue.expire(leases, reason, way) if verdict.applied]
    return ExpiredLeases(len(applied), sum(verdict.state is State.FAILED for verdict in applied))


def recover(queue: Queue[Any, Any]) -> ExpiredLeases:
    """Take back now what has lapsed and what silent workers hold, whatever the settings say.

    >>> recover(queue)  # doctest: +SKIP
    Expired(expired=3, dead_lettered=0)
    """
    return _expire_lapsed(queue, RecoveredBy.HAND) + _expire_dead_workers(queue, RecoveredBy.HAND)


def _expire_lapsed(queue: Queue[Any, Any], way: RecoveredBy) -> ExpiredLeases:
    total = ExpiredLeases()
    while lapsed := queue.store.leases(queue.key):
        taken = expire_leases(queue, lapsed, "lease expired", way)
        total += taken
        if not taken.expired or len(lapsed) < CLAIM_MAINTENANCE_LIMIT:
            break
    return total


def _expire_dead_workers(queue: Queue[Any, Any], way: RecoveredBy) -> ExpiredLeases:
    total = ExpiredLeases()
    held = {worker: queue.store.leases(queue.key, worker=worker) for worker in _dead_workers(queue)}
    # A worker whose heartbeat returns extends its leases. So one that is silent after its leases
    # were read still has these deadlines, or it beats later and is saved by the new ones.
    for worker in _dead_workers(queue) & held.keys() if held else ():
        total += expire_leases(queue, held[worker], HEARTBEAT_MISSED, way)
    return total


class Reaper(MaintenanceLoop):
    """Expires leases past their deadline, and at once those of a worker that fell silent.

    It leaves a queue alone if its settings turn recovery off, and all queues if `recovers` is
    False; leases that are stuck are reported in any case.
    """

    name = "reaper"
    lock_name = "sweep"
    counters = ("expired", "dead_lettered")

    def __init__(
        self,
        queues: Sequence[Queue[Any, Any]],
        interval: float,
        *,
        stuck_after: float | None = None,
        recovery: bool = True,
    ) -> None:
        if not recovery:
            self.lock_name = "report"  # it must not keep others from sweeping
        super().__init__(queues, interval)
        self._stuck_after = stuck_after
        self._recovers = recovery
        self._swept_at: dict[Queue[Any, Any], float] = {}
        self._reported: dict[Queue[Any, Any], frozenset[tuple[str, int]]] = {}

    def due(self) -> Mapping[Queue[Any, Any], float]:
        candidates = self.candidates()
        for queue in candidates:
            queue.recoveries.save()
        return {
            queue: self._time_left(queue)
            for queue, due in next_due(candidates).items()
            if due.lease_at is not None
        }

    def candidates(self) -> Sequence[Queue[Any, Any]]:
        """The queues that may have leases."""
        return self.queues

    def interval_of(self, queue: Queue[Any, Any]) -> float:
        return queue.policies.settings().sweep_every or self.interval

    def maintain(self, queue: Queue[Any, Any]) -> float:
        settings = queue.policies.stored_settings()
        self._swept_at[queue] = time.monotonic()
        try:
            if self._recovers and settings.recovery:
                self._expire_lapsed(queue)
                self._count_expired(_expire_dead_workers(queue, RecoveredBy.HEARTBEAT))
        finally:
            self._report_stuck(queue, settings)
        return settings.sweep_every or AFTER_INTERVAL

    def _time_left(self, queue: Queue[Any, Any]) -> float:
        """Seconds until the next sweep of a queue that has an interval of its own."""
        every = queue.policies.settings().sweep_every
        if every is None:
            return 0.0
        return self._swept_at.get(queue, -math.inf) + every - time.monotonic()

    def _expire_lapsed(self, queue: Queue[Any, Any]) -> None:
        self._count_expired(_expire_lapsed(queue, RecoveredBy.SWEEP))

    def _report_stuck(self, queue: Queue[Any, Any], settings: QueueSettings) -> None:
        limit = settings.stuck_after if self._stuck_after is None else self._stuck_after
        lapsed = queue.store.leases(queue.key)
        before = queue.store.now() - limit if lapsed else 0.0
        stuck = {(job.id, job.token) for job in lapsed if (job.deadline or 0.0) < before}
        new = stuck - self._reported.get(queue, frozenset())
        self._reported[queue] = frozenset(stuck)
        if new:
            off = not settings.recovery
            logger.error(
                "queue %s: the leases of %d jobs lapsed more than %g s ago and %s: %s",
                queue.key,
                len(stuck),
                limit,
                "recovery is turned off" if off else "cannot be taken back",
                ", ".join(sorted(repr(id) for id, _ in new)),
            )

    def _count_expired(self, taken: ExpiredLeases) -> None:
        self.count("expired", taken.expired)
        self.count("dead_lettered", taken.dead_lettered)


def _dead_workers(queue: Queue[Any, Any]) -> set[str]:
    """Workers that hold jobs but have missed their heartbeat, by the store's clock."""
    holding = [worker for worker in queue.store.workers([queue.key])[0] if worker.leases]
    if not holding:
        return set()
    now = queue.store.now()
    return {worker.heartbeat.id for worker in holding if worker.expires_at <= now}
