"""Clocks: the system's, and a manual one for tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from ackline.core.limits import Seconds, as_seconds


class Clock(Protocol):
    """Returns the time of a store in seconds since 1970."""

    def now(self) -> float: ...


MAX_AHEAD = 10.0
"""Seconds that a reading may be ahead of the system clock."""


class SystemClock:
    """The system clock, without its small steps back.

    After a step back of up to ten seconds (NTP, mostly), time runs at half speed until the
    system clock has caught up, so it never goes back and never stops.
    A longer step takes effect immediately. The other processes that share a store use the
    machine's clock, and a process far ahead of them would consider their leases lapsed.
    """

    def __init__(
        self,
        wall: Callable[[], float] | None = None,
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        self._wall = wall or time.time
        self._monotonic = monotonic or time.monotonic
        # One tuple, replaced as a whole: threads need no lock, which a fork could leave held.
        self._last_reading = (float("-inf"), self._monotonic())

    def now(self) -> float:
        last_reading, last_moment = self._last_reading
        reading, moment = self._wall(), self._monotonic()
        minimum = last_reading + max(0.0, moment - last_moment) / 2
        if reading < minimum <= reading + MAX_AHEAD:
            reading = minimum
        self._last_reading = (reading, moment)
        return reading


class ManualClock:
    """A clock for tests: it stands still until `advance` is called.

    >>> clock = ManualClock(100.0)
    >>> clock.advance(2.5)
    >>> clock.now()
    102.5
    """

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._now = start
        self._lock = threading.Lock()

    def now(self) -> float:
        return self._now

    def advance(self, seconds: Seconds) -> None:
        """Move time forward; callers that wait by this clock notice the next time they read it."""
        with self._lock:
            self._now += as_seconds(seconds)
