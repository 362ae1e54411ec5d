"""What passed through a queue, by time: counts and sketches that can be added up.

`partial` turns the steps of one batch into parts; `merge` merges the parts of several batches or
hours; `finalize` computes rates and quantiles. A step is new in just one batch, so it does not
matter how late it comes. It counts in the hour in which it was taken; only
the work that ended with it is spread over all hours in which it was done.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ackline.core.events import Act
from ackline.core.job import State
from ackline.spark.transforms import durations
from ackline.spark.transforms.durations import is_act
from ackline.spark.transforms.sketches import merge_sketches, quantiles, sketch
from ackline.spark.transforms.utc import DAY, HOUR, day_of, hour_of

GROUP_KEY = ("tenant", "queue", "kind", "priority")

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
"""`at_once` is how many were completed at their first attempt that counts."""

MEASURES = {
    "wait": durations.wait_seconds,
    "run": durations.run_seconds,
    "total": durations.total_seconds,
    "stall": durations.stall_seconds,
    "recovery": durations.recovery_seconds,
}
"""The spans of time that are sketched, in seconds."""


MAX_RUN_SECONDS = 31.0 * DAY
"""Seconds of work that are spread at most: more than that means that a clock was set."""


def partial(steps: DataFrame) -> DataFrame:
    """One row for each hour and group."""
    here = F.col("hours_ago") == 0
    return (
        steps.withColumn("hours_ago", F.explode(F.sequence(F.lit(0), _hours_before())))
        .withColumn("hour", F.timestamp_seconds(F.unix_seconds(hour_of("at")) - _seconds_ago()))
        .groupBy(day_of("hour").alias("day"), "hour", *GROUP_KEY)
        .agg(
            *(F.count_if(here & is_act(act)).alias(name) for name, act in _ACTS.items()),
            *(F.count_if(here & (F.col("to") == end.value)).alias(n) for n, end in _ENDS.items()),
            F.count_if(here & is_act(Act.COMPLETE) & (F.col("deliveries") == 1)).alias("at_once"),
            F.sum(_busy_in_the_hour()).alias("busy_seconds"),
            *(sketch(F.when(here, of())).alias(name) for name, of in MEASURES.items()),
        )
    )


def _hours_before() -> Column:
    """How many hours before that of the step its work began."""
    return F.ceil(F.greatest(_work() - _into_the_hour(), F.lit(0.0)) / HOUR).cast("int")


def _busy_in_the_hour() -> Column:
    """Seconds of its work that fall into the hour `hours_ago` before it."""
    worked_until = _into_the_hour() + _seconds_ago()
    after = F.greatest(worked_until - HOUR, F.lit(0.0))
    return F.greatest(F.least(_work(), worked_until) - after, F.lit(0.0))


def _work() -> Column:
    """Seconds of the work that ended with the step."""
    return F.least(F.coalesce(durations.run_seconds(), F.lit(0.0)), F.lit(MAX_RUN_SECONDS))


def _seconds_ago() -> Column:
    return F.col("hours_ago") * HOUR


def _into_the_hour() -> Column:
    """Seconds from the beginning of the step's hour to the step."""
    return F.pmod(F.unix_micros("at"), F.lit(HOUR * 1_000_000)) / 1e6


def merge(parts: DataFrame, by: Sequence[str]) -> DataFrame:
    """The parts of each group merged into one."""
    return parts.groupBy(*by).agg(
        # If there are no parts at all, zero.
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in (*COUNTS, "busy_seconds")),
        *(merge_sketches(name).alias(name) for name in MEASURES),
    )


def finalize(parts: DataFrame, by: Sequence[str]) -> DataFrame:
    """Counts, rates and quantiles of merged parts."""
    return parts.select(
        *by,
        *COUNTS,
        "busy_seconds",
        rate("retried", "claimed").alias("retry_rate"),
        rate("failed", "completed", "failed").alias("failure_rate"),
        *(column for name in MEASURES for column in quantiles(name, name)),
    )


def latency_by_level(parts: DataFrame) -> DataFrame:
    """The quantiles of each hour: of each kind, of each whole queue, and of the whole tenant.

    `kind` is null in the row of a whole queue, and `queue` too in that of the tenant. Quantiles
    cannot be merged, only the sketches that they come from.
    """
    by, whole = ("day", "hour", "tenant", "queue", "kind"), F.lit(None).cast("string")
    levels = F.array(
        F.struct("queue", "kind"),
        F.struct("queue", whole.alias("kind")),
        F.struct(whole.alias("queue"), whole.alias("kind")),
    )
    counted_in = parts.withColumn("level", F.explode(levels))
    of_levels = counted_in.withColumns({name: F.col(f"level.{name}") for name in ("queue", "kind")})
    return merge(of_levels, by).select(
        *by, *(column for name in MEASURES for column in quantiles(name, name))
    )


def rate(part: str, *whole: str) -> Column:
    """The share of a column in the sum of others; null if that sum is zero."""
    total = sum((F.col(name) for name in whole[1:]), F.col(whole[0]))
    return F.try_divide(F.col(part), total)
