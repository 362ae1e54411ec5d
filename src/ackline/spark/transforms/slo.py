"""Service level objectives: the share of deliveries that began within the objective.

`attainment` counts deliveries. `include_overdue` adds jobs that have waited too long and were not
delivered yet, so that a queue that stands still misses its objective, too.
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
"""Stands for all queues that are not named."""

DEFAULT_SLO = {OTHER_QUEUES: 60.0}
"""Seconds that a job may wait, by queue."""

TARGET = 0.99
"""The share of deliveries that must begin in time."""


def attainment(traffic: DataFrame, by: Sequence[str], objectives: Mapping[str, float]) -> DataFrame:
    """How often the objective was kept, for each row of traffic merged by these columns.

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
    return _with_kept(kept.where("attained is not null"))


def overdue_jobs(
    open_: DataFrame,
    objectives: Mapping[str, float],
    now: datetime.datetime,
    gaps_end: Mapping[str, str],
) -> DataFrame:
    """How many jobs of each queue are `late` by now, from the entries of lives that go on.

    Jobs whose last entry is before the end of a gap in their queue's journal (a cursor) are left
    out: their claims may be in the gap.
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
    """Attainment by queue; jobs that are late now count as late deliveries."""
    both = attained.join(late, ["tenant", "queue"], "full")
    deliveries = F.coalesce("deliveries", F.lit(0))
    late_by_now = F.coalesce("late", F.lit(0))
    in_time = F.coalesce(F.col("attained") * deliveries, F.lit(0.0))
    return _with_kept(
        both.select(
            *("tenant", "queue"),
            _by_queue(objectives, F.lit).alias("objective_seconds"),
            F.lit(TARGET).alias("target"),
            deliveries.alias("deliveries"),
            late_by_now.alias("late"),
            (in_time / (deliveries + late_by_now)).alias("attained"),
        )
    )


def _with_kept(attained: DataFrame) -> DataFrame:
    return attained.withColumn("kept", F.col("attained") >= TARGET)


def _by_queue(objectives: Mapping[str, float], value: Callable[[float], Column]) -> Column:
    found = F.when(F.lit(False), F.lit(None).cast("double"))
    for queue, seconds in objectives.items():
        if queue != OTHER_QUEUES:
            found = found.when(F.col("queue") == queue, value(seconds))
    every = objectives.get(OTHER_QUEUES)
    return found if every is None else found.otherwise(value(every))
