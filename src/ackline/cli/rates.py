"""How many jobs come in and go out in a second, counted in the journal."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

import msgspec

from ackline.errors import EventsDropped
from ackline.events import Act, Event
from ackline.job import TERMINAL, QueueKey
from ackline.stores.base import Store

PAGE = 5000
PATIENCE = 0.25
"""Longest time to count, in seconds; on a very busy store the rest is skipped."""


class Rate(msgspec.Struct, frozen=True):
    """Jobs per second into a queue, and out of it."""

    into: float = 0.0
    out: float = 0.0
    at_least: bool = False
    """More happened than could be counted in time."""


class Rates:
    """Counts the jobs in and out since the last look."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cursor: str | None = store.info().cursor
        self._at = time.monotonic()
        self._smooth: dict[QueueKey, Rate] = {}

    def look(self) -> dict[QueueKey, Rate]:
        """The rates of all queues, smoothed over about two seconds."""
        into, out, all_read = self._count()
        now = time.monotonic()
        span, self._at = max(now - self._at, 0.001), now
        weight = min(1.0, span / 1.0)
        for key in {*into, *out, *self._smooth}:
            old = self._smooth.get(key, Rate())
            self._smooth[key] = Rate(
                old.into + (into[key] / span - old.into) * weight,
                old.out + (out[key] / span - old.out) * weight,
                not all_read,
            )
        return self._smooth

    def _count(self) -> tuple[Counter[QueueKey], Counter[QueueKey], bool]:
        into: Counter[QueueKey] = Counter()
        out: Counter[QueueKey] = Counter()
        until = time.monotonic() + PATIENCE
        while (page := self._read()) is not None:
            for event in page:
                if event.act is Act.ENQUEUE:
                    into[event.queue] += 1
                elif event.to in TERMINAL and event.source not in TERMINAL:
                    out[event.queue] += 1
            if not page:
                return into, out, True
            if time.monotonic() > until:
                break
        self._cursor = self._store.info().cursor
        return into, out, False

    def _read(self) -> Sequence[Event] | None:
        """The next events; None if some of them are gone already."""
        try:
            page = self._store.events(None, self._cursor, PAGE)
        except EventsDropped:
            return None
        if page:
            self._cursor = page[-1].cursor
        return page
