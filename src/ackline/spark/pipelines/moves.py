"""Moves from one queue to another, as both journals record them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ackline.events import Act
from ackline.queues import DEFAULT_TENANT

MOVE = ("tenant", "id", "kind", "state", "attempt", "left", "entered")
"""What both halves of a move have in common: the job, its state, and the two queues."""


def moves_of(events: DataFrame) -> DataFrame:
    """The moves of jobs, with how many `departures` and `arrivals` the journals record.

    `departed` and `arrived` are the places of the last ones. They are counted, and not put in
    order, because each node of a cluster has a clock of its own.
    """
    departs = F.col("to").isNull()
    halves = events.where((F.col("act") == Act.MOVE.value) & (F.col("id") != "")).select(
        *("tenant", "id", "kind", "attempt"),
        F.coalesce("source", "to").alias("state"),
        *_way(departs),
        F.when(departs, F.col("place")).alias("departed"),
        F.when(~departs, F.col("place")).alias("arrived"),
    )
    return halves.groupBy(*MOVE).agg(
        F.count("departed").alias("departures"),
        F.count("arrived").alias("arrivals"),
        F.max("departed").alias("departed"),
        F.max("arrived").alias("arrived"),
    )


def _way(departs: Column) -> tuple[Column, Column]:
    """Which queue was `left` and which `entered`; null if the note names none.

    In a cluster, a job that could not enter the other queue returns to its own, whose journal then
    has both halves: it counts as having entered the other.
    """
    back = _named("back from ", ", where the id is taken")
    other = F.coalesce(_named("to "), _named("from "), back)
    from_here = departs | back.isNotNull()
    left = F.when(from_here, F.col("queue")).otherwise(other)
    entered = F.when(from_here, other).otherwise(F.col("queue"))
    return left.alias("left"), entered.alias("entered")


def _named(begins: str, ends: str = "") -> Column:
    """The queue that a note names between these words; null if the note has other words."""
    note, tenant = F.col("note"), F.col("tenant")
    prefix = F.when(tenant == DEFAULT_TENANT, "").otherwise(F.concat(tenant, F.lit("/")))
    start = F.concat(F.lit(begins), prefix)
    size = F.length(note) - F.length(start) - len(ends)
    fits = F.startswith(note, start) & F.endswith(note, F.lit(ends))
    return F.when(fits, F.substr(note, F.length(start) + 1, size))
