"""Events that nobody can read any more: a journal has dropped them."""

from __future__ import annotations

import msgspec

from ackline.errors import EventsDropped
from ackline.job import QueueKey
from ackline.spark.journal import NOTHING_DROPPED
from ackline.stores.base import Store


class Gap(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Events of one queue that were dropped before they were read."""

    queue: str
    after: str
    until: str
    kept_from: float | None = None
    """When the first event happened that is kept after them; None if there was none yet."""
    skipped_at: float | None = None
    """When a stream went on without them; None if it is not one that did."""


def missing_beginning(store: Store, key: QueueKey) -> Gap | None:
    """What a queue's journal has dropped so far; None if it is whole."""
    try:
        store.events(key, NOTHING_DROPPED, 1)
    except EventsDropped as error:
        kept = store.events(key, None, 1)
        first_at = kept[0].at if kept else None
        return Gap(queue=key.name, after=NOTHING_DROPPED, until=error.cursor, kept_from=first_at)
    return None
