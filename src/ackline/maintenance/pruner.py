"""Drops finished jobs, journal entries and dead workers whose time is over."""

from __future__ import annotations

from typing import Any

from ackline.maintenance.loop import NOTHING_KNOWN, Loop
from ackline.queue import Queue
from ackline.queue.reader import first_needed

BATCH = 500
"""Jobs per step, so that nobody waits long for a store that is busy pruning."""


class Pruner(Loop):
    """Keeps every collection bounded."""

    name = "pruner"
    duty = "prune"
    counts = ("pruned",)

    def look_after(self, queue: Queue[Any, Any]) -> float:
        keep_from = first_needed(queue.store, queue.key)
        while (count := queue.store.prune(queue.key, BATCH, keep_from)) == BATCH:
            self.count("pruned", count)
        self.count("pruned", count)
        return NOTHING_KNOWN
