"""Which batches are too old to be kept, and how they are dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import msgspec

from ackline.spark.lake.batch_log import Batch
from ackline.spark.lake.lake import Lake
from ackline.spark.lake.layout import EVENTS, JOBS, batch_folder
from ackline.spark.lake.micro_batch import pass_nothing


def drop_expired(
    lake: Lake, before: float, now: float, passing: Callable[[str], None] = pass_nothing
) -> int:
    """Drop events and lives of batches that are older; returns how many batches.

    Gold and the summaries that it is made of stay: they are small, and cannot be rebuilt.
    """
    old = expired(lake.log.batches, before, now)
    for batch in old:
        # Logged first, so that nothing expects what is removed.
        lake.log.add(msgspec.structs.replace(batch, dropped=True))
        passing("expired")
    dropped = {batch.number for batch in lake.log.batches if batch.dropped}
    for name in (EVENTS, JOBS):
        # Also what a killed run has left of those that it had logged.
        for number in dropped.intersection(lake.folder.batches(*name)):
            lake.folder.remove(*batch_folder(name, number))
    return len(old)


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
