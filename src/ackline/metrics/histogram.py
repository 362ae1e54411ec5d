"""A histogram of durations, with the buckets that all metrics of jobs have."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

BOUNDS = (0.005, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 60.0, 300.0, 1800.0, 7200.0, 86_400.0)


class DurationHistogram:
    """A histogram of durations."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one more duration."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    @property
    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative buckets, as Prometheus expects them."""
        bounds = [*map(str, BOUNDS), "+Inf"]
        return list(zip(bounds, map(float, accumulate(self.counts)), strict=True))
