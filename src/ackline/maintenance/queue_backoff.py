"""What failed recently: a queue that failed is left alone for a while, and no other with it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ackline.core.backoff import ExponentialDelay
from ackline.queue import Queue

RETRY_DELAYS = (0.1, 30.0)
"""Seconds before what failed is tried again: doubled each time, up to the last."""

LOG_INTERVAL = 600.0
"""Seconds after which an error that lasts is logged again."""

FailedQueue = Queue[Any, Any] | None
"""Where it failed: None is the loop itself, which could not learn what is due."""


class FailingQueue:
    """One place that failed, and has not succeeded since."""

    def __init__(self) -> None:
        self.delay = ExponentialDelay(*RETRY_DELAYS)
        self.until = -math.inf
        self.logged = ""
        self.logged_at = -math.inf


class QueueBackoff:
    """How long each queue rests. One that fails for hours costs the others nothing.

    Queues that failed in the same round rest for equally long, so that a store that is away is
    logged in one line and not in one for each queue.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._of: dict[FailedQueue, FailingQueue] = {}

    def seconds_left(self, place: FailedQueue) -> float:
        """Seconds for which to leave it alone; 0 if it is not resting."""
        setback = self._of.get(place)
        return max(0.0, setback.until - self._clock()) if setback is not None else 0.0

    def failed(self, places: Iterable[FailedQueue], jitter: float) -> dict[FailedQueue, float]:
        """Note that these failed; returns how long each rests: this share of its full pause."""
        now = self._clock()
        self._forget_before(now - LOG_INTERVAL)
        rests = {}
        for place in places:
            setback = self._of.setdefault(place, FailingQueue())
            rests[place] = setback.delay.next() * jitter
            setback.until = now + rests[place]
        return rests

    def succeeded(self, place: FailedQueue) -> None:
        """Note that it succeeded."""
        self._of.pop(place, None)

    def to_log(self, troubles: Mapping[FailedQueue, Exception]) -> dict[FailedQueue, Exception]:
        """Those that were not logged recently; they count as logged now."""
        now, news = self._clock(), {}
        for place, error in troubles.items():
            setback, text = self._of[place], repr(error)
            if setback.logged != text or now - setback.logged_at >= LOG_INTERVAL:
                setback.logged, setback.logged_at = text, now
                news[place] = error
        return news

    def _forget_before(self, moment: float) -> None:
        """Forget old setbacks: those of queues not looked after any more would stay for ever."""
        for place in [place for place, setback in self._of.items() if setback.until < moment]:
            del self._of[place]
