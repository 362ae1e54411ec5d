"""Where in a queue's lines a process looks for the next jobs.

While another session holds a snapshot open, the rows of claimed jobs cannot be removed, and a claim
that begins at the head of a line reads all of them again. So a claim begins behind the jobs that
this process took last. Rows may be added before that place, by transactions that commit late or
have another clock. They are found by a look from further back, and by a full look from the very
beginning, as often as these are cheap. Lanes without an order are always read from the beginning.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable

from ackline.core.fork_safety import renew_locks_after_fork

LANES, FIRST_PROMOTED_LANE, UNORDERED_LANE = 21, 10, 20
"""How many lanes a line has; the first lane of promoted jobs; the lane of jobs in any order."""

STEP_BACK_INTERVAL, STEP_BACK_AGE = 0.25, 1.0
"""Seconds between looks from further back, and the age of the place where these begin."""

FULL_SCAN_SHARE, FULL_SCAN_INTERVAL = 50.0, 5.0
"""Full looks take at most 1/FULL_SCAN_SHARE of the time, but come at least every
FULL_SCAN_INTERVAL seconds."""

CHEAP_SCAN, IDLE_SCAN_SHARE = 0.02, 10.0
"""If nothing was found, a full look follows that took at most CHEAP seconds the last time, or that
takes at most 1/IDLE_SCAN_SHARE of the time."""

Position = tuple[float, int]
Lane = tuple[int, int]
START: Position = (-math.inf, 0)
_LANES, _STARTS = list(range(LANES)), [START] * LANES

LanePositions = dict[int, list[Position]]
"""Line → the place in each of its lanes."""


class Scan:
    """The place in each lane from which one claim reads."""

    __slots__ = ("cost", "full", "generation", "jobs", "lanes", "lines", "ranks")

    def __init__(self, stamp: int, full: bool) -> None:
        self.generation = stamp
        self.full = full
        self.cost = 0.0
        self.lines: list[int] = []
        self.lanes: list[int] = []
        self.ranks: list[float] = []
        self.jobs: list[int] = []

    def add(self, line: int, places: list[Position]) -> None:
        """Read the lanes of a line from these places on."""
        self.lines += [line] * LANES
        self.lanes += _LANES
        self.ranks += [rank for rank, _ in places]
        self.jobs += [job for _, job in places]


class ScanPositions:
    """What one process knows about the lines of one queue."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        renew_locks_after_fork(self, "_lock")
        self._stamp = 0
        self._last: LanePositions = {}
        self._older: LanePositions = {}
        self._next_older: LanePositions = {}
        self._aged_at = self._back_at = time.monotonic()
        self._full_at = -math.inf
        self._full_cost = 0.0

    def look(self, lines: Iterable[int]) -> Scan:
        """Decide where to begin to read."""
        with self._lock:
            now = time.monotonic()
            self._age(now)
            if self._is_due(now, FULL_SCAN_SHARE):
                return self._make_scan(lines, {}, full=True)
            if now - self._back_at >= STEP_BACK_INTERVAL:
                self._back_at = now
                return self._make_scan(lines, self._older)
            return self._make_scan(lines, self._last)

    def rescan(self, lines: Iterable[int]) -> Scan:
        """After a look that found nothing: from further back, or from the very beginning."""
        with self._lock:
            now = time.monotonic()
            if self._full_cost <= CHEAP_SCAN or self._is_due(now, IDLE_SCAN_SHARE):
                return self._make_scan(lines, {}, full=True)
            self._back_at = now
            return self._make_scan(lines, self._older)

    def _is_due(self, now: float, share: float) -> bool:
        return now - self._full_at >= min(FULL_SCAN_INTERVAL, share * self._full_cost)

    def _make_scan(
        self, lines: Iterable[int], bounds: LanePositions, *, full: bool = False
    ) -> Scan:
        look = Scan(self._stamp, full)
        if full:
            self._full_at = time.monotonic()
        for line in lines:
            look.add(line, bounds.get(line, _STARTS))
        return look

    def _age(self, now: float) -> None:
        if now - self._aged_at >= STEP_BACK_AGE:
            self._aged_at = now
            last = {line: list(places) for line, places in self._last.items()}
            self._older, self._next_older = self._next_older, last

    def advance(self, look: Scan, last: dict[Lane, Position]) -> None:
        """Note the jobs that a look found, once they are claimed: the next begins behind them."""
        with self._lock:
            if look.full:
                self._full_cost = look.cost
            if look.generation == self._stamp:
                for (line, lane), place in last.items():
                    places = self._last.setdefault(line, list(_STARTS))
                    if lane != UNORDERED_LANE and place > places[lane]:
                        places[lane] = place

    def step_back_to(self, line: int, lane: int, place: Position) -> None:
        """Note that a job was put in this place: do not begin behind it."""
        with self._lock:
            for bounds in (self._last, self._older, self._next_older):
                if line in bounds and place < bounds[line][lane]:
                    bounds[line][lane] = place
                    # The results of a look that began earlier say nothing about this place.
                    self._stamp += 1

    def reset(self) -> None:
        """Begin anew: jobs may have been put anywhere."""
        with self._lock:
            self._stamp += 1
            self._last, self._older, self._next_older = {}, {}, {}


LEASE_SCAN_INTERVAL, LEASE_SCAN_SHARE = 1.0, 50.0
"""Looks at all leases are at least EVERY seconds apart, and take at most 1/SHARE of the time."""


class LeaseScan:
    """What one process knows about the leases of one queue."""

    def __init__(self) -> None:
        self.start = -math.inf
        """The deadline at which a search begins."""
        self._looked_at = math.inf
        self._next_look = -math.inf

    def is_due(self, now: float) -> bool:
        """Whether to look at all leases; also if the clock was set back."""
        return not self._looked_at <= now < self._next_look

    def finished(self, first: float | None, now: float, cost: float) -> None:
        """Note the first deadline that a look at all leases found, and its cost in seconds."""
        self.start = now if first is None else first
        self._looked_at, self._next_look = (
            now,
            now + max(LEASE_SCAN_INTERVAL, LEASE_SCAN_SHARE * cost),
        )

    def lower(self, deadline: float) -> None:
        """Note a new lease: searches must not begin behind it."""
        self.start = min(self.start, deadline)
