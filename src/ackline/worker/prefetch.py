"""How many jobs to claim ahead: enough to keep the handlers busy, and no more."""

from __future__ import annotations

import time

PREFETCH_SECONDS = 0.1
"""Seconds of work to claim ahead, at the recent rate."""

RATE_WINDOW = 0.02
"""Seconds over which the rate is measured."""


class Prefetch:
    """Adaptive prefetch: hundreds of jobs for a fast queue, hardly any for a slow one."""

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
        """How many jobs to lease, including those that are running."""
        span = time.monotonic() - self._since
        # If nothing was settled for a while, the earlier rate no longer holds.
        rate = self._rate if span < RATE_WINDOW else min(self._rate, (self._settled + 1) / span)
        ahead = max(rate * PREFETCH_SECONDS, self._settled)
        return min(self._max_jobs, self._concurrency + int(ahead))
