"""Moves from one queue to another, as both journals record them."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ackline.core.events import Act

MOVE_KEY = ("tenant", "id", "kind", "state", "attempt", "left", "entered")
"""What both halves of a move have in common: the job, its state, and the two queues."""


def count_moves(events: DataFrame) -> DataFrame:
    """Moves of jobs, with how many `departures` and `arrivals` the journals record.

    `departed` and `arrived` are the places of the last ones. They are counted, and not put in
    order, because each node of a cluster has a clock of its own. There, a job that could not enter
    the other queue returns to its own, whose journal then has both halves.
    """
    departs = F.col("to").isNull()
    halves = events.where((F.col("act") == Act.MOVE.value) & (F.col("id") != "")).select(
        *("tenant", "id", "kind", "attempt"),
        F.coalesce("source", "to").alias("state"),
        F.col("moved_from").alias("left"),
        F.col("moved_to").alias("entered"),
        F.when(departs, F.col("place")).alias("departed"),
        F.when(~departs, F.col("place")).alias("arrived"),
    )
    return halves.groupBy(*MOVE_KEY).agg(
        F.count("departed").alias("departures"),
        F.count("arrived").alias("arrivals"),
        F.max("departed").alias("departed"),
        F.max("arrived").alias("arrived"),
    )
