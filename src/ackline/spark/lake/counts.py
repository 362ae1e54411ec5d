"""Checks that tables have all the rows that each batch brought, according to the log."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from ackline.spark.errors import LakeDamaged
from ackline.spark.lake.batch_log import AT_ONCE, Batch
from ackline.spark.lake.lake import Lake
from ackline.spark.lake.layout import EVENTS, JOBS, OPEN, Table


def require_whole(lake: Lake, name: Table, batches: Iterable[Batch]) -> list[tuple[str, ...]]:
    """The folders in which a table has what these batches brought; `LakeDamaged` if rows lack.

    Spark would not notice: it skips empty files.
    """
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(partial(_require, lake, name), batches))


def require_unbroken(lake: Lake, batches: Iterable[Batch]) -> None:
    """`LakeDamaged` unless each batch begins where the one before has ended."""
    next_one = 0
    for batch in batches:
        if batch.first_number != next_one:
            raise LakeDamaged(
                f"{lake.folder.at('log')} lacks batches {next_one} to {batch.first_number - 1}: "
                "someone else has changed the lake. Restore its files, or make another lake, which "
                "begins with the oldest entry that is kept"
            )
        next_one = batch.number + 1


def brought(batch: Batch, name: Table) -> int:
    """The rows that a batch added to a table."""
    counts = {EVENTS: batch.events, JOBS: batch.ended, OPEN: batch.going_on}
    return counts[name] if name in counts else batch.summary_rows[name[-1]]


def _require(lake: Lake, name: Table, batch: Batch) -> tuple[str, ...]:
    place = lake.place(name, batch)
    found, expected = lake.folder.count_rows(*place), brought(batch, name)
    if found != expected:
        raise LakeDamaged(
            f"{lake.folder.at(*place)} has {found:,} rows, and {expected:,} were written: "
            "someone else has changed the lake. Restore its files, or make another lake, which "
            "begins with the oldest entry that is kept"
        )
    return place
