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

from ackline.forks import renew_in_child

LANES, PROMOTED, ODD = 21, 10, 20
"""How many lanes a line has; the first lane of promoted jobs; the lane of jobs in any order."""

BACK_EVERY, BACK_BY = 0.25, 1.0
"""Seconds between looks from further back, and the age of the place where these begin."""

FULL_SHARE, FULL_EVERY = 50.0, 5.0
"""Full looks take at most 1/FULL_SHARE of the time, but come at least every FULL_EVERY seconds."""

CHEAP, IDLE_SHARE = 0.02, 10.0
"""If nothing was found, a full look follows that took at most CHEAP seconds the last time, or that
takes at most 1/IDLE_SHARE of the time."""

Place = tuple[float, int]
Lane = tuple[int, int]
START: Place = (-math.inf, 0)
_LANES, _STARTS = list(range(LANES)), [START] * LANES

Places = dict[int, list[Place]]
"""Line → the place in each of its lanes."""


class Look:
    """The place in each lane from which one claim reads."""

    __slots__ = ("cost", "full", "jobs", "lanes", "lines", "ranks", "stamp")

    def __init__(self, stamp: int, full: bool) -> None:
        self.stamp = stamp
        self.full = full
        self.cost = 0.0
        self.lines: list[int] = []
        self.lanes: list[int] = []
        self.ranks: list[float] = []
        self.jobs: list[int] = []

    def add(self, line: int, places: list[Place]) -> None:
        """Read the lanes of a line from these places on."""
        self.lines += [line] * LANES
        self.lanes += _LANES
        self.ranks += [rank for rank, _ in places]
        self.jobs += [job for _, job in places]


class ScanPositions:
    """What one process knows about the lines of one queue."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        renew_in_child(self, "_lock")
        self._stamp = 0
        self._last: Places = {}
        self._older: Places = {}
        self._next_older: Places = {}
        self._aged_at = self._back_at = time.monotonic()
        self._full_at = -math.inf
        self._full_cost = 0.0

    def look(self, lines: Iterable[int]) -> Look:
        """Decide where to begin to read."""
        with self._lock:
            now = time.monotonic()
            self._age(now)
            if self._is_due(now, FULL_SHARE):
                return self._look(lines, {}, full=True)
            if now - self._back_at >= BACK_EVERY:
                self._back_at = now
                return self._look(lines, self._older)
            return self._look(lines, self._last)

    def look_again(self, lines: Iterable[int]) -> Look:
        """After a look that found nothing: from further back, or from the very beginning."""
        with self._lock:
            now = time.monotonic()
            if self._full_cost <= CHEAP or self._is_due(now, IDLE_SHARE):
                return self._look(lines, {}, full=True)
            self._back_at = now
            return self._look(lines, self._older)

    def _is_due(self, now: float, share: float) -> bool:
        return now - self._full_at >= min(FULL_EVERY, share * self._full_cost)

    def _look(self, lines: Iterable[int], bounds: Places, *, full: bool = False) -> Look:
        look = Look(self._stamp, full)
        if full:
            self._full_at = time.monotonic()
        for line in lines:
            look.add(line, bounds.get(line, _STARTS))
        return look

    def _age(self, now: float) -> None:
        if now - self._aged_at >= BACK_BY:
            self._aged_at = now
            last = {line: list(places) for line, places in self._last.items()}
            self._older, self._next_older = self._next_older, last

    def took(self, look: Look, last: dict[Lane, Place]) -> None:
        """Note the jobs that a look found, once they are claimed: the next begins behind them."""
        with self._lock:
            if look.full:
                self._full_cost = look.cost
            if look.stamp == self._stamp:
                for (line, lane), place in last.items():
                    places = self._last.setdefault(line, list(_STARTS))
                    if lane != ODD and place > places[lane]:
                        places[lane] = place

    def lower(self, line: int, lane: int, place: Place) -> None:
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


EVERY, SHARE = 1.0, 50.0
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

    def saw(self, first: float | None, now: float, cost: float) -> None:
        """Note the first deadline that a look at all leases found, and its cost in seconds."""
        self.start = now if first is None else first
        self._looked_at, self._next_look = now, now + max(EVERY, SHARE * cost)

    def lower(self, deadline: float) -> None:
        """Note a new lease: searches must not begin behind it."""
        self.start = min(self.start, deadline)
