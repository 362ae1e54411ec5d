"""Silver: one row for each life of a job, and how long it stayed in which state.

`steps_with_times` works on the whole journal, or on the entries of lives that go on together with
the entries that are new: a life that has ended is the same either way.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.window import WindowSpec

from ackline.events import Act
from ackline.job import State
from ackline.spark.pipelines.lives import ANEW, JOB, NOWHERE, TERMINAL_STATES, is_arrival, steps_of

CARRIED = (
    *JOB,
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
"""The columns that are kept of the entries of a life that goes on."""

ENDS = [*TERMINAL_STATES, NOWHERE]
UNKNOWN = "unknown"

_SO_FAR = (Window.unboundedPreceding, Window.currentRow)
_ALL = (Window.unboundedPreceding, Window.unboundedFollowing)


def steps_with_times(entries: DataFrame) -> DataFrame:
    """The steps from one state to another, with how long the state before lasted.

    Added to them are `since`, the seconds since the step before; `before_act`, the act of that
    step; `age`, the seconds since the life began; `goes_on`, whether the life goes on: not if
    another life follows, even if no entry records its end; `priority` at that time, and
    `priority_after` all entries. Null is unknown.
    """
    of_job = Window.partitionBy(*JOB).orderBy("place")
    last_known = F.last("priority", ignorenulls=True)
    # Before entries are left out: an edit is not a step, but may change the priority.
    entries = entries.withColumns(
        {
            "priority_after": last_known.over(of_job.rowsBetween(*_ALL)),
            "priority": last_known.over(of_job.rowsBetween(*_SO_FAR)),
        }
    )
    of_life = Window.partitionBy(*JOB, "life").orderBy("place")
    began = F.when(F.col("life") > 0, F.first("at").over(of_life.rowsBetween(*_SO_FAR)))
    return steps_of(entries.where(_changes_state() & ~_after_the_end())).withColumns(
        {
            "since": _seconds_between(F.lag("at").over(of_life), F.col("at")),
            "before_act": F.lag("act").over(of_life),
            "age": _seconds_between(began, F.col("at")),
            "goes_on": ~_last_of(of_life).isin(ENDS) & _is_last_life(),
        }
    )


def _last_of(life: WindowSpec) -> Column:
    return F.last("leads_to").over(life.rowsBetween(*_ALL))


def _is_last_life() -> Column:
    return F.col("life") == F.max("life").over(Window.partitionBy(*JOB))


def carried(steps: DataFrame) -> DataFrame:
    """What the next batch needs of the lives that go on, with their current priority."""
    open_ = steps.where("goes_on").withColumn("priority", F.col("priority_after"))
    return open_.select(*CARRIED)


def _changes_state() -> Column:
    return ~F.col("source").eqNullSafe(F.col("to"))


def _after_the_end() -> Column:
    """Entries that belong to no life: about jobs that have ended and do not start over."""
    ended = F.coalesce(F.col("source").isin(TERMINAL_STATES), F.lit(False))
    arrived_dead = is_arrival() & F.coalesce(F.col("to").isin(TERMINAL_STATES), F.lit(False))
    return (ended & ~F.col("act").isin(ANEW)) | arrived_dead


def _seconds_between(start: Column, end: Column) -> Column:
    """Never below zero: a store's clock may be set back, but the journal's order holds."""
    micros = F.unix_micros(end) - F.unix_micros(start)
    return F.when(start.isNotNull(), F.greatest(micros / 1e6, F.lit(0.0)))


# --- what a step measures, null where it does not apply ---


def wait() -> Column:
    """Seconds in line before a delivery."""
    return F.when(_act(Act.CLAIM), F.col("since"))


def run() -> Column:
    """Seconds that a delivery lasted, however it ended."""
    return F.when(F.col("comes_from") == State.PROCESSING.value, F.col("since"))


def stall() -> Column:
    """Seconds that a job was held by a worker that was lost."""
    return F.when(_act(Act.EXPIRE), F.col("since"))


def recovery() -> Column:
    """Seconds from when the loss of a worker was noticed until the next delivery."""
    return F.when(_act(Act.CLAIM) & (F.col("before_act") == Act.EXPIRE.value), F.col("since"))


def total() -> Column:
    """Seconds from the beginning of a life to its completion."""
    return F.when(_act(Act.COMPLETE), F.col("age"))


def lives_of(steps: DataFrame) -> DataFrame:
    """One row for each life; of lives that have ended, these are the rows of `silver/jobs`."""
    last = F.max_by(F.struct("kind", "priority", "leads_to", "act", "at"), "place")
    first_wait = F.min_by(wait(), F.when(wait().isNotNull(), F.col("place")))
    last_run = F.max_by(run(), F.when(run().isNotNull(), F.col("place")))
    error_place = F.when(_act(Act.FAIL) | _act(Act.EXPIRE), F.col("place"))
    lives = steps.groupBy(*JOB, "life").agg(
        last.alias("last"),
        F.min("place").alias("first_place"),
        F.max("place").alias("last_place"),
        F.min_by("at", "place").alias("first_at"),
        F.count_if(_act(Act.CLAIM)).cast("int").alias("deliveries"),
        F.max("deliveries").cast("int").alias("attempts"),
        F.count_if(F.col("to") == State.FAILING.value).cast("int").alias("retries"),
        F.count_if(_act(Act.EXPIRE)).cast("int").alias("stalls"),
        F.count_if(_act(Act.SNOOZE)).cast("int").alias("snoozes"),
        first_wait.alias("wait_seconds"),
        last_run.alias("run_seconds"),
        F.sum(run()).alias("busy_seconds"),
        F.sum(stall()).alias("stalled_seconds"),
        F.sum(recovery()).alias("recovery_seconds"),
        F.max("age").alias("age"),
        F.max_by("worker", F.when(F.col("worker") != "", F.col("place"))).alias("worker"),
        F.max_by("note", error_place).alias("error"),
    )
    return lives.select(
        *JOB,
        F.col("last.kind").alias("kind"),
        F.col("last.priority").alias("priority"),
        _outcome().alias("outcome"),
        F.when(F.col("life") > 0, F.col("first_at")).alias("began_at"),
        F.col("last.at").alias("ended_at"),
        *("deliveries", "attempts", "retries", "stalls", "snoozes"),
        *("wait_seconds", "run_seconds", "busy_seconds", "stalled_seconds", "recovery_seconds"),
        F.col("age").alias("total_seconds"),
        *("worker", "error", "first_place", "last_place"),
    )


def _outcome() -> Column:
    """How a life ended; `unknown` if the entry of its end was never read."""
    leads_to = F.col("last.leads_to")
    gone = F.when(F.col("last.act") == Act.MOVE.value, "moved").otherwise("purged")
    return (
        F.when(leads_to == NOWHERE, gone)
        .when(leads_to.isin(TERMINAL_STATES), leads_to)
        .otherwise(UNKNOWN)
    )


def _act(act: Act) -> Column:
    return F.col("act") == act.value
