"""The latest events that match a filter, however long the journal is."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from ackline.core.errors import EventsDropped
from ackline.core.events import Act, Event, make_cursor, read_cursor

PAGE = 1000
FIRST_STEP = 8
"""Batches of the first step back; each step is twice as long as the one before."""

TIME_LIMIT = 1.0
"""Seconds to search for rare events, unless the caller has more time."""

SelectEvents = Callable[[list[Event]], list[Event]]
ReadEvents = Callable[[str, int], Sequence[Event]]
"""Reads events after a cursor, up to a limit."""


class EventFilter(msgspec.Struct, frozen=True):
    """Selects events by act, and by a text in their id, kind, worker, note or actor."""

    acts: frozenset[Act]
    text: str = ""

    def matches(self, event: Event) -> bool:
        """Whether an event is selected, ignoring case."""
        if event.act not in self.acts:
            return False
        texts = [event.id, event.kind, event.worker, event.note, event.by]
        texts += [event.moved_from or "", event.moved_to or ""]
        text = self.text.casefold()
        return not text or any(text in field.casefold() for field in texts)


class LatestEvents(msgspec.Struct):
    """The last events, oldest first; `complete` unless the search ran out of time."""

    events: list[Event]
    complete: bool


def latest_events(
    read: ReadEvents, end: str, count: int, select: SelectEvents, time_limit: float = TIME_LIMIT
) -> LatestEvents:
    """Step back from the end until enough events are found, or the beginning is reached."""
    found: list[Event] = []
    until, step = read_cursor(end), FIRST_STEP
    # The first step has no time limit: right after a bulk operation it is long.
    stop_at = None
    deadline = time.monotonic() + time_limit
    while until > (0, 0) and len(found) < count:
        start = (max(0, until[0] - step), 0)
        older = _between(read, start, until, select, stop_at)
        if older is None:
            return LatestEvents(found, complete=False)
        found = [*older, *found][-count:]
        until, step, stop_at = start, step * 2, deadline
    return LatestEvents(found, complete=True)


def _between(
    read: ReadEvents,
    start: tuple[int, int],
    until: tuple[int, int],
    select: SelectEvents,
    stop_at: float | None,
) -> list[Event] | None:
    """The selected events between two cursors; None if it took too long."""
    found: list[Event] = []
    cursor = make_cursor(*start)
    while page := _read_kept_events(read, cursor):
        within = [event for event in page if read_cursor(event.cursor) <= until]
        found += select(within)
        if len(within) < len(page):
            break
        if stop_at is not None and time.monotonic() > stop_at:
            return None
        cursor = page[-1].cursor
    return found


def _read_kept_events(read: ReadEvents, cursor: str) -> Sequence[Event]:
    try:
        return read(cursor, PAGE)
    except EventsDropped as error:  # the journal no longer goes back that far
        return read(error.cursor, PAGE)
