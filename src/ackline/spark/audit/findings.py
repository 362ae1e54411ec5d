"""Audits a journal: every finding is something that must not happen.

Pure functions: `findings` takes the journal, the jobs as the store has them, and the limits of
attempts, and returns one row for each violation. An audit passes with no findings.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from ackline.core.events import Act
from ackline.core.job import LIVE, State
from ackline.core.lifecycle import FENCED_ACTS
from ackline.spark.audit.moves import count_moves
from ackline.spark.transforms.journal_slices import mark_queues
from ackline.spark.transforms.retention_limits import JobLimits, is_retained, settings_known
from ackline.spark.transforms.steps import (
    ABSENT,
    JOB_KEY,
    RETURNING_ACTS,
    STARTING_ACTS,
    TERMINAL_STATES,
    is_arrival,
    is_legal,
    is_new_job,
    last_states,
    starts_run,
    to_steps,
)

LIVE_STATE_NAMES = sorted(state.value for state in LIVE)
LEASEHOLDER_ACTS = sorted(act.value for act in FENCED_ACTS)

FINDINGS = {
    "lost": "the journal has it, but the store does not",
    "unheard_of": "the store has it, but the journal has no entry of it",
    "differs": "its state in the store is not the one in the journal",
    "broken": "an entry does not start from the state in which the one before it ended",
    "illegal": "an entry records a step that the lifecycle does not allow",
    "ended_twice": "it reached a terminal state more than once without being enqueued again",
    "delivered_too_often": "it was delivered more often than its attempts allow",
    "stale_settle": "it was settled with a token that is not that of its lease",
    "token_not_growing": "it was claimed under a token that is not higher than the one before",
    "attempts_jump": "it was claimed, but its attempts did not increase by one",
    "kind_changed": "its kind changed without it being enqueued again",
    "moved_nowhere": "it was moved to another queue, whose journal has no arrival",
    "moved_from_nowhere": "it was moved from another queue, whose journal has no departure",
}
"""What each finding means."""

MOVE_FINDINGS = ("moved_nowhere", "moved_from_nowhere")
"""Findings about two queues; in a cluster, one may record its half of a move later."""

TRANSIENT_FINDINGS = ("lost", "unheard_of", "differs", *MOVE_FINDINGS)
"""Findings that compare the journal with jobs that change while it is read."""

STORED_JOB_FINDINGS = ("delivered_too_often",)
"""Findings that depend on the stored job: an earlier job with the same id may have differed."""


def findings(
    events: DataFrame,
    jobs: DataFrame,
    limits: DataFrame,
    trimmed: Collection[str] = (),
    unaudited: Collection[str] = (),
    *,
    result_ttl: float | None = None,
) -> DataFrame:
    """All violations: `finding`, the job, its `place` in the journal, and `detail`.

    `limits` has the attempts of each `queue` and `kind` (a null kind stands for all others); for
    how many seconds failed and cancelled jobs are kept (`keep_failed`, `keep_cancelled`, null if
    that is unknown); and when the jobs were read (`now`).
    `trimmed` names queues whose journal does not reach back to its beginning, `unaudited` other
    queues of the store whose events are not in `events`. `result_ttl` is for how many seconds
    every completed job is kept at least; if None, a missing completed job is no finding.
    """
    steps, job_limits = to_steps(events), JobLimits.load(events, limits, result_ttl)
    parts = (
        step_findings(steps, job_limits, trimmed),
        run_findings(steps, jobs, job_limits),
        final_state_findings(last_states(steps), jobs, job_limits, trimmed),
        move_findings(events, [*trimmed, *unaudited]),
    )
    return reduce(DataFrame.unionByName, parts)


def step_findings(
    steps: DataFrame, job_limits: JobLimits, trimmed: Collection[str] = ()
) -> DataFrame:
    """`broken`: entries that do not begin where the one before ended. `illegal`: not legal.

    An act that needs a lease must name the token of the claim before it. That reveals a stale
    worker that was not fenced, or two leases with the same token.
    Past its retention a job counts as gone even if nobody has pruned it, so it may begin anew from
    a terminal state; a completed one must not be pruned before. In a trimmed journal the first
    entry of a job may be about any state.
    """
    first, ended = F.col("before").isNull(), F.col("entry_before")
    kept = is_retained(F.col("before"), ended, F.col("at"))
    gone = F.col("before").isin(TERMINAL_STATES) & ~kept
    is_result = F.col("before") == State.COMPLETED.value
    too_early = (F.col("act") == Act.PRUNE.value) & is_result & kept
    may_begin = F.col("trimmed") | (F.col("comes_from") == ABSENT)
    follows = (F.col("comes_from") == F.col("before")) | ((F.col("comes_from") == ABSENT) & gone)
    broken = F.when(first, ~may_begin).otherwise(~follows | too_early)
    detail = F.concat(F.lit("was "), _state("before"), F.lit(", but "), _step())
    rows = job_limits.join(steps.withColumn("kind_before", ended["kind"]), "kind_before")
    return _found(
        mark_queues(rows, "queue", trimmed, "trimmed"),
        _finding("broken", broken, detail),
        _finding("illegal", ~is_legal(), _step()),
        *_lease_findings(),
    )


def _lease_findings() -> tuple[Column, ...]:
    act, before, token = F.col("act"), F.col("entry_before"), F.col("lease_token")
    claims = act == Act.CLAIM.value
    ends_lease = act.isin(LEASEHOLDER_ACTS) | (
        (act == Act.CANCEL.value) & (F.col("comes_from") == State.PROCESSING.value)
    )
    attempts_before = (
        F.when(before["act"].isin(STARTING_ACTS), 0)
        .when(before["act"].isin(RETURNING_ACTS), before["attempt"] - 1)
        .otherwise(before["attempt"])
    )
    tokens = F.format_string("%s under token %d, claimed under %d", act, F.col("token"), token)
    counted = F.format_string("attempt %d after %d", F.col("attempt"), attempts_before)
    kind = F.concat(before["kind"], F.lit(", then "), F.col("kind"))
    return (
        _finding("stale_settle", ends_lease & (F.col("token") != token), tokens),
        _finding("token_not_growing", claims & (F.col("token") <= token), tokens),
        _finding("attempts_jump", claims & (F.col("attempt") != attempts_before + 1), counted),
        _finding("kind_changed", ~starts_run() & (before["kind"] != F.col("kind")), kind),
    )


def run_findings(steps: DataFrame, jobs: DataFrame, job_limits: JobLimits) -> DataFrame:
    """`ended_twice`: several ends in one life. `delivered_too_often`: too many deliveries.

    An edit of a finished job is not an end. Deliveries are counted only for jobs that are kept,
    since they were enqueued or moved in: an earlier job with that id may have had other limits.
    """
    was_over = F.col("comes_from").isin(TERMINAL_STATES)
    is_end = F.col("leads_to").isin(TERMINAL_STATES) & ~was_over & ~is_arrival()
    lives = (
        steps.groupBy(*JOB_KEY, "life")
        .agg(
            F.count_if(is_end).alias("ends"),
            F.max(F.when(is_end, F.col("place"))).alias("ended"),
            F.max_by(F.struct("deliveries", "place"), "deliveries").alias("most"),
            F.min_by("at", "place").alias("began"),
            F.max(F.when(is_arrival(), F.col("attempt"))).alias("arrival_attempt"),
            F.max(F.when(is_new_job(), F.col("life"))).alias("first_life"),
        )
        .withColumn("first_life", F.max("first_life").over(Window.partitionBy(*JOB_KEY)))
        .join(_attempts_of(jobs, job_limits), [*JOB_KEY], "left")
    )
    deliveries, allowed = F.col("most.deliveries"), _allowed()
    ends = F.concat(F.col("ends").cast("string"), F.lit(" ends"))
    too_many = F.format_string("%d deliveries, %d allowed", deliveries, allowed)
    return _found(
        lives,
        _finding("ended_twice", F.col("ends") > 1, ends, F.col("ended")),
        _finding("delivered_too_often", deliveries > allowed, too_many, F.col("most.place")),
    )


def _attempts_of(jobs: DataFrame, job_limits: JobLimits) -> DataFrame:
    """The `own` attempts of each job, and those of its kind or queue."""
    rows = job_limits.join(jobs.select(*JOB_KEY, "kind", "max_attempts"))
    own, others = F.col("max_attempts").alias("own"), F.col("limit.max_attempts").alias("others")
    return rows.select(*JOB_KEY, own, others, "changed")


def _allowed() -> Column:
    """How many deliveries a life may have; null if that is unknown.

    The limit of a queue applies to lives that began under it. A job that came from a queue with a
    higher limit has one more delivery.
    """
    is_its_own = F.col("life") >= F.coalesce("first_life", F.lit(0))
    began_under_it = (F.col("life") > 0) & settings_known(F.col("began"))
    others = F.greatest("others", F.col("arrival_attempt") + 1)
    allowed = F.coalesce(F.col("own"), F.when(began_under_it, others))
    return F.when(is_its_own, allowed)


def final_state_findings(
    last: DataFrame, jobs: DataFrame, job_limits: JobLimits, trimmed: Collection[str] = ()
) -> DataFrame:
    """The state in which the journal leaves a job, compared with its state in the store.

    `lost`: should be in the store, and is not. `unheard_of`: is in the store, but not in the
    journal, which is whole. `differs`: is in the store in another state.
    """
    kept = jobs.select(*JOB_KEY, F.col("state").alias("is"), F.lit(True).alias("kept"))
    both = job_limits.join(last).withColumn("recorded", F.lit(True)).join(kept, [*JOB_KEY], "full")
    in_journal, in_store = F.col("recorded").isNotNull(), F.col("kept").isNotNull()
    entry = F.struct("act", "at", "settings_at")
    must_be_kept = is_retained(F.col("state"), entry, F.col("limit.now"))
    lost = ~in_store & (F.col("state").isin(LIVE_STATE_NAMES) | must_be_kept)
    unheard_of = ~in_journal & ~F.col("trimmed")
    differs = in_journal & in_store & ~F.col("state").eqNullSafe(F.col("is"))
    is_in = F.concat(F.lit("is "), F.col("is"))
    return _found(
        mark_queues(both, "queue", trimmed, "trimmed"),
        _finding("lost", lost, F.concat(F.lit("last recorded as "), F.col("state"))),
        _finding("unheard_of", unheard_of, is_in),
        _finding("differs", differs, F.concat(is_in, F.lit(", should be "), _state("state"))),
    )


def without_transient(found: DataFrame, since: DataFrame) -> DataFrame:
    """Leave out findings that the events since then may explain.

    A finding that depends on the stored job is left out only if its id may have gone to another
    job since: a job that is delivered without end has new events all the time.
    """
    # When the jobs of a queue are purged, the attempts that were recorded for them go, too.
    may_be_another = is_new_job() | (F.col("act") == Act.PURGE.value)
    gone_on = since.groupBy(*JOB_KEY).agg(F.bool_or(may_be_another).alias("another"))
    found, gone_on = found.alias("found"), gone_on.alias("gone_on")
    of_two = F.col("found.finding").isin(list(MOVE_FINDINGS))
    same = [F.col(f"found.{name}") == F.col(f"gone_on.{name}") for name in ("tenant", "id")]
    here = of_two | (F.col("found.queue") == F.col("gone_on.queue"))
    of_this_moment = F.col("found.finding").isin(list(TRANSIENT_FINDINGS))
    of_another = F.col("gone_on.another") & F.col("found.finding").isin(list(STORED_JOB_FINDINGS))
    return found.join(gone_on, [*same, here, of_this_moment | of_another], "left_anti")


def move_findings(events: DataFrame, unseen: Collection[str] = ()) -> DataFrame:
    """`moved_nowhere`: departures without an arrival. `moved_from_nowhere`: the reverse.

    A half that is missing is no finding if not all events of its queue were seen.
    """
    more_left = F.col("departures") > F.col("arrivals")
    more_came = F.col("arrivals") > F.col("departures")
    moves = count_moves(events).withColumn(
        "queue", F.when(more_left, F.col("left")).otherwise(F.col("entered"))
    )
    for end in ("left", "entered"):
        # An entry that names no queue counts as seen.
        moves = mark_queues(moves, end, unseen, f"{end}_unseen")
    nowhere, from_nowhere = more_left & ~F.col("entered_unseen"), more_came & ~F.col("left_unseen")
    return _found(
        moves,
        _finding("moved_nowhere", nowhere, _both_halves(), F.col("departed")),
        _finding("moved_from_nowhere", from_nowhere, _both_halves(), F.col("arrived")),
    )


def _both_halves() -> Column:
    left, entered = (F.coalesce(name, F.lit("an unnamed queue")) for name in ("left", "entered"))
    counts = F.col("departures"), F.col("arrivals")
    template = "%s, attempt %d: departures from %s %d, arrivals in %s %d"
    return F.format_string(template, "state", "attempt", left, counts[0], entered, counts[1])


def _finding(name: str, wrong: Column, detail: Column, place: Column | None = None) -> Column:
    """The finding about a row if it is wrong; null if it is not."""
    at = F.col("place") if place is None else place
    fields = (F.lit(name).alias("finding"), at.alias("place"), detail.alias("detail"))
    return F.when(wrong, F.struct(*fields))


def _found(rows: DataFrame, *findings: Column) -> DataFrame:
    """The findings on some rows, in one pass over them."""
    found = F.explode(F.array_compact(F.array(*findings))).alias("found")
    columns = ("found.finding", *JOB_KEY, "found.place", "found.detail")
    return rows.select(*JOB_KEY, found).select(*columns)


def _state(column: str) -> Column:
    state = F.col(column)
    return F.when(state.isNull() | (state == ABSENT), "not there").otherwise(state)


def _step() -> Column:
    parts = [
        F.col("act"),
        F.lit(": from "),
        _state("comes_from"),
        F.lit(" to "),
        _state("leads_to"),
    ]
    return F.concat(*parts)
