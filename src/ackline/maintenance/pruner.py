"""Deletes finished jobs, journal entries and dead workers after their retention."""

from __future__ import annotations

from typing import Any

from ackline.maintenance.loop import AFTER_INTERVAL, MaintenanceLoop
from ackline.queue import Queue
from ackline.queue.journal.reader import oldest_needed_cursor

BATCH = 500
"""Jobs per step, so that a store that is pruning does not block others for long."""


class Pruner(MaintenanceLoop):
    """Prunes what the retention of each queue no longer keeps."""

    name = "pruner"
    lock_name = "prune"
    counters = ("pruned",)

    def maintain(self, queue: Queue[Any, Any]) -> float:
        keep_from = oldest_needed_cursor(queue.store, queue.key)
        while (count := queue.store.prune(queue.key, BATCH, keep_from)) == BATCH:
            self.count("pruned", count)
        self.count("pruned", count)
        return AFTER_INTERVAL
