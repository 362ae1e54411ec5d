"""The journal as lives of jobs: each entry with what came before it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from ackline.core.events import Act
from ackline.core.job import TERMINAL, State
from ackline.core.lifecycle import LEGAL_TRANSITIONS

JOB_KEY = ("tenant", "queue", "id")
"""What identifies a job: once moved, it is another job."""

TERMINAL_STATES = sorted(state.value for state in TERMINAL)
RETURNING_ACTS = [Act.RELEASE.value, Act.SNOOZE.value]
STARTING_ACTS = [Act.ENQUEUE.value, Act.REDRIVE.value]
ABSENT = ""
"""The state of a job that does not exist, where null would compare as unknown."""

PREVIOUS_FIELDS = ("act", "kind", "attempt", "at", "terms_at")
"""The fields that are kept of the entry before."""

_BEFORE = (Window.unboundedPreceding, -1)


def is_arrival() -> Column:
    """Whether an entry is a job's arrival from another queue."""
    return (F.col("act") == Act.MOVE.value) & F.col("source").isNull()


def is_new_job() -> Column:
    """Whether an entry gives the id to another job, with limits of its own."""
    return (F.col("act") == Act.ENQUEUE.value) | is_arrival()


def to_steps(events: DataFrame, so_far: Column | None = None) -> DataFrame:
    """The entries about single jobs, with `before` and `life`.

    `before` is the state in which the entry before left the job, null if there is none, and
    `entry_before` has fields of that entry; `held` is the token of the claim before; `terms_at` is
    when the settings that apply to the entry were read, null if that is unknown; `life` counts how
    often the job was enqueued, redriven or moved here; `deliveries` how often it was handed out in
    this life and not given back. An entry with `so_far` stands for its life up to then, of which
    that has `begun` and `deliveries`.
    """
    of_job = Window.partitionBy(*JOB_KEY).orderBy("place")
    of_life = Window.partitionBy(*JOB_KEY, "life").orderBy("place")
    handed_out = or_carried(so_far, "deliveries", _delivery_delta())
    return (
        events.where(F.col("id") != "")
        .withColumns(
            {
                "leads_to": F.coalesce("to", F.lit(ABSENT)),
                "comes_from": F.coalesce("source", F.lit(ABSENT)),
                "claim": F.last(_claim(), ignorenulls=True).over(of_job.rowsBetween(*_BEFORE)),
            }
        )
        .withColumns({"held": F.col("claim.token"), "terms_at": _limits_as_of()})
        .withColumns(
            {
                "before": F.lag("leads_to").over(of_job),
                "entry_before": F.lag(F.struct(*PREVIOUS_FIELDS)).over(of_job),
                "life": F.sum(or_carried(so_far, "begun", starts_run()).cast("int")).over(of_job),
            }
        )
        .withColumn("deliveries", F.sum(handed_out).over(of_life))
    )


def or_carried(so_far: Column | None, name: str, of_entry: Column) -> Column:
    """What an entry adds to a field of `so_far`; one that has it adds all that was up to it."""
    if so_far is None:
        return of_entry
    return F.when(so_far.isNull(), of_entry).otherwise(so_far[name])


def _delivery_delta() -> Column:
    return (
        F.when(F.col("act") == Act.CLAIM.value, 1)
        .when(F.col("act").isin(RETURNING_ACTS), -1)
        .when(is_arrival(), F.col("attempt"))
        .otherwise(0)
    )


def starts_run() -> Column:
    """Whether a life begins with an entry."""
    return F.col("act").isin(STARTING_ACTS) | is_arrival()


def _claim() -> Column:
    return F.when(F.col("act") == Act.CLAIM.value, F.struct("token", "at"))


def _limits_as_of() -> Column:
    """The holder of a job applies the settings as they were when it claimed the job."""
    was_held = F.col("comes_from") == State.PROCESSING.value
    return F.when(was_held, F.col("claim.at")).otherwise(F.col("at"))


def last_states(steps: DataFrame) -> DataFrame:
    """The `state` in which the journal leaves each job, null if it is gone."""
    last = F.max_by(F.struct("to", "act", "place", "kind", "at", "terms_at"), "place")
    found = steps.groupBy(*JOB_KEY).agg(last.alias("last"))
    return found.select(
        *JOB_KEY,
        F.col("last.to").alias("state"),
        F.col("last.act").alias("act"),
        F.col("last.place").alias("place"),
        F.col("last.kind").alias("kind"),
        F.col("last.at").alias("at"),
        F.col("last.terms_at").alias("terms_at"),
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
