"""Which batches are too old to be kept."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from ackline.spark.lake.lake import Batch


def expired(batches: Sequence[Batch], before: float, now: float) -> list[Batch]:
    """The batches that are older and not dropped yet: always the first of those that are left.

    The last one stays: it may be replayed.
    """
    aged = zip(batches[:-1], ages(batches, now), strict=False)
    return [batch for batch, at in aged if at < before and not batch.dropped]


def ages(batches: Sequence[Batch], now: float) -> list[float]:
    """When each batch ended, but never before an earlier one, whatever the clock said.

    A clock that fell back to 1970 once must not make all earlier batches too old. A clock that was
    in 2099 once must not keep all later batches: in place of a time ahead of now, that of the next
    batch is taken. A batch without events has no time: that of the next batch is taken, too.
    """
    ended, next_at = [], now
    for batch in reversed(batches):
        next_at = batch.last_at if batch.events and batch.last_at <= now else next_at
        ended.append(next_at)
    return list(accumulate(reversed(ended), max))
