"""Was the promise kept? Which share of deliveries began within the time that was promised."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ackline.spark.pipelines.sketches import share_within, size

EVERY_QUEUE = "*"
"""Stands for the queues that are not named."""

DEFAULT_OBJECTIVES = {EVERY_QUEUE: 60.0}
"""Seconds in line, by queue."""

TARGET = 0.99
"""The share of deliveries that is to be within."""


def attainment(traffic: DataFrame, by: Sequence[str], objectives: Mapping[str, float]) -> DataFrame:
    """For each row of traffic, added up by these columns: how often the objective was kept.

    Queues without an objective are left out.
    """
    kept = traffic.select(
        *by,
        _by_queue(objectives, F.lit).alias("objective_seconds"),
        F.lit(TARGET).alias("target"),
        size("wait").alias("deliveries"),
        # Spark wants each value at planning, so there is a branch for each queue.
        _by_queue(objectives, lambda seconds: share_within("wait", seconds)).alias("attained"),
    )
    return kept.where("attained is not null").withColumn("kept", F.col("attained") >= TARGET)


def _by_queue(objectives: Mapping[str, float], value: Callable[[float], Column]) -> Column:
    found = F.when(F.lit(False), F.lit(None).cast("double"))
    for queue, seconds in objectives.items():
        if queue != EVERY_QUEUE:
            found = found.when(F.col("queue") == queue, value(seconds))
    every = objectives.get(EVERY_QUEUE)
    return found if every is None else found.otherwise(value(every))
