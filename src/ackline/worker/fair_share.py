"""Fair sharing: of queues with jobs to run, the one that got the fewest for its weight is next."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence

MAX_DEFERRAL = 1.0
"""Seconds that a queue waits for others that take nothing: they may be unable to."""

MAX_CATCH_UP = 4000
"""How many jobs a queue that fell behind may catch up on: less than a second's worth.
This is for the queue with the highest weight; others may catch up on fewer."""


def never_wants_jobs() -> bool:
    """For a queue that never makes others wait."""
    return False


class QueueShare:
    """How many jobs one queue was given, and whether it may take more now."""

    def __init__(
        self, fair_share: FairShare, weight: float, wants_jobs: Callable[[], bool]
    ) -> None:
        self._fair_share = fair_share
        self.weight = weight
        self.wants_jobs = wants_jobs
        self.served = 0.0
        """Jobs taken, divided by the weight; the queue with the lowest number goes first."""
        self.deferred = False

    def try_take(self, jobs: int) -> bool:
        """Count these jobs as taken; False if another queue that wants some goes first."""
        return self._fair_share.try_take(self, jobs)

    def return_unused(self, jobs: int) -> None:
        """Uncount jobs that were taken, but did not arrive."""
        with self._fair_share.lock:
            self.served -= jobs / self.weight

    def count_delivered(self, jobs: int) -> None:
        """Count jobs that were delivered without a claim."""
        self.return_unused(-jobs)


class FairShare:
    """The queues of one worker. While one wants nothing, the others share its part.

    A queue cannot save up its share: when it wants jobs again, it continues about where the others
    are.
    """

    def __init__(self, max_catch_up: int = MAX_CATCH_UP) -> None:
        self.lock = threading.Lock()
        self._max_catch_up = max_catch_up
        self._heaviest = 0.0
        self._shares: list[QueueShare] = []
        self._max_served = 0.0
        """The highest `served` of all queues."""
        self._progress_at = 0.0

    def add(self, weight: float, wants_jobs: Callable[[], bool] = never_wants_jobs) -> QueueShare:
        """Add a queue; `wants_jobs` tells whether it would take jobs now."""
        share = QueueShare(self, weight, wants_jobs)
        self._shares.append(share)
        self._heaviest = max(self._heaviest, weight)
        return share

    def try_take(self, share: QueueShare, jobs: int) -> bool:
        """See `QueueShare.try_take`."""
        with self.lock:
            served = self._served(share)
            others = (
                self._served(each)
                for each in self._shares
                if each is not share and each.wants_jobs()
            )
            if served > min(others, default=served) and self._others_progress(share):
                return False
            share.deferred, self._progress_at = False, time.monotonic()
            share.served = served + jobs / share.weight
            self._max_served = max(self._max_served, share.served)
            return True

    def next_share(self, candidates: Sequence[QueueShare], jobs: int) -> tuple[QueueShare, int]:
        """Which queue takes some of these jobs next, and how many until it is level with others."""
        with self.lock:
            first = min(candidates, key=self._served)
            served = sum(self._served(share) * share.weight for share in candidates)
            level = (served + jobs) / sum(share.weight for share in candidates)
            behind = (level - self._served(first)) * first.weight
            return first, min(jobs, max(1, math.ceil(behind)))

    def _served(self, share: QueueShare) -> float:
        return max(share.served, self._max_served - self._max_catch_up / self._heaviest)

    def _others_progress(self, share: QueueShare) -> bool:
        """Whether the queues that go first took jobs recently, or had no time to do so yet."""
        now = time.monotonic()
        if not share.deferred:
            share.deferred, self._progress_at = True, now
        return now - self._progress_at < MAX_DEFERRAL
