"""Silver: one row for each life of a job, and how long it stayed in which state.

`timed_steps` works on the whole journal, or on the entries that are new together with the last
steps of the lives that had not ended, each with its totals so far (`so_far`). Both give the same
rows for lives that have ended.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.window import WindowSpec

from ackline.core.events import Act
from ackline.spark.transforms.open_jobs import CARRIED_STRUCT, aggregate_runs, with_carried
from ackline.spark.transforms.steps import (
    ABSENT,
    JOB_KEY,
    STARTING_ACTS,
    TERMINAL_STATES,
    is_arrival,
    or_carried,
    to_steps,
)

FINAL_STATES = [*TERMINAL_STATES, ABSENT]
UNKNOWN = "unknown"

_UP_TO_CURRENT = (Window.unboundedPreceding, Window.currentRow)
_ALL = (Window.unboundedPreceding, Window.unboundedFollowing)


def timed_steps(entries: DataFrame) -> DataFrame:
    """The steps from one state to another, with how long the previous state lasted.

    Added to them are `since`, the seconds since the step before; `before_act`, the act of that
    step; `age`, the seconds since the life began; `goes_on`, whether the life goes on: not if
    another life follows, even if no entry records its end; `priority` at that time, and
    `priority_after` all entries. Null is unknown.
    """
    entries, carried = with_carried(entries), F.col(CARRIED_STRUCT)
    of_job = Window.partitionBy(*JOB_KEY).orderBy("place")
    priority = or_carried(carried, "priority_after", F.col("priority"))
    last_known = F.last(priority, ignorenulls=True)
    current = last_known.over(of_job.rowsBetween(*_UP_TO_CURRENT))
    # Before entries are left out: an edit is not a step, but may change the priority.
    entries = entries.withColumns(
        {
            "priority_after": last_known.over(of_job.rowsBetween(*_ALL)),
            "priority": F.when(carried.isNull(), current).otherwise(F.col("priority")),
        }
    )
    of_life = Window.partitionBy(*JOB_KEY, "life").orderBy("place")
    first_at = F.first(or_carried(carried, "first_at", F.col("at")))
    began = F.when(F.col("life") > 0, first_at.over(of_life.rowsBetween(*_UP_TO_CURRENT)))
    return to_steps(entries.where(_changes_state() & ~_after_the_end()), carried).withColumns(
        {
            "since": _seconds_between(F.lag("at").over(of_life), F.col("at")),
            "before_act": F.lag("act").over(of_life),
            "age": _seconds_between(began, F.col("at")),
            "goes_on": ~_last_of(of_life).isin(FINAL_STATES) & _is_last_life(),
        }
    )


def _last_of(life: WindowSpec) -> Column:
    return F.last("leads_to").over(life.rowsBetween(*_ALL))


def _is_last_life() -> Column:
    return F.col("life") == F.max("life").over(Window.partitionBy(*JOB_KEY))


def _changes_state() -> Column:
    return ~F.col("source").eqNullSafe(F.col("to"))


def _after_the_end() -> Column:
    """Entries that belong to no life: about jobs that have ended and are not started again."""
    ended = F.coalesce(F.col("source").isin(TERMINAL_STATES), F.lit(False))
    arrived_dead = is_arrival() & F.coalesce(F.col("to").isin(TERMINAL_STATES), F.lit(False))
    return (ended & ~F.col("act").isin(STARTING_ACTS)) | arrived_dead


def _seconds_between(start: Column, end: Column) -> Column:
    """Never below zero: a store's clock may be set back, but the journal's order holds."""
    micros = F.unix_micros(end) - F.unix_micros(start)
    return F.when(start.isNotNull(), F.greatest(micros / 1e6, F.lit(0.0)))


def job_runs(steps: DataFrame) -> DataFrame:
    """One row for each life; of lives that have ended, these are the rows of `silver/jobs`."""
    lives = aggregate_runs(steps, ("kind", "priority", "leads_to", "act", "at", "place"))
    return lives.select(
        *JOB_KEY,
        F.col("last.kind").alias("kind"),
        F.col("last.priority").alias("priority"),
        _outcome().alias("outcome"),
        F.when(F.col("life") > 0, F.col("first_at")).alias("began_at"),
        F.col("last.at").alias("ended_at"),
        F.col("claims").alias("deliveries"),
        *("attempts", "retries", "stalls", "snoozes"),
        *("wait_seconds", "run_seconds", "busy_seconds", "stalled_seconds", "recovery_seconds"),
        F.col("age").alias("total_seconds"),
        F.col("last_worker").alias("worker"),
        *("error", "start_cursor"),
        F.col("last.place").alias("last_place"),
    )


def _outcome() -> Column:
    """How a life ended; `unknown` if the entry of its end was never read."""
    leads_to = F.col("last.leads_to")
    gone = F.when(F.col("last.act") == Act.MOVE.value, "moved").otherwise("purged")
    return (
        F.when(leads_to == ABSENT, gone)
        .when(leads_to.isin(TERMINAL_STATES), leads_to)
        .otherwise(UNKNOWN)
    )
