"""How far a reader of the journal is behind."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from ackline.core.errors import EventsDropped
from ackline.queue import Queue, ReaderInfo

MAX_COUNTED = 1000
"""Events behind a reader are counted up to this number."""


class ReaderLag(msgspec.Struct, frozen=True):
    """The events that a reader has not read yet."""

    events: int
    """Counted up to `MAX_COUNTED`."""
    first_at: float = math.inf
    dropped: bool = False
    """Whether the journal has dropped events that the reader had not read."""

    def seconds(self, now: float) -> float:
        """How long ago the first of these events happened."""
        return max(now - self.first_at, 0.0)

    def __str__(self) -> str:
        more = "+" if self.events == MAX_COUNTED else ""
        return f"{self.events:,}{more}{', some lost' if self.dropped else ''}"


def reader_lag(queue: Queue[Any, Any], reader: ReaderInfo) -> ReaderLag:
    """Count the events that a reader has not read yet."""
    dropped = False
    try:
        events = queue.store.events(queue.key, reader.cursor, MAX_COUNTED)
    except EventsDropped as error:
        dropped = True
        events = queue.store.events(queue.key, error.cursor, MAX_COUNTED)
    return ReaderLag(len(events), events[0].at if events else math.inf, dropped)
