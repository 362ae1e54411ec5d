"""Does the journal prove that nothing was lost? Zero findings is the only yes.

Pure functions: `findings` takes the journal, the jobs as the store has them, and the limits of
attempts, and answers with one row for each thing that cannot be.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ackline.job import LIVE
from ackline.spark.pipelines.lives import (
    JOB,
    NOWHERE,
    TERMINAL_STATES,
    is_arrival,
    is_legal,
    last_states,
    steps_of,
)

LIVE_STATES = sorted(state.value for state in LIVE)

MEANINGS = {
    "lost": "the journal says that it waits or runs, and the store does not have it",
    "unheard_of": "the store has it, and the journal never told how it came",
    "differs": "the store has it in another state than the journal says",
    "broken": "an entry does not follow from the one before it",
    "illegal": "an entry tells of a step that the lifecycle does not know",
    "ended_twice": "it reached a terminal state more than once in one life",
    "delivered_too_often": "it was handed out more often than its attempts allow",
}
"""What each finding means."""


def findings(
    events: DataFrame, jobs: DataFrame, limits: DataFrame, trimmed: Collection[str] = ()
) -> DataFrame:
    """Everything that cannot be: `finding`, the job, `place` in the journal, and `detail`.

    `limits` has the attempts of each `queue` and `kind`, and with a null kind of all others;
    `trimmed` names queues whose journal does not reach back to its beginning.
    """
    steps = steps_of(events)
    last = last_states(steps)
    parts = (
        broken(steps, trimmed),
        illegal(steps),
        ended_twice(steps),
        delivered_too_often(steps, jobs, limits),
        lost(last, jobs),
        unheard_of(last, jobs, trimmed),
        differing(last, jobs),
    )
    return reduce(DataFrame.unionByName, parts)


def broken(steps: DataFrame, trimmed: Collection[str] = ()) -> DataFrame:
    """Entries that do not begin where the one before ended.

    Past its retention a job is gone before anyone has pruned it: so from a terminal state it may
    begin anew. In a trimmed journal the first entry of a job may be about any state.
    """
    first = F.col("before").isNull()
    forgotten = (F.col("comes_from") == NOWHERE) & F.col("before").isin(TERMINAL_STATES)
    begins = F.when(F.col("queue").isin(list(trimmed)), True).otherwise(
        F.col("comes_from") == NOWHERE
    )
    follows = (F.col("comes_from") == F.col("before")) | forgotten
    wrong = F.when(first, ~begins).otherwise(~follows)
    said = F.concat(F.lit("was "), _state("before"), F.lit(", but "), _told())
    return _found("broken", steps.where(wrong), said)


def illegal(steps: DataFrame) -> DataFrame:
    """Entries that `lifecycle.LEGAL` does not have."""
    return _found("illegal", steps.where(~is_legal()), _told())


def ended_twice(steps: DataFrame) -> DataFrame:
    """Lives with more than one end. An edit of a finished job is none."""
    ends = F.col("leads_to").isin(TERMINAL_STATES) & ~F.col("comes_from").isin(TERMINAL_STATES)
    several = (
        steps.where(ends & ~is_arrival())
        .groupBy(*JOB, "life")
        .agg(F.count("*").alias("ends"), F.max("place").alias("place"))
        .where("ends > 1")
    )
    return _found("ended_twice", several, F.concat(F.col("ends").cast("string"), F.lit(" ends")))


def delivered_too_often(steps: DataFrame, jobs: DataFrame, limits: DataFrame) -> DataFrame:
    """Lives with more deliveries than attempts.

    Only jobs that are kept are judged, for a job may have had a limit of its own; and by the
    limits of now, for the journal does not tell how they were before.
    """
    most = (
        steps.groupBy(*JOB, "life")
        .agg(F.max_by(F.struct("deliveries", "place"), "deliveries").alias("most"))
        .select(*JOB, "life", "most.*")
    )
    of_kind = limits.where("kind is not null").withColumnRenamed("max_attempts", "of_kind")
    of_queue = limits.where("kind is null").select(
        "tenant", "queue", F.col("max_attempts").alias("of_queue")
    )
    allowed = (
        jobs.select(*JOB, "kind", "max_attempts")
        .join(F.broadcast(of_kind), ["tenant", "queue", "kind"], "left")
        .join(F.broadcast(of_queue), ["tenant", "queue"], "left")
        .select(*JOB, F.coalesce("max_attempts", "of_kind", "of_queue").alias("allowed"))
    )
    over = most.join(allowed, [*JOB]).where("deliveries > allowed")
    said = F.format_string("%d deliveries, %d allowed", F.col("deliveries"), F.col("allowed"))
    return _found("delivered_too_often", over, said)


def lost(last: DataFrame, jobs: DataFrame) -> DataFrame:
    """Jobs that should wait or run, and are not there."""
    alive = last.where(F.col("state").isin(LIVE_STATES))
    missing = alive.join(jobs.select(*JOB), [*JOB], "left_anti")
    return _found("lost", missing, F.concat(F.lit("last heard of as "), F.col("state")))


def unheard_of(last: DataFrame, jobs: DataFrame, trimmed: Collection[str] = ()) -> DataFrame:
    """Jobs that are there, and no journal that is whole tells of them."""
    told = jobs.where(~F.col("queue").isin(list(trimmed))) if trimmed else jobs
    strange = told.join(last.select(*JOB), [*JOB], "left_anti")
    return _found(
        "unheard_of",
        strange.withColumn("place", F.lit(None).cast("string")),
        F.concat(F.lit("is "), F.col("state")),
    )


def differing(last: DataFrame, jobs: DataFrame) -> DataFrame:
    """Jobs that the store has in another state than the journal."""
    kept = jobs.select(*JOB, F.col("state").alias("is"))
    both = last.join(kept, [*JOB]).where(~F.col("state").eqNullSafe(F.col("is")))
    said = F.concat(F.lit("is "), F.col("is"), F.lit(", should be "), _state("state"))
    return _found("differs", both, said)


def _found(name: str, rows: DataFrame, detail: Column) -> DataFrame:
    return rows.select(F.lit(name).alias("finding"), *JOB, "place", detail.alias("detail"))


def _state(column: str) -> Column:
    said = F.col(column)
    return F.when(said.isNull() | (said == NOWHERE), "not there").otherwise(said)


def _told() -> Column:
    parts = [
        F.col("act"),
        F.lit(": from "),
        _state("comes_from"),
        F.lit(" to "),
        _state("leads_to"),
    ]
    return F.concat(*parts)
