"""The audit of long journals finds every fault that was put in, and nothing else."""

from __future__ import annotations

from functools import partial

import pyarrow
import pyarrow.parquet
import pytest

from ackline.job import QueueKey
from ackline.spark.audit.limits import LIMITS
from ackline.spark.events.rows import events_batch
from ackline.spark.pipelines.audit import MEANINGS, findings
from ackline.spark.rows import jobs_batch, moment
from tests.spark.generating import ATTEMPTS, START, live, spoil

PIECE = 100_000
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
    read = spark.read.parquet
    queues = [path.stem for path in (folder / "jobs").iterdir()]
    # Nothing that has failed or was cancelled is past its retention.
    terms = (None, ATTEMPTS, YEARS, YEARS, moment(START + YEARS / 2))
    limits = spark.createDataFrame([("default", queue, *terms) for queue in queues], LIMITS)
    found = findings(read(f"{folder}/events"), read(f"{folder}/jobs"), limits)
    return {(row["finding"], row["id"]) for row in found.collect()}


def make(folder, shards, jobs, each):
    """Answers how many events there are, and what must be found in them."""
    expected, events = set(), 0
    for number in range(shards):
        shard, faults = spoil(live(number, jobs), each, seed=number)
        write(shard, folder)
        expected |= faults
        events += len(shard.events)
    return events, expected


def test_of_a_few_thousand_events(spark, tmp_path):
    events, expected = make(tmp_path, shards=2, jobs=1000, each=3)

    assert events > 6000
    assert {finding for finding, _ in expected} == MEANINGS.keys()
    assert audit(spark, tmp_path) == expected


def test_of_a_true_journal_nothing_is_found(spark, tmp_path):
    """The control."""
    _, expected = make(tmp_path, shards=1, jobs=500, each=0)

    assert expected == set()
    assert audit(spark, tmp_path) == set()


@pytest.mark.slow
def test_of_five_million_events(spark, tmp_path):
    events, expected = make(tmp_path, shards=32, jobs=50_000, each=10)

    assert events >= 5_000_000
    assert audit(spark, tmp_path) == expected
