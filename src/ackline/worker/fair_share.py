"""Fair shares: of the queues that want jobs, the one that had the fewest for its weight is next."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence

MAX_DEFERRAL = 1.0
"""Seconds that a queue is held back for others that take nothing: they may be unable to."""

MAX_CATCH_UP = 4000
"""How many jobs behind its share a queue may make up for: a fraction of a second's.
This is for the heaviest queue; lighter ones have less, by their weight."""


def never_wants_jobs() -> bool:
    """Used for a queue that never blocks the others."""
    return False


class QueueShare:
    """What one queue has had, and whether it may have more now."""

    def __init__(self, shares: FairShare, weight: float, wants: Callable[[], bool]) -> None:
        self._shares = shares
        self.weight = weight
        self.wants_jobs = wants
        self.served = 0.0
        """Jobs, divided by the weight; the queue with less goes first."""
        self.deferred = False

    def try_take(self, jobs: int) -> bool:
        """Count these jobs as had; False if another queue that wants some goes first."""
        return self._shares.take(self, jobs)

    def return_unused(self, jobs: int) -> None:
        """Take back the count of jobs that did not come."""
        with self._shares.lock:
            self.served -= jobs / self.weight

    def count_delivered(self, jobs: int) -> None:
        """Count jobs that came without being asked for."""
        self.return_unused(-jobs)


class FairShare:
    """The queues of one worker. While one wants nothing, the others share what it leaves.

    It may not save up its share: when it comes back, it begins about where the others are.
    """

    def __init__(self, most_behind: int = MAX_CATCH_UP) -> None:
        self.lock = threading.Lock()
        self._max_catch_up = most_behind
        self._heaviest = 0.0
        self._shares: list[QueueShare] = []
        self._max_served = 0.0
        """The highest `had` of all queues."""
        self._moved_at = 0.0

    def add(self, weight: float, wants: Callable[[], bool] = never_wants_jobs) -> QueueShare:
        """One more queue; `wants` tells whether it would take jobs now."""
        share = QueueShare(self, weight, wants)
        self._shares.append(share)
        self._heaviest = max(self._heaviest, weight)
        return share

    def take(self, share: QueueShare, jobs: int) -> bool:
        """See `Share.take`."""
        with self.lock:
            had = self._served(share)
            rivals = (
                self._served(each)
                for each in self._shares
                if each is not share and each.wants_jobs()
            )
            if had > min(rivals, default=had) and self._others_progress(share):
                return False
            share.deferred, self._moved_at = False, time.monotonic()
            share.served = had + jobs / share.weight
            self._max_served = max(self._max_served, share.served)
            return True

    def next_share(self, among: Sequence[QueueShare], jobs: int) -> tuple[QueueShare, int]:
        """Which queue takes of these jobs next, and how many bring it level with the others."""
        with self.lock:
            first = min(among, key=self._served)
            had = sum(self._served(share) * share.weight for share in among)
            level = (had + jobs) / sum(share.weight for share in among)
            behind = (level - self._served(first)) * first.weight
            return first, min(jobs, max(1, math.ceil(behind)))

    def _served(self, share: QueueShare) -> float:
        return max(share.served, self._max_served - self._max_catch_up / self._heaviest)

    def _others_progress(self, share: QueueShare) -> bool:
        """Whether the queues in front have taken something recently, or had no time to do so."""
        now = time.monotonic()
        if not share.deferred:
            share.deferred, self._moved_at = True, now
        return now - self._moved_at < MAX_DEFERRAL
