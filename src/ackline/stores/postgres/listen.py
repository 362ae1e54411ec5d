"""A listener: woken by news, or by the clock where no news arrives."""

from __future__ import annotations

import threading
import time
from typing import Protocol, Self

POLL = 0.25
"""Seconds after which a listener looks for itself, where no news arrives."""

Subject = tuple[bytes, int]
"""A queue and a topic."""


class Source(Protocol):
    """Where the news comes from."""

    @property
    def hears(self) -> bool: ...

    def arm(self, listener: PostgresListener) -> None: ...

    def forget(self, listener: PostgresListener) -> None: ...


class PostgresListener:
    """Waits for news of some queues on one topic."""

    def __init__(self, source: Source, subjects: frozenset[Subject]) -> None:
        self.subjects = subjects
        self.armed = False
        self._source = source
        self._news = threading.Event()
        self._waiting = 0
        self._left_at = time.monotonic()
        self._looked_at = time.monotonic()
        self._closed = False

    def here(self, now: float, away: float) -> bool:
        """Whether a caller waits, or did so less than `away` seconds ago."""
        return self._waiting > 0 or now - self._left_at < away

    def wait(self, timeout: float) -> bool:
        self._waiting += 1
        try:
            return self._wait(timeout)
        finally:
            self._left_at = time.monotonic()
            self._waiting -= 1

    def _wait(self, timeout: float) -> bool:
        if not self.armed and not self._closed:
            self._source.arm(self)
            # While it was not armed, news was not sent: so the caller must look once.
            self._news.set()
        until = time.monotonic() + timeout
        while not self._closed:
            left = until - time.monotonic()
            pause = left if self._source.hears else min(left, self._looked_at + POLL - until + left)
            if self._news.wait(max(0.0, pause)):
                self._news.clear()
                break
            now = time.monotonic()
            if not self._source.hears and now - self._looked_at >= POLL:
                break
            if now >= until:
                return False
        self._looked_at = time.monotonic()
        return True

    def wake(self) -> None:
        self._news.set()

    def close(self) -> None:
        self._closed = True
        self._news.set()
        self._source.forget(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
