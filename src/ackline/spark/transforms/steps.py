"""The journal as steps of jobs: each entry with the state before it, and the life it belongs to.

A life of a job begins when it is enqueued, redriven or moved into the queue.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from ackline.core.events import Act
from ackline.core.job import TERMINAL, State
from ackline.core.lifecycle import LEGAL_TRANSITIONS

JOB_KEY = ("tenant", "queue", "id")
"""What identifies a job; in another queue it counts as another job."""

TERMINAL_STATES = sorted(state.value for state in TERMINAL)
RETURNING_ACTS = [Act.RELEASE.value, Act.SNOOZE.value]
STARTING_ACTS = [Act.ENQUEUE.value, Act.REDRIVE.value]
ABSENT = ""
"""The state of a job that does not exist, where null would compare as unknown."""

PREVIOUS_FIELDS = ("act", "kind", "attempt", "at", "settings_at")
"""The fields of the previous entry that are kept."""

_BEFORE = (Window.unboundedPreceding, -1)


def is_arrival() -> Column:
    """Whether an entry is a job's arrival from another queue."""
    return (F.col("act") == Act.MOVE.value) & F.col("source").isNull()


def is_new_job() -> Column:
    """Whether an entry gives the id to another job, with limits of its own."""
    return (F.col("act") == Act.ENQUEUE.value) | is_arrival()


def to_steps(events: DataFrame, carried: Column | None = None) -> DataFrame:
    """The entries about single jobs, with `before` and `life`.

    `before` is the state in which the entry before left the job, null if there is none, and
    `entry_before` has fields of that entry; `lease_token` is the token of the claim before;
    `settings_at` is when the settings that apply to the entry were read, null if that is unknown;
    `life` counts how often the job was enqueued, redriven or moved here; `deliveries` how often it
    was delivered in this life and not given back. An entry with `so_far` stands for its whole life
    up to then.
    """
    of_job = Window.partitionBy(*JOB_KEY).orderBy("place")
    of_life = Window.partitionBy(*JOB_KEY, "life").orderBy("place")
    deliveries = or_carried(carried, "deliveries", _delivery_delta())
    return (
        events.where(F.col("id") != "")
        .withColumns(
            {
                "leads_to": F.coalesce("to", F.lit(ABSENT)),
                "comes_from": F.coalesce("source", F.lit(ABSENT)),
                "claim": F.last(_claim(), ignorenulls=True).over(of_job.rowsBetween(*_BEFORE)),
            }
        )
        .withColumns({"lease_token": F.col("claim.token"), "settings_at": _limits_as_of()})
        .withColumns(
            {
                "before": F.lag("leads_to").over(of_job),
                "entry_before": F.lag(F.struct(*PREVIOUS_FIELDS)).over(of_job),
                "life": F.sum(or_carried(carried, "begun", starts_run()).cast("int")).over(of_job),
            }
        )
        .withColumn("deliveries", F.sum(deliveries).over(of_life))
    )


def or_carried(carried: Column | None, name: str, of_entry: Column) -> Column:
    """The value of an entry for a field of `so_far`: its own, or what was carried over with it."""
    if carried is None:
        return of_entry
    return F.when(carried.isNull(), of_entry).otherwise(carried[name])


def _delivery_delta() -> Column:
    return (
        F.when(F.col("act") == Act.CLAIM.value, 1)
        .when(F.col("act").isin(RETURNING_ACTS), -1)
        .when(is_arrival(), F.col("attempt"))
        .otherwise(0)
    )


def starts_run() -> Column:
    """Whether an entry begins a life."""
    return F.col("act").isin(STARTING_ACTS) | is_arrival()


def _claim() -> Column:
    return F.when(F.col("act") == Act.CLAIM.value, F.struct("token", "at"))


def _limits_as_of() -> Column:
    """A worker applies the settings as they were when it claimed the job."""
    was_processing = F.col("comes_from") == State.PROCESSING.value
    return F.when(was_processing, F.col("claim.at")).otherwise(F.col("at"))


def last_states(steps: DataFrame) -> DataFrame:
    """The `state` in which the journal leaves each job, null if it is gone."""
    last = F.max_by(F.struct("to", "act", "place", "kind", "at", "settings_at"), "place")
    found = steps.groupBy(*JOB_KEY).agg(last.alias("last"))
    return found.select(
        *JOB_KEY,
        F.col("last.to").alias("state"),
        F.col("last.act").alias("act"),
        F.col("last.place").alias("place"),
        F.col("last.kind").alias("kind"),
        F.col("last.at").alias("at"),
        F.col("last.settings_at").alias("settings_at"),
    )


def is_legal() -> Column:
    """Whether the lifecycle allows a step."""
    known = [
        f"{act} {source or ABSENT} {to or ABSENT}"
        for act, targets in LEGAL_TRANSITIONS.items()
        if act is not Act.MOVE
        for source, states in targets.items()
        for to in states
    ]
    # A move has two entries: the departure in one journal, the arrival in the other.
    for state in LEGAL_TRANSITIONS[Act.MOVE]:
        known += [f"{Act.MOVE} {state} {ABSENT}", f"{Act.MOVE} {ABSENT} {state}"]
    return F.concat_ws(" ", "act", "comes_from", "leads_to").isin(known)
