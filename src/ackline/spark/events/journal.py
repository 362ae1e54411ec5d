"""The journal in stretches that can be read separately, in parallel and repeatedly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import msgspec

from ackline.errors import ConfigError, EventsDropped
from ackline.events import Event, Events, make_cursor, read_cursor
from ackline.job import QueueKey
from ackline.queues import Queues
from ackline.spark.retrying import retrying
from ackline.stores.base import Store


class JournalStretch(msgspec.Struct, frozen=True):
    """The events of one queue after `after`, up to and including `until`."""

    queue: str
    after: str
    until: str


NOTHING_DROPPED = make_cursor(0, 0)
"""Where a complete journal begins."""

COUNTED_AT_ONCE = 5000
"""Events in memory while they are counted: few, because they may be large."""

EVENTS_PER_QUESTION = 10
"""To ask one queue for its next event takes about as long as reading so many events."""


def journals(queues: Queues) -> list[str]:
    """The queues that have a journal, including those that were dropped."""
    return [info.key.name for info in queues.store.describe(queues.tenant, dropped=True)]


def first_events(queues: Queues) -> dict[str, str | None]:
    """The cursor of the first event of each journal that has any; None if it was dropped."""
    found: dict[str, str | None] = {}
    for name in journals(queues):
        try:
            page = queues.store.events(QueueKey(queues.tenant, name), NOTHING_DROPPED, 1)
        except EventsDropped:
            found[name] = None
            continue
        if page:
            found[name] = page[0].cursor
    return found


def first_place(store: Store, key: QueueKey, end: str) -> str:
    """Just before the oldest event of a queue's journal; `end` if there is no event before that.

    Reading from this place fails if that event was dropped meanwhile; reading without a cursor
    would not notice.
    """
    oldest = store.events(key, None, 1)
    return min(just_before(oldest[0]), end, key=read_cursor) if oldest else end


def just_before(event: Event) -> str:
    """The place before the batch of an event."""
    return make_cursor(read_cursor(event.cursor)[0], 0)


def whole_journal(queues: Queues, only: str | None) -> tuple[dict[str, str], str]:
    """Where the journals of all queues begin, or that of `only` one, and where they end now."""
    # The end first: a queue that is made after this has no events before that end.
    end = queues.info().cursor
    names = journals(queues) if only is None else [only]
    keys = {name: QueueKey(queues.tenant, name) for name in names}
    return {name: first_place(queues.store, key, end) for name, key in keys.items()}, end


class News(msgspec.Struct, frozen=True):
    """The queues that have events after a place, up to and including `end`."""

    names: frozenset[str]
    end: str


def news_after(queues: Queues, after: str, end: str, known: int) -> News | None:
    """The queues with events between two places, read from the journal of all queues.

    None if it is quicker to ask each of the `known` queues, or if only they can say what was
    dropped. The news ends where reading ended, if that is before `end`: an event that is not
    there yet comes after all that were read, so none can be skipped.
    """
    names, left = set[str](), EVENTS_PER_QUESTION * (known + 1)
    while read_cursor(after) < read_cursor(end):
        try:
            page = Events.of(queues.store.events(None, after, min(left, COUNTED_AT_ONCE)))
        except EventsDropped:
            return None
        if page.cursor is None:
            return News(frozenset(names), after)
        batches = page.until(end).batches
        names |= {one.queue.name for one in batches if one.queue.tenant == queues.tenant}
        after, left = page.cursor, left - len(page)
        if left <= 0:
            return None
    return News(frozenset(names), end)


def require_reached(cursor: str, end: str) -> None:
    """Refuse to begin after the end of all journals: events would be skipped unnoticed."""
    if read_cursor(cursor) > read_cursor(end):
        raise ConfigError(f"start={cursor} is after the end of this store's journal, {end}")


def cut(
    starts: Mapping[str, str], ends: Mapping[str, str], partitions: int
) -> list[JournalStretch]:
    """The journals between two places, in about this many stretches of about equal length."""
    open_ = {
        queue: (starts[queue], end)
        for queue, end in ends.items()
        if read_cursor(starts[queue]) < read_cursor(end)
    }
    if not open_:
        return []
    each = max(1, partitions // len(open_))
    return [
        JournalStretch(queue, after, until)
        for queue, (start, end) in open_.items()
        for after, until in _steps(start, end, each)
    ]


def _steps(start: str, end: str, count: int) -> Iterator[tuple[str, str]]:
    """Cut by the numbers of batches, so that no event has to be read for it."""
    first, last = read_cursor(start)[0], read_cursor(end)[0]
    count = max(1, min(count, last - first))
    marks = [make_cursor(first + (last - first) * step // count, 0) for step in range(1, count)]
    return zip([start, *marks], [*marks, end], strict=True)


def read_stretch(
    store: Store,
    tenant: str,
    stretch: JournalStretch,
    page_size: Callable[[], int],
    retry_for: float = 0.0,
) -> Iterator[Events]:
    """The events of a stretch, a page at a time; `EventsDropped` if some are gone."""
    key, after = QueueKey(tenant, stretch.queue), stretch.after
    while True:
        found = Events.of(retrying(partial(store.events, key, after, page_size()), retry_for))
        page = found.until(stretch.until)
        if page.cursor is not None:
            yield page
        if page.cursor is None or page.cursor != found.cursor:
            return
        after = page.cursor
