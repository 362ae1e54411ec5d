"""Does the journal prove that nothing was lost? Zero findings is the only yes.

Pure functions: `findings` takes the journal, the jobs as the store has them, and the limits of
attempts, and returns one row for each thing that cannot be.
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
    parts = (
        wrong_steps(steps, trimmed),
        wrong_lives(steps, jobs, limits),
        wrong_ends(last_states(steps), jobs, trimmed),
    )
    return reduce(DataFrame.unionByName, parts)


def wrong_steps(steps: DataFrame, trimmed: Collection[str] = ()) -> DataFrame:
    """`broken`: entries that do not begin where the one before ended. `illegal`: not in `LEGAL`.

    Past its retention a job is gone before anyone has pruned it: so from a terminal state it may
    begin anew. In a trimmed journal the first entry of a job may be about any state.
    """
    first = F.col("before").isNull()
    forgotten = (F.col("comes_from") == NOWHERE) & F.col("before").isin(TERMINAL_STATES)
    begins = F.when(F.col("queue").isin(list(trimmed)), True).otherwise(
        F.col("comes_from") == NOWHERE
    )
    follows = (F.col("comes_from") == F.col("before")) | forgotten
    broken = F.when(first, ~begins).otherwise(~follows)
    said = F.concat(F.lit("was "), _state("before"), F.lit(", but "), _told())
    return _found(
        steps, _finding("broken", broken, said), _finding("illegal", ~is_legal(), _told())
    )


def wrong_lives(steps: DataFrame, jobs: DataFrame, limits: DataFrame) -> DataFrame:
    """`ended_twice`: lives with several ends. `delivered_too_often`: with too many deliveries.

    An edit of a finished job is not an end. Deliveries are judged only of jobs that are kept, for
    a job may have had a limit of its own; and by the limits of now, for the journal does not tell
    how they were before.
    """
    was_over = F.col("comes_from").isin(TERMINAL_STATES)
    is_end = F.col("leads_to").isin(TERMINAL_STATES) & ~was_over & ~is_arrival()
    lives = (
        steps.groupBy(*JOB, "life")
        .agg(
            F.count_if(is_end).alias("ends"),
            F.max(F.when(is_end, F.col("place"))).alias("ended"),
            F.max_by(F.struct("deliveries", "place"), "deliveries").alias("most"),
        )
        .join(_allowed(jobs, limits), [*JOB], "left")
    )
    deliveries, allowed = F.col("most.deliveries"), F.col("allowed")
    ends = F.concat(F.col("ends").cast("string"), F.lit(" ends"))
    said = F.format_string("%d deliveries, %d allowed", deliveries, allowed)
    return _found(
        lives,
        _finding("ended_twice", F.col("ends") > 1, ends, F.col("ended")),
        _finding("delivered_too_often", deliveries > allowed, said, F.col("most.place")),
    )


def _allowed(jobs: DataFrame, limits: DataFrame) -> DataFrame:
    """How many deliveries each job may have."""
    of_kind = limits.where("kind is not null").withColumnRenamed("max_attempts", "of_kind")
    of_queue = limits.where("kind is null").select(
        "tenant", "queue", F.col("max_attempts").alias("of_queue")
    )
    return (
        jobs.select(*JOB, "kind", "max_attempts")
        .join(F.broadcast(of_kind), ["tenant", "queue", "kind"], "left")
        .join(F.broadcast(of_queue), ["tenant", "queue"], "left")
        .select(*JOB, F.coalesce("max_attempts", "of_kind", "of_queue").alias("allowed"))
    )


def wrong_ends(last: DataFrame, jobs: DataFrame, trimmed: Collection[str] = ()) -> DataFrame:
    """Where the journal leaves a job, compared with where the store has it.

    `lost`: should wait or run, and is not there. `unheard_of`: is there, and no journal that is
    whole tells of it. `differs`: is there in another state.
    """
    kept = jobs.select(*JOB, F.col("state").alias("is"), F.lit(True).alias("kept"))
    both = last.withColumn("told", F.lit(True)).join(kept, [*JOB], "full")
    told, kept_too = F.col("told").isNotNull(), F.col("kept").isNotNull()
    lost = ~kept_too & F.col("state").isin(LIVE_STATES)
    unheard_of = ~told & ~F.col("queue").isin(list(trimmed))
    differs = told & kept_too & ~F.col("state").eqNullSafe(F.col("is"))
    is_in = F.concat(F.lit("is "), F.col("is"))
    return _found(
        both,
        _finding("lost", lost, F.concat(F.lit("last heard of as "), F.col("state"))),
        _finding("unheard_of", unheard_of, is_in),
        _finding("differs", differs, F.concat(is_in, F.lit(", should be "), _state("state"))),
    )


def _finding(name: str, wrong: Column, detail: Column, place: Column | None = None) -> Column:
    """What is to be said of a row if it is wrong; null if it is not."""
    at = F.col("place") if place is None else place
    said = (F.lit(name).alias("finding"), at.alias("place"), detail.alias("detail"))
    return F.when(wrong, F.struct(*said))


def _found(rows: DataFrame, *findings: Column) -> DataFrame:
    """The findings on some rows, in one pass over them."""
    found = F.explode(F.array_compact(F.array(*findings))).alias("found")
    columns = ("found.finding", *JOB, "found.place", "found.detail")
    return rows.select(*JOB, found).select(*columns)


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
