"""The audit of long journals finds every fault that was put in, and nothing else."""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial, reduce
from multiprocessing import get_context

import pyarrow
import pyarrow.parquet
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from tests.spark.support.event_lake import lose
from tests.spark.support.generated_journals import (
    ATTEMPTS,
    RESULTS_KEPT,
    events_of,
    live,
    live_in,
    names_of,
    spoil,
)

import ackline
from ackline.core.clock import ManualClock
from ackline.core.events import Act
from ackline.core.job import QueueKey, State
from ackline.queues import Queues
from ackline.spark.audit.findings import FINDINGS, findings
from ackline.spark.audit.run import run_audit
from ackline.spark.lake.lake import Lake
from ackline.spark.lake.running import Asked, Run
from ackline.spark.tables.event_rows import events_batch
from ackline.spark.tables.job_rows import jobs_batch
from ackline.spark.transforms import traffic
from ackline.spark.transforms.job_runs import timed_steps
from ackline.spark.transforms.sketches import QUANTILES
from ackline.spark.transforms.utc import day_of
from ackline.stores.registry import store_from_url

PIECE = 100_000
HOUR = 3600
YEARS = 5 * 365 * 86_400.0


def write(shard, folder):
    """A shard as files, as a lake and an export have them."""
    write_rows(shard.events, events_batch, folder / "events" / f"{shard.queue}.parquet")
    for queue, jobs in shard.jobs.items():
        batch = partial(jobs_batch, QueueKey("default", queue))
        write_rows(jobs, batch, folder / "jobs" / f"{queue}.parquet")


def write_rows(rows, batch, path):
    path.parent.mkdir(exist_ok=True)
    pieces = [batch(rows[start : start + PIECE]) for start in range(0, len(rows), PIECE)]
    pyarrow.parquet.write_table(pyarrow.Table.from_batches(pieces), path)


def audit(spark, folder):
    events, jobs = (spark.read.parquet(f"{folder}/{table}") for table in ("events", "jobs"))
    found = findings(events, jobs, limits_of(events), result_ttl=RESULTS_KEPT)
    return {(row["finding"], row["id"]) for row in found.collect()}


def limits_of(events):
    """As they are when the last event of a queue has happened."""
    # Nothing that has failed or was cancelled is past its retention.
    limits = {"max_attempts": ATTEMPTS, "keep_failed": YEARS, "keep_cancelled": YEARS}
    columns = {name: F.lit(value) for name, value in limits.items()}
    now = events.groupBy("tenant", "queue").agg(F.max("at").alias("now"))
    return now.withColumns({"kind": F.lit(None).cast("string"), **columns})


def make(folder, shards, jobs, each, every=map):
    """Answers how many events there are, and what must be found in them."""
    made = [*every(partial(make_one, folder, jobs, each), range(shards))]
    return sum(events for events, _ in made), set().union(*(faults for _, faults in made))


def make_one(folder, jobs, each, number):
    shard, faults = spoil(live(number, jobs), each, seed=number)
    write(shard, folder)
    return len(shard.events), faults


def test_of_a_few_thousand_events(spark, tmp_path):
    events, expected = make(tmp_path, shards=2, jobs=1000, each=3)

    assert events > 6000
    assert {finding for finding, _ in expected} == FINDINGS.keys()
    assert audit(spark, tmp_path) == expected


def test_of_a_true_journal_nothing_is_found(spark, tmp_path):
    """The control."""
    _, expected = make(tmp_path, shards=1, jobs=500, each=0)

    assert expected == set()
    assert audit(spark, tmp_path) == set()


@pytest.fixture(scope="module")
def five_million(tmp_path_factory):
    """Where they are, and what must be found in them."""
    folder = tmp_path_factory.mktemp("five-million")
    # Not by a fork: this process may have a Spark.
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as processes:
        events, expected = make(folder, shards=32, jobs=50_000, each=10, every=processes.map)
    assert events >= 5_000_000
    return folder, expected


@pytest.mark.slow
def test_of_five_million_events(spark, five_million):
    folder, expected = five_million

    assert audit(spark, folder) == expected


@pytest.mark.slow
def test_quantiles_of_five_million_events_are_within_one_percent_of_rank(spark, five_million):
    """Added up from batches to hours, and from hours to days, as gold is."""
    folder, _ = five_million
    steps = measured(spark.read.parquet(f"{folder}/events")).cache()
    hourly = traffic.merge(parts_of_batches(steps), ("day", "hour", *traffic.GROUP_KEY)).cache()
    # Now: Spark waits five minutes at most for a table that it broadcasts.
    hourly.count()

    worst = {by: worst_rank(steps, hourly, by) for by in (("day", *traffic.GROUP_KEY), ("day",))}

    print(f"the worst errors of rank: {worst}")
    assert max(worst.values()) < 0.01
    # The control: if these were the quantiles of something else, it would be seen.
    swapped = hourly.withColumns({"wait": F.col("run"), "run": F.col("wait")})
    assert worst_rank(steps, swapped, ("day",)) > 0.01
    for kept in (steps, hourly):
        kept.unpersist()


def measured(events):
    """Steps with their day, and only what gold is made of."""
    steps = timed_steps(events).withColumn("day", day_of("at"))
    figures = ("act", "to", "comes_from", "before_act", "since", "age", "deliveries")
    return steps.select("day", "at", *traffic.GROUP_KEY, *figures)


def parts_of_batches(steps):
    batches = [steps.where(F.pmod(F.hash("queue"), F.lit(4)) == number) for number in range(4)]
    return reduce(DataFrame.unionByName, map(traffic.partial, batches))


def worst_rank(steps, hourly, by):
    """By how much the rank of any quantile is wrong, of all groups."""
    figures = traffic.finalize(traffic.merge(hourly, by), by)
    names = [(name, ending) for name in traffic.MEASURES for ending in QUANTILES]
    known = steps.select(
        *by, *(measure().alias(name) for name, measure in traffic.MEASURES.items())
    )
    errors = known.join(F.broadcast(figures), [*by]).groupBy(*by).agg(*map(rank_error, names))
    row = errors.agg(*(F.max("_".join(name)) for name in names)).first()
    return max(error for error in row if error is not None)


def rank_error(name):
    """How far a rank is from those that the value has; there are many that are equal."""
    measure, ending = name
    rank, value = QUANTILES[ending], F.col("_".join(name))
    below = F.avg((F.col(measure) < value).cast("int"))
    up_to = F.avg((F.col(measure) <= value).cast("int"))
    return F.greatest(below - rank, rank - up_to, F.lit(0.0)).alias("_".join(name))


@pytest.fixture
def store_of_a_million(tmp_path):
    """A SQLite store in which four queues have lived until some hours ago."""
    url = f"sqlite:///{tmp_path}/jobs.db?durability=normal"
    for number in range(4):
        clock = ManualClock(time.time() - 6 * HOUR)
        store = store_from_url(url, clock)
        store.open()
        with Queues(store) as queues:
            # From the beginning: an end before a change of settings is not judged.
            for name in names_of(number):
                queues[name].configure(keep_journal=HOUR)
            live_in(queues, clock, number, 82_000)
    return url


@pytest.mark.slow
def test_through_a_lake_when_the_store_has_nothing_left_of_a_million(
    spark, store_of_a_million, tmp_path
):
    url = store_of_a_million
    options = Asked(url=url, tenant="default", lake=f"{tmp_path}/lake", events_per_batch=300_000)
    with ackline.open(url) as queues:
        happened = sum(1 for name in queues for _ in events_of(queues[name]))
        ran = Run(spark, queues, options).to_now()
        lost = {id for name in queues for id in some_of(queues[name])}
        for name in queues:
            prune(queues[name])
        lose(url, lost)
        began = time.monotonic()

        found = run_audit(spark, url, queues, lake=Lake(options.lake), result_ttl=RESULTS_KEPT)

    took = time.monotonic() - began
    print(f"{ran.events:,} events: {ran.seconds:.0f} s into the lake, audited in {took:.0f} s")
    assert ran.events == happened >= 1_000_000
    assert found.gaps == ()
    assert {(row["finding"], row["id"]) for row in found.findings} == {("lost", id) for id in lost}


def prune(queue):
    """Jobs and entries that are old enough: only what is told of it is left in the journal."""
    while queue.store.prune(queue.key, 10_000):
        pass
    assert {event.act for event in queue.events()} <= {Act.PRUNE}


def some_of(queue):
    """Jobs that must be there: some that wait, and some that have failed or were cancelled."""
    # Of one that came from elsewhere when it had ended, nobody knows for how long it is kept.
    came = {event.id for event in queue.events() if event.act is Act.MOVE}
    for state in (State.QUEUED, State.FAILED, State.CANCELLED):
        found = queue.jobs(states=[state], limit=50).jobs
        yield from [job.id for job in found if job.id not in came][:5]
