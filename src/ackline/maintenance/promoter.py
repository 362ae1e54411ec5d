"""Promotes jobs that were scheduled, or wait for their next attempt, when they are due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ackline.maintenance.loop import NOTHING_KNOWN, Loop, next_due
from ackline.queue import Queue

BATCH = 500

SHORTEST_PAUSE = 0.05
"""Seconds; a job that is due may be locked by somebody else, who lets go of it soon."""


class Promoter(Loop):
    """Never early, at most an interval late; workers that wait for jobs are more precise still."""

    name = "promoter"
    duty = "promote"
    counts = ("promoted",)

    def due(self) -> Mapping[Queue[Any, Any], float]:
        return _waits(self.candidates())

    def candidates(self) -> Sequence[Queue[Any, Any]]:
        """The queues that may have jobs to promote."""
        return self.queues

    def look_after(self, queue: Queue[Any, Any]) -> float:
        while (count := queue.store.promote(queue.key, BATCH)) == BATCH:
            self.count("promoted", count)
        self.count("promoted", count)
        return max(SHORTEST_PAUSE, _waits([queue]).get(queue, NOTHING_KNOWN))


def _waits(queues: Sequence[Queue[Any, Any]]) -> dict[Queue[Any, Any], float]:
    """For each queue with jobs that wait for their time, the seconds until the first is due."""
    waiting = {queue: due.job for queue, due in next_due(queues).items() if due.job is not None}
    now = queues[0].store.now() if waiting else 0.0
    return {queue: at - now for queue, at in waiting.items()}
