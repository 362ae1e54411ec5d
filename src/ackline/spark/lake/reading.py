"""Reading a lake's tables with Spark."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

import pyarrow
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from ackline.spark.errors import LakeClaimed, LakeDamaged
from ackline.spark.lake.batch_log import Batch
from ackline.spark.lake.counts import require_whole
from ackline.spark.lake.damage import naming_damage_in_spark
from ackline.spark.lake.folder import Folder
from ackline.spark.lake.lake import Lake
from ackline.spark.lake.layout import Table

T = TypeVar("T")

MOST_LOOKS = 5
"""How often to look at a lake that a run changes all the time."""


def look_again(lake: Lake, look: Callable[[], T]) -> T:
    """Look again if files are missing: a run may have put batches together meanwhile.

    If it has done so each time, nothing is damaged: then the error says what to do.
    """
    for left in reversed(range(MOST_LOOKS)):
        before = lake.log.stamps
        try:
            with naming_damage_in_spark():
                return look()
        except LakeDamaged:
            changed = lake.log.stamps != before
            if not changed and left < MOST_LOOKS - 1:
                raise
    raise LakeClaimed(
        f"a run merges batches of the lake {lake.folder.path} faster than they can be read: stop "
        "the run for as long as this takes"
    )


def read_tables(spark: SparkSession, folder: Folder, *tables: tuple[str, ...]) -> DataFrame:
    """Files or folders of Parquet as one table, with the columns of the last."""
    for table in tables:
        # Spark skips an empty file, and does not say which one is broken.
        folder.count_rows(*table)
    return _read(spark, folder, tables)


def _read(spark: SparkSession, folder: Folder, tables: Sequence[tuple[str, ...]]) -> DataFrame:
    # Without a schema, Spark would run a job each time, only to find these columns.
    # A time that names no zone was written in Parquet's older form, which is UTC.
    columns = from_arrow_schema(folder.dataset(*tables[-1]).schema, prefer_timestamp_ntz=False)
    return spark.read.schema(columns).parquet(*(folder.at(*table) for table in tables))


def as_arrow(frame: DataFrame) -> pyarrow.Table:
    """A small table, brought to the driver; its times are in UTC, whatever the session's zone."""
    return frame.toArrow().cast(to_arrow_schema(frame.schema, timezone="UTC"))


def read_batches(
    spark: SparkSession, lake: Lake, name: Table, batches: Iterable[Batch]
) -> DataFrame:
    """All rows that these complete batches have brought, wherever a merge has put them."""
    return _read(spark, lake.folder, require_whole(lake, name, batches))


def read_summaries(
    spark: SparkSession,
    lake: Lake,
    name: Table,
    days: Collection[datetime.date] | None = None,
) -> DataFrame:
    """The summaries of complete batches, of some days or of all; no other batch is opened."""
    rows = read_batches(spark, lake, name, batches_of(lake.log.batches, days))
    return rows if days is None else rows.where(F.col("day").isin(list(days)))


def batches_of(batches: Iterable[Batch], days: Collection[datetime.date] | None) -> list[Batch]:
    """The batches with events on one of these days."""
    return [batch for batch in batches if days is None or not set(days).isdisjoint(batch.days)]
