"""Parts of the journal, by cursors and by queues."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ackline.spark.tables.job_rows import cursor_sort_key


def up_to(events: DataFrame, end: str) -> DataFrame:
    """The events up to a cursor."""
    return events.where(F.col("place") <= cursor_sort_key(end))


def after_cursors(events: DataFrame, cursors: Mapping[str, str]) -> DataFrame:
    """The events after the cursor that is given for their queue; all events of other queues."""
    if not cursors:
        return events
    rows = [(queue, cursor_sort_key(cursor)) for queue, cursor in cursors.items()]
    begins = events.sparkSession.createDataFrame(rows, "queue string, begins string")
    known = events.join(F.broadcast(begins), "queue", "left")
    return known.where("begins is null or place > begins").drop("begins")


def mark_queues(rows: DataFrame, queue: str, names: Collection[str], mark: str) -> DataFrame:
    """Rows with a `mark`: whether the queue in a column is one of these; null counts as none.

    Thousands of names in the query itself would keep the driver busy for many seconds.
    """
    if not names:
        return rows.withColumn(mark, F.lit(False))
    named = rows.sparkSession.createDataFrame([(name,) for name in set(names)], f"{queue} string")
    known = rows.join(F.broadcast(named.withColumn(mark, F.lit(True))), queue, "left")
    return known.withColumn(mark, F.col(mark).isNotNull())
