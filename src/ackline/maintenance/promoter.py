"""Promotes jobs that were scheduled, or wait for their next attempt, when they are due."""

from __future__ import annotations

from typing import Any

from ackline.maintenance.loop import NOTHING_KNOWN, Loop
from ackline.queue import Queue

BATCH = 500

SHORTEST_PAUSE = 0.05
"""Seconds; a job that is due may be locked by somebody else, who lets go of it soon."""


class Promoter(Loop):
    """Never early, at most an interval late; workers that wait for jobs are more precise still."""

    name = "promoter"
    counts = ("promoted",)

    def look_after(self, queue: Queue[Any, Any]) -> float:
        while (wait := _wait(queue)) <= 0:
            count = queue.store.promote(queue.key, BATCH)
            self.count("promoted", count)
            if count < BATCH:
                # What is due still is being changed by somebody else, who may promote it.
                return max(SHORTEST_PAUSE, _wait(queue))
        return wait


def _wait(queue: Queue[Any, Any]) -> float:
    """Seconds until the next job is due; at most 0 if one is."""
    [due] = queue.store.next_due([queue.key])
    return NOTHING_KNOWN if due.job is None else due.job - queue.store.now()
