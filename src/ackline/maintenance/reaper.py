"""Takes back the leases of workers that crashed, hang, or were cut off."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from ackline.job import Record, State
from ackline.maintenance.loop import NOTHING_KNOWN, Loop
from ackline.queue import Queue
from ackline.stores.base import REPAIR_LIMIT

logger = logging.getLogger("ackline")

HEARTBEAT_MISSED = "worker heartbeat missed"


class Expired(msgspec.Struct, frozen=True):
    """How many leases were taken back, and how many of those jobs went to the DLQ."""

    expired: int = 0
    dead_lettered: int = 0

    def __add__(self, other: Expired) -> Expired:
        return Expired(self.expired + other.expired, self.dead_lettered + other.dead_lettered)


def expire_worker(queue: Queue[Any, Any], worker: str, reason: str) -> Expired:
    """Take back all that a worker holds, for it is known to be dead.

    >>> expire_worker(queue, "host-4711-0a1b", "its process was killed")  # doctest: +SKIP
    """
    total = Expired()
    while held := queue.store.leases(queue.key, worker=worker):
        taken = expire(queue, held, reason)
        total += taken
        if not taken.expired:
            # Someone else was quicker with every one of them.
            break
    _say_goodbye(queue, worker)
    return total


def _say_goodbye(queue: Queue[Any, Any], worker: str) -> None:
    for known in queue.store.workers(queue.key):
        if known.beat.id == worker:
            queue.store.heartbeat(queue.key, msgspec.structs.replace(known.beat, ttl=0.0), [])


def expire(queue: Queue[Any, Any], leases: Sequence[Record], reason: str) -> Expired:
    """Take leases back, and count what came of it."""
    applied = [verdict for verdict in queue.expire(leases, reason) if verdict.applied]
    return Expired(len(applied), sum(verdict.state is State.FAILED for verdict in applied))


class Reaper(Loop):
    """Expires leases past their deadline, and at once those of a worker that fell silent."""

    name = "reaper"

    def __init__(
        self, queues: Sequence[Queue[Any, Any]], interval: float, *, stuck_after: float = 300.0
    ) -> None:
        super().__init__(queues, interval)
        self._stuck_after = stuck_after
        self._reported: dict[Queue[Any, Any], frozenset[tuple[str, int]]] = {}

    def look_after(self, queue: Queue[Any, Any]) -> float:
        if queue.counts()[State.PROCESSING]:
            try:
                self._expire_lapsed(queue)
                self._expire_silent(queue)
            finally:
                self._report_stuck(queue)
        return NOTHING_KNOWN

    def _expire_lapsed(self, queue: Queue[Any, Any]) -> None:
        while lapsed := queue.store.leases(queue.key):
            taken = expire(queue, lapsed, "lease expired")
            self._note(taken)
            if not taken.expired or len(lapsed) < REPAIR_LIMIT:
                return

    def _expire_silent(self, queue: Queue[Any, Any]) -> None:
        held = {worker: queue.store.leases(queue.key, worker=worker) for worker in _silent(queue)}
        if not held:
            return
        # A worker that speaks up again extends its leases. So whoever is still silent after the
        # leases were read has these deadlines, or has spoken and is saved by the new ones.
        for worker in _silent(queue) & held.keys():
            self._note(expire(queue, held[worker], HEARTBEAT_MISSED))

    def _report_stuck(self, queue: Queue[Any, Any]) -> None:
        lapsed = queue.store.leases(queue.key)
        before = queue.store.info().now - self._stuck_after if lapsed else 0.0
        stuck = {(job.id, job.token) for job in lapsed if (job.deadline or 0.0) < before}
        new = stuck - self._reported.get(queue, frozenset())
        self._reported[queue] = frozenset(stuck)
        if new:
            logger.error(
                "queue %s: the leases of %d jobs lapsed more than %g s ago and cannot be taken "
                "back: %s",
                queue.key,
                len(stuck),
                self._stuck_after,
                ", ".join(sorted(repr(id) for id, _ in new)),
            )

    def _note(self, taken: Expired) -> None:
        self.count("expired", taken.expired)
        self.count("dead_lettered", taken.dead_lettered)


def _silent(queue: Queue[Any, Any]) -> set[str]:
    """Workers that hold jobs but have missed their heartbeat, by the store's clock."""
    holding = [worker for worker in queue.store.workers(queue.key) if worker.holds]
    if not holding:
        return set()
    now = queue.store.info().now
    return {worker.beat.id for worker in holding if worker.expires_at <= now}
