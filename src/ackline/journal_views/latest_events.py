"""The latest events that match a filter, however long the journal is."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from ackline.core.errors import EventsDropped
from ackline.core.events import Act, Event, make_cursor, read_cursor

PAGE = 1000
FIRST_STEP = 8
"""Batches to step back at first; twice as many each time that there was too little."""

TIME_LIMIT = 1.0
"""Seconds to look back for what is rare, unless the caller has more time."""

SelectEvents = Callable[[list[Event]], list[Event]]
ReadEvents = Callable[[str, int], Sequence[Event]]
"""Reads the journal after a cursor, up to so many events."""


class EventFilter(msgspec.Struct, frozen=True):
    """Which events: of these acts, and with this text in any of their words."""

    acts: frozenset[Act]
    text: str = ""

    def matches(self, event: Event) -> bool:
        """Whether this is one of them; upper and lower case are the same."""
        if event.act not in self.acts:
            return False
        words = [event.id, event.kind, event.worker, event.note, event.by]
        words += [event.moved_from or "", event.moved_to or ""]
        text = self.text.casefold()
        return not text or any(text in word.casefold() for word in words)


class LatestEvents(msgspec.Struct):
    """The last events, the oldest first; `complete` if they are as many as asked, or all."""

    events: list[Event]
    complete: bool


def latest_events(
    read: ReadEvents, end: str, count: int, choose: SelectEvents, time_limit: float = TIME_LIMIT
) -> LatestEvents:
    """Step back from the end until enough is found, or the beginning is reached."""
    found: list[Event] = []
    until, step = read_cursor(end), FIRST_STEP
    # The nearest step is always read to its end: right after a bulk it is a long one.
    give_up = None
    deadline = time.monotonic() + time_limit
    while until > (0, 0) and len(found) < count:
        start = (max(0, until[0] - step), 0)
        older = _between(read, start, until, choose, give_up)
        if older is None:
            return LatestEvents(found, complete=False)
        found = [*older, *found][-count:]
        until, step, give_up = start, step * 2, deadline
    return LatestEvents(found, complete=True)


def _between(
    read: ReadEvents,
    start: tuple[int, int],
    until: tuple[int, int],
    choose: SelectEvents,
    give_up: float | None,
) -> list[Event] | None:
    """The chosen events between two cursors; None if it took too long."""
    found: list[Event] = []
    cursor = make_cursor(*start)
    while page := _read_kept_events(read, cursor):
        inside = [event for event in page if read_cursor(event.cursor) <= until]
        found += choose(inside)
        if len(inside) < len(page):
            break
        if give_up is not None and time.monotonic() > give_up:
            return None
        cursor = page[-1].cursor
    return found


def _read_kept_events(read: ReadEvents, cursor: str) -> Sequence[Event]:
    try:
        return read(cursor, PAGE)
    except EventsDropped as error:  # the journal does not go back so far any more
        return read(error.cursor, PAGE)
