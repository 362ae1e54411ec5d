"""Pages of jobs, by cursors that came back from a client."""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec
from litestar.params import QueryParameter

from ackline.core.job import QueueKey
from ackline.service.http.problems import Unprocessable
from ackline.stores.contract import Filter, Page, Store


class JobOrder(enum.StrEnum):
    """In which order jobs of a state are listed."""

    CLAIM = "line"
    NEWEST = "newest"


ListOrder = Annotated[
    JobOrder,
    QueryParameter(
        description="Jobs of a state in the order of their line, or the newest first: what ended "
        "last, what is due last."
    ),
]


def read_page(
    store: Store, key: QueueKey, which: Filter, cursor: str | None, limit: int, order: JobOrder
) -> Page:
    """A page; a cursor that no store ever gave out is refused."""
    try:
        return store.page(key, which, cursor, limit, order is JobOrder.NEWEST)
    except msgspec.DecodeError:
        raise Unprocessable("this is not a cursor of this list", at="cursor") from None
