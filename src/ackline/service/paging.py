"""Pages of jobs, by cursors that came back from a client."""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec
from litestar.params import QueryParameter

from ackline.job import QueueKey
from ackline.service.problems import Unfit
from ackline.stores.base import Filter, Page, Store


class Order(enum.StrEnum):
    """In which order jobs of a state are listed."""

    LINE = "line"
    NEWEST = "newest"


ListOrder = Annotated[
    Order,
    QueryParameter(
        description="Jobs of a state in the order of their line, or the newest first: what ended "
        "last, what is due last."
    ),
]


def read_page(
    store: Store, key: QueueKey, which: Filter, cursor: str | None, limit: int, order: Order
) -> Page:
    """A page; a cursor that no store ever gave out is refused."""
    try:
        return store.page(key, which, cursor, limit, order is Order.NEWEST)
    except msgspec.DecodeError:
        raise Unfit("this is not a cursor of this list", at="cursor") from None
