"""Makes scheduled jobs and retries ready when they are due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ackline.maintenance.loop import AFTER_INTERVAL, MaintenanceLoop, next_due
from ackline.queue import Queue

BATCH = 500

MIN_INTERVAL = 0.05
"""Seconds between two steps; a due job may be locked by another process for a moment."""


class Promoter(MaintenanceLoop):
    """Promotes jobs, never early and at most an interval late; waiting workers are more precise."""

    name = "promoter"
    lock_name = "promote"
    counters = ("promoted",)

    def due(self) -> Mapping[Queue[Any, Any], float]:
        return _seconds_until_due(self.candidates())

    def candidates(self) -> Sequence[Queue[Any, Any]]:
        """The queues that may have jobs to promote."""
        return self.queues

    def maintain(self, queue: Queue[Any, Any]) -> float:
        while (count := queue.store.promote(queue.key, BATCH)) == BATCH:
            self.count("promoted", count)
        self.count("promoted", count)
        return max(MIN_INTERVAL, _seconds_until_due([queue]).get(queue, AFTER_INTERVAL))


def _seconds_until_due(queues: Sequence[Queue[Any, Any]]) -> dict[Queue[Any, Any], float]:
    """The seconds until the next job of each queue is due; queues without such jobs are omitted."""
    waiting = {
        queue: due.job_at for queue, due in next_due(queues).items() if due.job_at is not None
    }
    now = queues[0].store.now() if waiting else 0.0
    return {queue: at - now for queue, at in waiting.items()}
