"""Was the promise kept? Which share of deliveries began within the time that was promised.

`attainment` judges deliveries. `include_overdue` adds jobs that were not delivered at all and have
been in line for too long already, so that a queue that stands still is judged, too.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ackline.core.job import State
from ackline.spark.transforms.journal_slices import after_cursors
from ackline.spark.transforms.sketches import share_within, sketch_count
from ackline.spark.transforms.steps import JOB_KEY

OTHER_QUEUES = "*"
"""Stands for the queues that are not named."""

DEFAULT_SLO = {OTHER_QUEUES: 60.0}
"""Seconds in line, by queue."""

TARGET = 0.99
"""The share of deliveries that must begin in time."""


def attainment(traffic: DataFrame, by: Sequence[str], objectives: Mapping[str, float]) -> DataFrame:
    """For each row of traffic, added up by these columns: how often the objective was kept.

    Queues without an objective are left out.
    """
    kept = traffic.select(
        *by,
        _by_queue(objectives, F.lit).alias("objective_seconds"),
        F.lit(TARGET).alias("target"),
        sketch_count("wait").alias("deliveries"),
        # Spark wants each value at planning, so there is a branch for each queue.
        _by_queue(objectives, lambda seconds: share_within("wait", seconds)).alias("attained"),
    )
    return _judged(kept.where("attained is not null"))


def overdue_jobs(
    open_: DataFrame,
    objectives: Mapping[str, float],
    now: datetime.datetime,
    gaps_end: Mapping[str, str],
) -> DataFrame:
    """How many jobs of each queue are `late` by now, from the entries of lives that go on.

    Not those that were last heard of before the end of a gap in their queue's journal (a cursor):
    it may have had their claims.
    """
    last = F.max_by(F.struct("to", "at"), "place")
    jobs = after_cursors(open_, gaps_end).groupBy(*JOB_KEY).agg(last.alias("last"))
    waiting = jobs.where(F.col("last.to") == State.QUEUED.value)
    waited = (F.unix_micros(F.lit(now)) - F.unix_micros("last.at")) / 1e6
    late = waiting.where(waited > _by_queue(objectives, F.lit))
    return late.groupBy("tenant", "queue").agg(F.count("*").alias("late"))


def include_overdue(
    attained: DataFrame, late: DataFrame, objectives: Mapping[str, float]
) -> DataFrame:
    """Attainment by queue; jobs that are late by now count as late deliveries."""
    both = attained.join(late, ["tenant", "queue"], "full")
    deliveries = F.coalesce("deliveries", F.lit(0))
    late_by_now = F.coalesce("late", F.lit(0))
    in_time = F.coalesce(F.col("attained") * deliveries, F.lit(0.0))
    return _judged(
        both.select(
            *("tenant", "queue"),
            _by_queue(objectives, F.lit).alias("objective_seconds"),
            F.lit(TARGET).alias("target"),
            deliveries.alias("deliveries"),
            late_by_now.alias("late"),
            (in_time / (deliveries + late_by_now)).alias("attained"),
        )
    )


def _judged(attained: DataFrame) -> DataFrame:
    return attained.withColumn("kept", F.col("attained") >= TARGET)


def _by_queue(objectives: Mapping[str, float], value: Callable[[float], Column]) -> Column:
    found = F.when(F.lit(False), F.lit(None).cast("double"))
    for queue, seconds in objectives.items():
        if queue != OTHER_QUEUES:
            found = found.when(F.col("queue") == queue, value(seconds))
    every = objectives.get(OTHER_QUEUES)
    return found if every is None else found.otherwise(value(every))
