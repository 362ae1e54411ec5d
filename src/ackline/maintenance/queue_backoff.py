"""Backoff for queues whose maintenance failed, without delaying the others."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ackline.core.backoff import ExponentialDelay
from ackline.queue import Queue

RETRY_DELAYS = (0.1, 30.0)
"""First and longest delay in seconds before a failed queue is retried; it doubles each time."""

LOG_INTERVAL = 600.0
"""Seconds after which an error that lasts is logged again."""

FailedQueue = Queue[Any, Any] | None
"""What failed: a queue, or None for the loop itself, which could not find out what is due."""


class FailingQueue:
    """A queue that failed, and has not succeeded since."""

    def __init__(self) -> None:
        self.delay = ExponentialDelay(*RETRY_DELAYS)
        self.retry_at = -math.inf
        self.logged = ""
        self.logged_at = -math.inf


class QueueBackoff:
    """How long to wait before a failed queue is maintained again.

    Queues that failed in the same run are delayed equally, so that an unavailable store is logged
    in one line and not in one for each queue.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failing: dict[FailedQueue, FailingQueue] = {}

    def seconds_left(self, queue: FailedQueue) -> float:
        """Seconds until the queue may be retried; 0 if it may be now."""
        failing = self._failing.get(queue)
        return max(0.0, failing.retry_at - self._clock()) if failing is not None else 0.0

    def failed(self, queues: Iterable[FailedQueue], jitter: float) -> dict[FailedQueue, float]:
        """Record that these failed; returns the delay of each: this fraction of its backoff."""
        now = self._clock()
        self._forget_before(now - LOG_INTERVAL)
        delays = {}
        for queue in queues:
            failing = self._failing.setdefault(queue, FailingQueue())
            delays[queue] = failing.delay.next() * jitter
            failing.retry_at = now + delays[queue]
        return delays

    def succeeded(self, queue: FailedQueue) -> None:
        """Record that it succeeded."""
        self._failing.pop(queue, None)

    def to_log(self, errors: Mapping[FailedQueue, Exception]) -> dict[FailedQueue, Exception]:
        """Those that were not logged recently; they count as logged now."""
        now, unlogged = self._clock(), {}
        for queue, error in errors.items():
            failing, text = self._failing[queue], repr(error)
            if failing.logged != text or now - failing.logged_at >= LOG_INTERVAL:
                failing.logged, failing.logged_at = text, now
                unlogged[queue] = error
        return unlogged

    def _forget_before(self, moment: float) -> None:
        """Forget old failures: those of queues no longer maintained would stay forever."""
        for queue in [
            queue for queue, failing in self._failing.items() if failing.retry_at < moment
        ]:
            del self._failing[queue]
