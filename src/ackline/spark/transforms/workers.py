"""How reliable workers are: how the deliveries of each of them ended."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ackline.core.events import Act
from ackline.core.job import State
from ackline.spark.transforms import durations
from ackline.spark.transforms.sketches import merge_sketches, quantiles, sketch
from ackline.spark.transforms.traffic import rate
from ackline.spark.transforms.utc import day_of

GROUP_KEY = ("tenant", "queue", "worker")

_ENDINGS = {
    "completed": [Act.COMPLETE],
    "errors": [Act.FAIL],
    "stalled": [Act.EXPIRE],
    "given_back": [Act.RELEASE, Act.SNOOZE],
}
COUNTS = ("deliveries", *_ENDINGS)


def partial(steps: DataFrame) -> DataFrame:
    """One row for each day and worker, by when its deliveries ended."""
    ended = steps.where((F.col("comes_from") == State.PROCESSING.value) & (F.col("worker") != ""))
    return ended.groupBy(day_of("at").alias("day"), *GROUP_KEY).agg(
        F.count("*").alias("deliveries"),
        *(F.count_if(F.col("act").isin(acts)).alias(name) for name, acts in _ENDINGS.items()),
        F.coalesce(F.sum(durations.run_seconds()), F.lit(0.0)).alias("busy_seconds"),
        F.max("at").alias("last_at"),
        sketch(durations.run_seconds()).alias("run"),
    )


def merge(parts: DataFrame, by: Sequence[str]) -> DataFrame:
    """The parts of each worker merged into one."""
    return parts.groupBy(*by).agg(
        *(F.sum(name).alias(name) for name in COUNTS),
        F.sum("busy_seconds").alias("busy_seconds"),
        F.max("last_at").alias("last_at"),
        merge_sketches("run").alias("run"),
    )


def finalize(parts: DataFrame, by: Sequence[str]) -> DataFrame:
    """Counts, quantiles and `reliability`: the share of deliveries whose lease did not expire."""
    return parts.select(
        *by,
        *COUNTS,
        "busy_seconds",
        "last_at",
        (1 - rate("stalled", "deliveries")).alias("reliability"),
        *quantiles("run", "run"),
    )
