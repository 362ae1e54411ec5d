"""The leases that a stream has on its jobs, and what became of those jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ackline.events import Act
from ackline.job import LIVE, Failure, QueueKey, Record
from ackline.spark.stride import chunks
from ackline.stores.base import Store

Lease = tuple[str, int]
"""A job's id and the token it was claimed under."""


def leases_of(records: Iterable[Record]) -> tuple[Lease, ...]:
    """The leases of jobs, as a manifest has them."""
    return tuple((record.id, record.token) for record in records)


def look_up(
    store: Store, queue: QueueKey, leases: Sequence[Lease]
) -> Iterator[list[tuple[Lease, Record | None]]]:
    """Each lease with its job as it is now, in chunks of one round trip."""
    for chunk in chunks(leases):
        yield list(zip(chunk, store.get(queue, [id for id, _ in chunk]), strict=True))


def failed_under(lease: Lease, record: Record) -> Failure | None:
    """The failure that was reported under this lease, if any."""
    ended = (one for one in record.history if one.token == lease[1] and one.act == Act.FAIL)
    return next(ended, None)


def comes_again(lease: Lease, record: Record | None) -> bool:
    """Whether a job is still to be done, and was not settled under this lost lease."""
    return record is not None and record.state in LIVE and not failed_under(lease, record)
