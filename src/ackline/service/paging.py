"""Pages of jobs, by cursors that came back from a client."""

from __future__ import annotations

import msgspec

from ackline.job import QueueKey
from ackline.service.problems import Unfit
from ackline.stores.base import Filter, Page, Store


def read_page(store: Store, key: QueueKey, which: Filter, cursor: str | None, limit: int) -> Page:
    """A page; a cursor that no store ever gave out is refused."""
    try:
        return store.page(key, which, cursor, limit)
    except msgspec.DecodeError:
        raise Unfit("this is no cursor of such a list", at="cursor") from None
