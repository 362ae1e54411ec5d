"""The leases of a stream, and the state of their jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ackline.core.events import Act
from ackline.core.job import LIVE, Failure, QueueKey, Record
from ackline.spark.store.page_size import batched
from ackline.stores.contract import Store

Lease = tuple[str, int]
"""A job's id and the token it was claimed under."""


def leases_of(records: Iterable[Record]) -> tuple[Lease, ...]:
    """The leases of jobs, as stored in a manifest."""
    return tuple((record.id, record.token) for record in records)


def look_up(
    store: Store, queue: QueueKey, leases: Sequence[Lease]
) -> Iterator[list[tuple[Lease, Record | None]]]:
    """Each lease with the current state of its job, in chunks of one round trip."""
    for chunk in batched(leases):
        yield list(zip(chunk, store.get(queue, [id for id, _ in chunk]), strict=True))


def failure_under(lease: Lease, record: Record) -> Failure | None:
    """The failure that was reported under this lease, if any."""
    ended = (one for one in record.history if one.token == lease[1] and one.act == Act.FAIL)
    return next(ended, None)


def is_redelivered(lease: Lease, record: Record | None) -> bool:
    """Whether the job of a lost lease will be delivered again."""
    return record is not None and record.state in LIVE and not failure_under(lease, record)
