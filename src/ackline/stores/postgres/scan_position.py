"""Where a claim starts to read the ready jobs of a queue.

Dead rows of claimed jobs cannot be vacuumed while another session keeps a snapshot open, and a
claim that starts at the beginning of a lane reads all of them again. So a claim starts after the
jobs that this process claimed last. Jobs may be added before that position, by transactions that
commit late or use another clock. They are found by scans that start further back, and by full
scans, as often as these are cheap. Lanes without an order are always read from the beginning.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable

from ackline.core.fork_safety import renew_locks_after_fork

LANES, FIRST_PROMOTED_LANE, UNORDERED_LANE = 21, 10, 20
"""How many lanes a kind has; the first lane of promoted jobs; the lane without an order."""

STEP_BACK_INTERVAL, STEP_BACK_AGE = 0.25, 1.0
"""Seconds between scans that start further back, and the age of the positions they start at."""

FULL_SCAN_SHARE, FULL_SCAN_INTERVAL = 50.0, 5.0
"""Full scans take at most 1/FULL_SCAN_SHARE of the time, but at least one is made every
FULL_SCAN_INTERVAL seconds."""

CHEAP_SCAN, IDLE_SCAN_SHARE = 0.02, 10.0
"""If nothing was found, a full scan follows if the last one took at most CHEAP_SCAN seconds, or if
full scans then take at most 1/IDLE_SCAN_SHARE of the time."""

Position = tuple[float, int]
Lane = tuple[int, int]
START: Position = (-math.inf, 0)
_LANES, _STARTS = list(range(LANES)), [START] * LANES

LanePositions = dict[int, list[Position]]
"""Kind → the position in each of its lanes."""


class Scan:
    """The positions in each lane at which one claim starts to read."""

    __slots__ = ("cost", "full", "generation", "jobs", "kind_ids", "lanes", "ranks")

    def __init__(self, generation: int, full: bool) -> None:
        self.generation = generation
        self.full = full
        self.cost = 0.0
        self.kind_ids: list[int] = []
        self.lanes: list[int] = []
        self.ranks: list[float] = []
        self.jobs: list[int] = []

    def add(self, kind_id: int, positions: list[Position]) -> None:
        """Read the lanes of a kind from these positions on."""
        self.kind_ids += [kind_id] * LANES
        self.lanes += _LANES
        self.ranks += [rank for rank, _ in positions]
        self.jobs += [job for _, job in positions]


class ScanPositions:
    """What one process knows about the ready jobs of one queue."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        renew_locks_after_fork(self, "_lock")
        self._generation = 0
        self._last_positions: LanePositions = {}
        self._older_positions: LanePositions = {}
        self._next_older_positions: LanePositions = {}
        self._aged_at = self._stepped_back_at = time.monotonic()
        self._full_at = -math.inf
        self._full_cost = 0.0

    def start_scan(self, kind_ids: Iterable[int]) -> Scan:
        """Decide where to start."""
        with self._lock:
            now = time.monotonic()
            self._age(now)
            if self._is_due(now, FULL_SCAN_SHARE):
                return self._make_scan(kind_ids, {}, full=True)
            if now - self._stepped_back_at >= STEP_BACK_INTERVAL:
                self._stepped_back_at = now
                return self._make_scan(kind_ids, self._older_positions)
            return self._make_scan(kind_ids, self._last_positions)

    def rescan(self, kind_ids: Iterable[int]) -> Scan:
        """Decide where to start after a scan that found nothing."""
        with self._lock:
            now = time.monotonic()
            if self._full_cost <= CHEAP_SCAN or self._is_due(now, IDLE_SCAN_SHARE):
                return self._make_scan(kind_ids, {}, full=True)
            self._stepped_back_at = now
            return self._make_scan(kind_ids, self._older_positions)

    def _is_due(self, now: float, share: float) -> bool:
        return now - self._full_at >= min(FULL_SCAN_INTERVAL, share * self._full_cost)

    def _make_scan(
        self, kind_ids: Iterable[int], bounds: LanePositions, *, full: bool = False
    ) -> Scan:
        scan = Scan(self._generation, full)
        if full:
            self._full_at = time.monotonic()
        for kind_id in kind_ids:
            scan.add(kind_id, bounds.get(kind_id, _STARTS))
        return scan

    def _age(self, now: float) -> None:
        if now - self._aged_at >= STEP_BACK_AGE:
            self._aged_at = now
            last = {kind_id: list(positions) for kind_id, positions in self._last_positions.items()}
            self._older_positions, self._next_older_positions = self._next_older_positions, last

    def advance(self, scan: Scan, last: dict[Lane, Position]) -> None:
        """Start after these jobs from now on; called once they are claimed."""
        with self._lock:
            if scan.full:
                self._full_cost = scan.cost
            if scan.generation == self._generation:
                for (kind_id, lane), position in last.items():
                    positions = self._last_positions.setdefault(kind_id, list(_STARTS))
                    if lane != UNORDERED_LANE and position > positions[lane]:
                        positions[lane] = position

    def step_back_to(self, kind_id: int, lane: int, position: Position) -> None:
        """Do not start after this position, where a job was added."""
        with self._lock:
            for bounds in (self._last_positions, self._older_positions, self._next_older_positions):
                if kind_id in bounds and position < bounds[kind_id][lane]:
                    bounds[kind_id][lane] = position
                    # A scan that started earlier may have missed this position.
                    self._generation += 1

    def reset(self) -> None:
        """Start at the beginning: jobs may have been added anywhere."""
        with self._lock:
            self._generation += 1
            self._last_positions, self._older_positions, self._next_older_positions = {}, {}, {}


LEASE_SCAN_INTERVAL, LEASE_SCAN_SHARE = 1.0, 50.0
"""Scans of all leases are at least LEASE_SCAN_INTERVAL seconds apart, and take at most
1/LEASE_SCAN_SHARE of the time."""


class LeaseScan:
    """What one process knows about the leases of one queue."""

    def __init__(self) -> None:
        self.start = -math.inf
        """The deadline at which to start to read."""
        self._scanned_at = math.inf
        self._next_scan_at = -math.inf

    def is_due(self, now: float) -> bool:
        """Whether to scan all leases; also if the clock was set back."""
        return not self._scanned_at <= now < self._next_scan_at

    def finished(self, first: float | None, now: float, cost: float) -> None:
        """Record the first deadline that a scan of all leases found, and the seconds it took."""
        self.start = now if first is None else first
        self._scanned_at, self._next_scan_at = (
            now,
            now + max(LEASE_SCAN_INTERVAL, LEASE_SCAN_SHARE * cost),
        )

    def include(self, deadline: float) -> None:
        """Do not start after this deadline of a new lease."""
        self.start = min(self.start, deadline)
