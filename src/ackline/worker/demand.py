"""How many jobs to hold: enough to keep the lanes busy, not more than that."""

from __future__ import annotations

import time

HORIZON = 0.1
"""Seconds of work to hold in advance, at the recent pace."""

MEASURE = 0.02
"""Seconds over which the pace is measured."""


class Demand:
    """Adaptive prefetch: a fast queue fetches hundreds ahead, a slow one next to nothing."""

    def __init__(self, concurrency: int, batch: int) -> None:
        self._concurrency = concurrency
        self._most = concurrency + 4 * batch
        self._pace = 0.0
        self._ended = 0
        self._since = time.monotonic()

    def note_ended(self, count: int) -> None:
        """Count jobs that have been settled."""
        self._ended += count
        now = time.monotonic()
        span = now - self._since
        if span >= MEASURE:
            measured = self._ended / span
            self._pace += (measured - self._pace) * min(1.0, span / HORIZON)
            self._ended, self._since = 0, now

    @property
    def target(self) -> int:
        """How many jobs to hold, those that run included."""
        span = time.monotonic() - self._since
        # When nothing has ended for a while, the earlier pace means nothing any more.
        pace = self._pace if span < MEASURE else min(self._pace, (self._ended + 1) / span)
        ahead = max(pace * HORIZON, self._ended)
        return min(self._most, self._concurrency + int(ahead))
