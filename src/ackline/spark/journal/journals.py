"""The journals of a store: which there are, where they begin, and which have new events."""

from __future__ import annotations

import msgspec

from ackline.core.errors import ConfigError, EventsDropped
from ackline.core.events import Event, Events, make_cursor, read_cursor
from ackline.core.job import QueueKey
from ackline.queues import Queues
from ackline.spark.store.task_balance import ROWS_PER_REQUEST
from ackline.stores.contract import Store

JOURNAL_START = make_cursor(0, 0)
"""Where a complete journal begins."""

SCAN_PAGE = 5000
"""Events per read while scanning or counting: few, because they may be large."""


def list_journals(queues: Queues) -> list[str]:
    """The queues that have a journal, including those that were dropped."""
    return [info.key.name for info in queues.store.describe(queues.tenant, include_dropped=True)]


def first_cursors(queues: Queues) -> dict[str, str | None]:
    """The cursor of the first event of each journal that has any; None if it was dropped."""
    found: dict[str, str | None] = {}
    for name in list_journals(queues):
        try:
            page = queues.store.events(QueueKey(queues.tenant, name), JOURNAL_START, 1)
        except EventsDropped:
            found[name] = None
            continue
        if page:
            found[name] = page[0].cursor
    return found


def start_cursor(store: Store, key: QueueKey, end: str) -> str:
    """Just before the oldest event of a queue's journal; `end` if there is no event before that.

    Reading from this cursor fails if that event was dropped meanwhile; reading without a cursor
    would not.
    """
    oldest = store.events(key, None, 1)
    return min(cursor_before(oldest[0]), end, key=read_cursor) if oldest else end


def cursor_before(event: Event) -> str:
    """The cursor before the batch of an event."""
    return make_cursor(read_cursor(event.cursor)[0], 0)


def full_range(queues: Queues, only: str | None) -> tuple[dict[str, str], str]:
    """Where the journals of all queues begin, or that of `only` one, and where they end now."""
    # The end first: a queue that is created later has no events before it.
    end = queues.info().cursor
    names = list_journals(queues) if only is None else [only]
    keys = {name: QueueKey(queues.tenant, name) for name in names}
    return {name: start_cursor(queues.store, key, end) for name, key in keys.items()}, end


class ActiveQueues(msgspec.Struct, frozen=True):
    """The queues that have events after a cursor, up to and including `end`."""

    names: frozenset[str]
    end: str


def find_active_queues(queues: Queues, after: str, end: str, known: int) -> ActiveQueues | None:
    """The queues with events between two cursors, read from the journal of all queues.

    None if it is quicker to read each of the `known` queues, or if some events were dropped. The
    result ends where reading ended, if that is before `end`: later events come after all that
    were read, so none is skipped.
    """
    names, left = set[str](), ROWS_PER_REQUEST * (known + 1)
    while read_cursor(after) < read_cursor(end):
        try:
            page = Events.from_sequence(queues.store.events(None, after, min(left, SCAN_PAGE)))
        except EventsDropped:
            return None
        if page.cursor is None:
            return ActiveQueues(frozenset(names), after)
        batches = page.until(end).batches
        names |= {one.queue.name for one in batches if one.queue.tenant == queues.tenant}
        after, left = page.cursor, left - len(page)
        if left <= 0:
            return None
    return ActiveQueues(frozenset(names), end)


def require_not_past_end(cursor: str, end: str) -> None:
    """Refuse a start after the end of all journals: events would be skipped silently."""
    if read_cursor(cursor) > read_cursor(end):
        raise ConfigError(f"start={cursor} is after the end of this store's journal, {end}")
