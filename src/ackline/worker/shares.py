"""Fair shares: of the queues that want jobs, the one that had the fewest for its weight is next."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence

LONGEST_HOLD = 1.0
"""Seconds that a queue is held back for others that take nothing: they may be unable to."""

MOST_BEHIND = 4000
"""How many jobs behind its share a queue may make up for: a fraction of a second's.
This is for the heaviest queue; lighter ones have less, by their weight."""


def never() -> bool:
    """Used for a queue that never blocks the others."""
    return False


class Share:
    """What one queue has had, and whether it may have more now."""

    def __init__(self, shares: Shares, weight: float, wants: Callable[[], bool]) -> None:
        self._shares = shares
        self.weight = weight
        self.wants = wants
        self.had = 0.0
        """Jobs, divided by the weight; the queue with less goes first."""
        self.held = False

    def take(self, jobs: int) -> bool:
        """Count these jobs as had; False if another queue that wants some goes first."""
        return self._shares.take(self, jobs)

    def give_back(self, jobs: int) -> None:
        """Take back the count of jobs that did not come."""
        with self._shares.lock:
            self.had -= jobs / self.weight

    def be_given(self, jobs: int) -> None:
        """Count jobs that came without being asked for."""
        self.give_back(-jobs)


class Shares:
    """The queues of one worker. While one wants nothing, the others share what it leaves.

    It may not save up its share: when it comes back, it begins about where the others are.
    """

    def __init__(self, most_behind: int = MOST_BEHIND) -> None:
        self.lock = threading.Lock()
        self._most_behind = most_behind
        self._heaviest = 0.0
        self._all: list[Share] = []
        self._lead = 0.0
        """The highest `had` of all queues."""
        self._moved_at = 0.0

    def add(self, weight: float, wants: Callable[[], bool] = never) -> Share:
        """One more queue; `wants` tells whether it would take jobs now."""
        share = Share(self, weight, wants)
        self._all.append(share)
        self._heaviest = max(self._heaviest, weight)
        return share

    def take(self, share: Share, jobs: int) -> bool:
        """See `Share.take`."""
        with self.lock:
            had = self._had(share)
            rivals = (self._had(each) for each in self._all if each is not share and each.wants())
            if had > min(rivals, default=had) and self._moves(share):
                return False
            share.held, self._moved_at = False, time.monotonic()
            share.had = had + jobs / share.weight
            self._lead = max(self._lead, share.had)
            return True

    def next(self, among: Sequence[Share], jobs: int) -> tuple[Share, int]:
        """Which queue takes of these jobs next, and how many bring it level with the others."""
        with self.lock:
            first = min(among, key=self._had)
            had = sum(self._had(share) * share.weight for share in among)
            level = (had + jobs) / sum(share.weight for share in among)
            behind = (level - self._had(first)) * first.weight
            return first, min(jobs, max(1, math.ceil(behind)))

    def _had(self, share: Share) -> float:
        return max(share.had, self._lead - self._most_behind / self._heaviest)

    def _moves(self, share: Share) -> bool:
        """Whether the queues in front have taken something recently, or had no time to do so."""
        now = time.monotonic()
        if not share.held:
            share.held, self._moved_at = True, now
        return now - self._moved_at < LONGEST_HOLD
