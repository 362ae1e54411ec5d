"""What passed through a queue, by time: counts and sketches that can be added up.

`parts_of` turns the steps of one batch into parts; `add_up` merges parts, whether of several
batches or of several hours; `figures` turns them into what people read. A step is new in just one
batch and lies in just one hour, so it does not matter how late it comes.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ackline.events import Act
from ackline.job import State
from ackline.spark.pipelines import measures
from ackline.spark.pipelines.measures import is_act
from ackline.spark.pipelines.sketches import merged, quantiles, sketch
from ackline.spark.pipelines.utc import day_of, hour_of

GROUP = ("tenant", "queue", "kind", "priority")

_ACTS = {
    "enqueued": Act.ENQUEUE,
    "claimed": Act.CLAIM,
    "completed": Act.COMPLETE,
    "stalled": Act.EXPIRE,
    "released": Act.RELEASE,
    "snoozed": Act.SNOOZE,
    "redriven": Act.REDRIVE,
}
_ENDS = {"retried": State.FAILING, "failed": State.FAILED, "cancelled": State.CANCELLED}
COUNTS = (*_ACTS, *_ENDS, "at_once")
"""`at_once` is how many were completed at their first delivery."""

MEASURES = {
    "wait": measures.wait,
    "run": measures.run,
    "total": measures.total,
    "stall": measures.stall,
    "recovery": measures.recovery,
}
"""The spans of time that are sketched, in seconds."""


def parts_of(steps: DataFrame) -> DataFrame:
    """One row for each hour and group."""
    return steps.groupBy(day_of("at").alias("day"), hour_of("at").alias("hour"), *GROUP).agg(
        *(F.count_if(is_act(act)).alias(name) for name, act in _ACTS.items()),
        *(F.count_if(F.col("to") == state.value).alias(name) for name, state in _ENDS.items()),
        F.count_if(is_act(Act.COMPLETE) & (F.col("deliveries") == 1)).alias("at_once"),
        F.coalesce(F.sum(measures.run()), F.lit(0.0)).alias("busy_seconds"),
        *(sketch(measure()).alias(name) for name, measure in MEASURES.items()),
    )


def add_up(parts: DataFrame, by: Sequence[str]) -> DataFrame:
    """The parts of each group merged into one."""
    return parts.groupBy(*by).agg(
        # If there are no parts at all, zero.
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in (*COUNTS, "busy_seconds")),
        *(merged(name).alias(name) for name in MEASURES),
    )


def figures(parts: DataFrame, by: Sequence[str]) -> DataFrame:
    """Counts, rates and quantiles of parts that were added up."""
    return parts.select(
        *by,
        *COUNTS,
        "busy_seconds",
        rate("retried", "claimed").alias("retry_rate"),
        rate("failed", "completed", "failed").alias("failure_rate"),
        *(column for name in MEASURES for column in quantiles(name, name)),
    )


def rate(part: str, *whole: str) -> Column:
    """The share of a column in the sum of others; null if that sum is zero."""
    total = sum((F.col(name) for name in whole[1:]), F.col(whole[0]))
    return F.try_divide(F.col(part), total)
