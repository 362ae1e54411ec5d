"""How many jobs to hold: enough to keep the lanes busy, not more than that."""

from __future__ import annotations

import time

PREFETCH_SECONDS = 0.1
"""Seconds of work to hold in advance, at the recent pace."""

RATE_WINDOW = 0.02
"""Seconds over which the pace is measured."""


class Prefetch:
    """Adaptive prefetch: a fast queue fetches hundreds ahead, a slow one next to nothing."""

    def __init__(self, concurrency: int, batch: int) -> None:
        self._concurrency = concurrency
        self._max_jobs = concurrency + 4 * batch
        self._rate = 0.0
        self._settled = 0
        self._since = time.monotonic()

    def count_settled(self, count: int) -> None:
        """Count jobs that have been settled."""
        self._settled += count
        now = time.monotonic()
        span = now - self._since
        if span >= RATE_WINDOW:
            measured = self._settled / span
            self._rate += (measured - self._rate) * min(1.0, span / PREFETCH_SECONDS)
            self._settled, self._since = 0, now

    @property
    def target(self) -> int:
        """How many jobs to hold, those that run included."""
        span = time.monotonic() - self._since
        # When nothing has ended for a while, the earlier pace means nothing any more.
        pace = self._rate if span < RATE_WINDOW else min(self._rate, (self._settled + 1) / span)
        ahead = max(pace * PREFETCH_SECONDS, self._settled)
        return min(self._max_jobs, self._concurrency + int(ahead))
