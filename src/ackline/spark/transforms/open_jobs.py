"""The totals of lives that have not ended, carried from one batch to the next.

The last step of such a life has them as `so_far`, instead of all its earlier steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ackline.core.events import Act
from ackline.core.job import State
from ackline.spark.transforms.durations import (
    is_act,
    recovery_seconds,
    run_seconds,
    stall_seconds,
    wait_seconds,
)
from ackline.spark.transforms.steps import JOB_KEY, or_carried

LAST_STEP_COLUMNS = (
    "kind",
    "place",
    "at",
    "act",
    "source",
    "to",
    "attempt",
    "worker",
    "note",
    "priority",
)
"""The columns of the last step that are carried over."""

CARRIED_STRUCT = "so_far"

CARRIED_FIELDS = {
    "begun": "boolean",
    "priority_after": "int",
    "deliveries": "bigint",
    "start_cursor": "string",
    "first_at": "timestamp",
    "claims": "int",
    "attempts": "int",
    "retries": "int",
    "stalls": "int",
    "snoozes": "int",
    "wait_seconds": "double",
    "run_seconds": "double",
    "busy_seconds": "double",
    "stalled_seconds": "double",
    "recovery_seconds": "double",
    "age": "double",
    "last_worker": "string",
    "error": "string",
}
"""`begun` says whether the beginning is known. `claims` counts all claims, `deliveries` those that
were not given back, `attempts` is the highest that `deliveries` ever was."""


def with_carried(entries: DataFrame) -> DataFrame:
    """Entries with the column `so_far`, null if they do not have it."""
    if CARRIED_STRUCT in entries.columns:
        return entries
    fields = ", ".join(f"{name}: {kind}" for name, kind in CARRIED_FIELDS.items())
    return entries.withColumn(CARRIED_STRUCT, F.lit(None).cast(f"struct<{fields}>"))


def open_jobs(steps: DataFrame) -> DataFrame:
    """What the next batch needs of each life that has not ended: one row each."""
    of_last = ("priority_after", "deliveries")
    lives = aggregate_runs(steps.where("goes_on"), (*LAST_STEP_COLUMNS, *of_last)).withColumns(
        {"begun": F.col("life") > 0} | {name: F.col("last")[name] for name in of_last}
    )
    columns = (F.col("last")[name].alias(name) for name in LAST_STEP_COLUMNS)
    return lives.select(*JOB_KEY, *columns, F.struct(*CARRIED_FIELDS).alias(CARRIED_STRUCT))


def aggregate_runs(steps: DataFrame, of_last: Sequence[str]) -> DataFrame:
    """One row for each life: columns of its `last` step, and its totals."""
    fails = is_act(Act.FAIL) | is_act(Act.EXPIRE)
    return steps.groupBy(*JOB_KEY, "life").agg(
        F.max_by(F.struct(*of_last), "place").alias("last"),
        F.min(_up_to("start_cursor", F.col("place"))).alias("start_cursor"),
        _first("first_at", F.col("at")),
        _count("claims", is_act(Act.CLAIM)),
        F.max(_up_to("attempts", F.col("deliveries"))).cast("int").alias("attempts"),
        _count("retries", F.col("to") == State.FAILING.value),
        _count("stalls", is_act(Act.EXPIRE)),
        _count("snoozes", is_act(Act.SNOOZE)),
        _first("wait_seconds", wait_seconds()),
        _last("run_seconds", run_seconds()),
        _sum("busy_seconds", run_seconds()),
        _sum("stalled_seconds", stall_seconds()),
        _sum("recovery_seconds", recovery_seconds()),
        F.max(_up_to("age", F.col("age"))).alias("age"),
        _last("last_worker", F.nullif("worker", F.lit(""))),
        _last("error", F.when(fails, F.col("note"))),
    )


def _up_to(name: str, of_step: Column) -> Column:
    return or_carried(F.col(CARRIED_STRUCT), name, of_step)


def _count(name: str, counts: Column) -> Column:
    return F.sum(_up_to(name, F.when(counts, 1).otherwise(0))).cast("int").alias(name)


def _sum(name: str, of_step: Column) -> Column:
    return F.sum(_up_to(name, of_step)).alias(name)


def _first(name: str, of_step: Column) -> Column:
    found = _up_to(name, of_step)
    return F.min_by(found, F.when(found.isNotNull(), F.col("place"))).alias(name)


def _last(name: str, of_step: Column) -> Column:
    found = _up_to(name, of_step)
    return F.max_by(found, F.when(found.isNotNull(), F.col("place"))).alias(name)
