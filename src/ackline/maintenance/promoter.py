"""Promotes jobs that were scheduled, or wait for their next attempt, when they are due."""

from __future__ import annotations

from typing import Any

from ackline.job import State
from ackline.maintenance.loop import NOTHING_KNOWN, Loop
from ackline.queue import Queue
from ackline.stores.base import ClaimRequest

BATCH = 500

SHORTEST_PAUSE = 0.05
"""Seconds; the next moment that a store reports may be the end of a lease, not for us to handle."""

_LOOK = ClaimRequest(worker="promoter", limit=0, lease=1.0, kinds=frozenset())
"""A claim of nothing: it returns when the next job is due."""


class Promoter(Loop):
    """Never early, at most an interval late; workers that wait for jobs are more precise still."""

    name = "promoter"
    counts = ("promoted",)

    def look_after(self, queue: Queue[Any, Any]) -> float:
        counts = queue.counts()
        if not counts[State.SCHEDULED] and not counts[State.FAILING]:
            return NOTHING_KNOWN
        while (count := queue.store.promote(queue.key, BATCH)) == BATCH:
            self.count("promoted", count)
        self.count("promoted", count)
        look = queue.store.claim(queue.key, _LOOK)
        if look.next_at is None:
            return NOTHING_KNOWN
        return max(SHORTEST_PAUSE, look.next_at - look.now)
