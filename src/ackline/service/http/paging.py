"""Pages of jobs, by the cursors that clients send back."""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec
from litestar.params import QueryParameter

from ackline.core.job import QueueKey
from ackline.service.http.problems import Unprocessable
from ackline.stores.contract import Filter, Page, Store


class JobOrder(enum.StrEnum):
    """The order in which the jobs of a state are listed."""

    CLAIM = "claim"
    NEWEST = "newest"


ListOrder = Annotated[
    JobOrder,
    QueryParameter(description="In claim order, or the newest first."),
]


def read_page(
    store: Store, key: QueueKey, job_filter: Filter, cursor: str | None, limit: int, order: JobOrder
) -> Page:
    """A page of jobs; a cursor that is not of such a list is refused."""
    try:
        return store.page(key, job_filter, cursor, limit, order is JobOrder.NEWEST)
    except msgspec.DecodeError:
        raise Unprocessable("this is not a cursor of this list", at="cursor") from None
