"""Expires leases of workers that crashed, hang, or lost their connection."""

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
from ackline.stores.contract import LEASES_LIMIT

logger = logging.getLogger("ackline")

HEARTBEAT_MISSED = "worker heartbeat missed"

EXPIRED_TTL = 0.001
"""A heartbeat's ttl that has expired when it is read; 0 would deregister the worker."""


class ExpiredLeases(msgspec.Struct, frozen=True):
    """How many leases were expired, and how many of those jobs went to the DLQ."""

    expired: int = 0
    dead_lettered: int = 0

    def __add__(self, other: ExpiredLeases) -> ExpiredLeases:
        return ExpiredLeases(self.expired + other.expired, self.dead_lettered + other.dead_lettered)


class RecoveredJobs(msgspec.Struct, frozen=True):
    """How many jobs of a dead worker were taken back."""

    expired: int = 0
    """Jobs that it cost an attempt, as they may have been running."""
    released: int = 0
    """Jobs that were not started, so that it cost them no attempt."""


SelectJobs = Callable[[Sequence[Record]], list[Record]]


def expire_worker(
    queue: Queue[Any, Any], worker: str, reason: str, never_started: SelectJobs | None = None
) -> RecoveredJobs:
    """Take back all jobs that a worker has leased, because it is known to be dead.

    It costs each job an attempt, except those that `never_started` selects: they are released.

    >>> expire_worker(queue, "host-4711-0a1b", "its process was killed")  # doctest: +SKIP
    """
    total = RecoveredJobs()
    while leases := queue.store.leases(queue.key, worker=worker):
        unstarted_ids = (
            {job.id for job in never_started(leases)} if never_started is not None else set()
        )
        released = _release(queue, [job for job in leases if job.id in unstarted_ids], reason)
        started = [job for job in leases if job.id not in unstarted_ids]
        expired = expire_leases(queue, started, reason, RecoveredBy.MONITOR).expired
        if not expired and not released:
            # Another process has already taken back all of them.
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
    """List it like a worker that missed its heartbeat, so that users see which one died."""
    for record in queue.store.workers([queue.key])[0]:
        if record.heartbeat.id == worker:
            queue.store.heartbeat(
                queue.key, msgspec.structs.replace(record.heartbeat, ttl=EXPIRED_TTL), []
            )


def expire_leases(
    queue: Queue[Any, Any],
    leases: Sequence[Record],
    reason: str,
    by: RecoveredBy = RecoveredBy.SWEEP,
) -> ExpiredLeases:
    """Expire leases, and count the jobs that it affected."""
    applied = [verdict for verdict in queue.expire(leases, reason, by) if verdict.applied]
    return ExpiredLeases(len(applied), sum(verdict.state is State.FAILED for verdict in applied))


def recover(queue: Queue[Any, Any]) -> ExpiredLeases:
    """Expire lapsed leases and those of dead workers now, even if recovery is turned off.

    >>> recover(queue)  # doctest: +SKIP
    ExpiredLeases(expired=3, dead_lettered=0)
    """
    return _expire_lapsed(queue, RecoveredBy.MANUAL) + _expire_dead_workers(
        queue, RecoveredBy.MANUAL
    )


def _expire_lapsed(queue: Queue[Any, Any], by: RecoveredBy) -> ExpiredLeases:
    total = ExpiredLeases()
    while lapsed := queue.store.leases(queue.key):
        expired = expire_leases(queue, lapsed, "lease expired", by)
        total += expired
        if not expired.expired or len(lapsed) < LEASES_LIMIT:
            break
    return total


def _expire_dead_workers(queue: Queue[Any, Any], by: RecoveredBy) -> ExpiredLeases:
    total = ExpiredLeases()
    leases = {
        worker: queue.store.leases(queue.key, worker=worker) for worker in _dead_workers(queue)
    }
    # A heartbeat extends the leases. So a worker that is still dead after its leases were read has
    # these deadlines, or a later heartbeat changes them, and expiring the old ones is rejected.
    for worker in _dead_workers(queue) & leases.keys() if leases else ():
        total += expire_leases(queue, leases[worker], HEARTBEAT_MISSED, by)
    return total


class Reaper(MaintenanceLoop):
    """Expires leases past their deadline, and those of workers that missed their heartbeat.

    It expires none in a queue whose settings turn recovery off, and none at all if `recovery` is
    False; stuck leases are reported in any case.
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
            self.lock_name = "report"  # so that other processes still sweep
        super().__init__(queues, interval)
        self._stuck_after = stuck_after
        self._recovery = recovery
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
            if self._recovery and settings.recovery:
                self._expire_lapsed(queue)
                self._count_expired(_expire_dead_workers(queue, RecoveredBy.HEARTBEAT))
        finally:
            self._report_stuck(queue, settings)
        return settings.sweep_every or AFTER_INTERVAL

    def _time_left(self, queue: Queue[Any, Any]) -> float:
        """Seconds until the next sweep, if the queue has an interval of its own."""
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
                "queue %s: %d leases expired more than %g s ago and %s: %s",
                queue.key,
                len(stuck),
                limit,
                "recovery is turned off" if off else "could not be taken back",
                ", ".join(sorted(repr(id) for id, _ in new)),
            )

    def _count_expired(self, leases: ExpiredLeases) -> None:
        self.count("expired", leases.expired)
        self.count("dead_lettered", leases.dead_lettered)


def _dead_workers(queue: Queue[Any, Any]) -> set[str]:
    """Workers with leases that have missed their heartbeat, by the store's clock."""
    workers = [worker for worker in queue.store.workers([queue.key])[0] if worker.leases]
    if not workers:
        return set()
    now = queue.store.now()
    return {worker.heartbeat.id for worker in workers if worker.expires_at <= now}
