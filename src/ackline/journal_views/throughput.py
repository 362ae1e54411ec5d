"""How many jobs were enqueued, completed and failed recently.

The numbers are counted from the journal, so they survive a restart.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable

import msgspec

from ackline.core.errors import EventsDropped
from ackline.core.events import Act, Event
from ackline.core.job import QueueKey
from ackline.journal_views.seek import cursor_before
from ackline.stores.contract import Store

PAGE = 5000
TIME_LIMIT = 0.25
"""Seconds that one call may read; a long journal takes several."""

COLUMNS = {Act.ENQUEUE: 0, Act.COMPLETE: 1, Act.FAIL: 2, Act.EXPIRE: 2}
"""The acts that are counted, and in which column."""


class Throughput(msgspec.Struct, frozen=True):
    """Counts of a queue, one for each bucket of time, oldest first."""

    enqueued: list[int]
    completed: list[int]
    failed: list[int]


class ThroughputReader:
    """Counts events of the journal, and reads it only on demand."""

    def __init__(
        self, store: Store, bucket: int = 10, bucket_count: int = 180, rate_buckets: int = 6
    ) -> None:
        self.bucket = bucket
        """Length of a bucket, in seconds."""
        self.bucket_count = bucket_count
        """Number of buckets that are kept."""
        self._rate_buckets = rate_buckets
        """Number of full buckets that a rate is computed over."""
        self._store = store
        self._lock = threading.Lock()
        self._cursor: str | None = None
        self._counts: dict[QueueKey, dict[int, list[int]]] = defaultdict(dict)
        self._last_events: dict[QueueKey, tuple[str, int]] = {}

    def catch_up(self, now: float) -> bool:
        """Count new events; returns whether the end of the journal was reached."""
        with self._lock:
            if self._cursor is None:
                self._cursor = cursor_before(self._store, now - self.bucket * self.bucket_count)
            self._forget(now)
            return self._read()

    def of(self, queue: QueueKey, now: float) -> Throughput:
        """The counts of a queue; the last bucket is not full yet."""
        last = int(now // self.bucket)
        with self._lock:
            found = self._counts.get(queue, {})
            rows = [
                found.get(bucket, _EMPTY)
                for bucket in range(last - self.bucket_count + 1, last + 1)
            ]
        return Throughput(*(list(column) for column in zip(*rows, strict=True)))

    def rate(self, column: list[int]) -> float:
        """The number per second, over the last full buckets."""
        return sum(column[-self._rate_buckets - 1 : -1]) / (self._rate_buckets * self.bucket)

    def last_cursor(self, queue: QueueKey) -> str:
        """The cursor of the last event of a queue that was read; empty if that was long ago."""
        return self._last_events.get(queue, _NEVER)[0]

    def _read(self) -> bool:
        until = time.monotonic() + TIME_LIMIT
        while time.monotonic() < until:
            try:
                page = self._store.events(None, self._cursor, PAGE)
            except EventsDropped as error:
                self._cursor = error.cursor
                continue
            self._count(page)
            if len(page) < PAGE:
                return True
        return False

    def _count(self, events: Iterable[Event]) -> None:
        for event in events:
            self._cursor = event.cursor
            bucket = int(event.at // self.bucket)
            self._last_events[event.queue] = event.cursor, bucket
            column = COLUMNS.get(event.act)
            if column is not None:
                buckets = self._counts[event.queue]
                buckets.setdefault(bucket, [0, 0, 0])[column] += 1

    def _forget(self, now: float) -> None:
        oldest = int(now // self.bucket) - self.bucket_count
        self._last_events = {
            key: last for key, last in self._last_events.items() if last[1] >= oldest
        }
        for queue, buckets in list(self._counts.items()):
            for bucket in [bucket for bucket in buckets if bucket < oldest]:
                del buckets[bucket]
            if not buckets:
                del self._counts[queue]


_EMPTY = (0, 0, 0)
_NEVER = ("", 0)
