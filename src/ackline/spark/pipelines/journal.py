"""Stretches of the journal."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ackline.spark.rows import place_of


def up_to(events: DataFrame, end: str) -> DataFrame:
    """The events up to a cursor."""
    return events.where(F.col("place") <= place_of(end))


def behind(events: DataFrame, cursors: Mapping[str, str]) -> DataFrame:
    """The events after the cursor that is given for their queue; all events of other queues."""
    if not cursors:
        return events
    rows = [(queue, place_of(cursor)) for queue, cursor in cursors.items()]
    begins = events.sparkSession.createDataFrame(rows, "queue string, begins string")
    known = events.join(F.broadcast(begins), "queue", "left")
    return known.where("begins is null or place > begins").drop("begins")
