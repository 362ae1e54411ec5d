"""Find a position in the journal by time."""

from __future__ import annotations

from ackline.core.errors import EventsDropped
from ackline.core.events import make_cursor, read_cursor
from ackline.core.job import QueueKey
from ackline.stores.contract import Store


def cursor_before(store: Store, since: float, queue: QueueKey | None = None) -> str:
    """A cursor before all events since a time, and after most of the earlier ones.

    Batches are numbered in order, so it is found by bisection, without reading the journal.
    """
    oldest = store.events(queue, None, 1)
    end, _ = read_cursor(store.info().cursor)
    if not oldest or oldest[0].at >= since:
        return make_cursor(0, 0) if not oldest else make_cursor(read_cursor(oldest[0].cursor)[0], 0)
    low, high = read_cursor(oldest[0].cursor)[0], end
    while high - low > 1:
        middle = (low + high) // 2
        if _is_before(store, queue, middle, since):
            low = middle
        else:
            high = middle
    return make_cursor(high, 0)


def _is_before(store: Store, queue: QueueKey | None, batch: int, since: float) -> bool:
    try:
        found = store.events(queue, make_cursor(batch, 0), 1)
    except EventsDropped:
        return True  # pruned meanwhile
    return bool(found) and found[0].at < since
