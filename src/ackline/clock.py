"""Time, injected: the system's clock, and one that only moves when told to."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time of a store, in seconds since 1970."""

    def now(self) -> float: ...


class SystemClock:
    """The machine's clock, never running backwards within this process.

    A step back (NTP, an operator) would stretch every lease; the last reading is
    repeated instead until the machine has caught up.
    """

    def __init__(self) -> None:
        self._last = 0.0

    def now(self) -> float:
        reading = time.time()
        if reading < self._last:
            return self._last
        self._last = reading
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

    def advance(self, seconds: float) -> None:
        """Move time on; the callers that sleep by this clock see it at their next look."""
        with self._lock:
            self._now += seconds
