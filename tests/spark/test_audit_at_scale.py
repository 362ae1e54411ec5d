"""The audit of long journals finds every fault that was put in, and nothing else."""

from __future__ import annotations

import pyarrow
import pyarrow.parquet
import pytest

from ackline.job import QueueKey
from ackline.spark.audit.limits import LIMITS
from ackline.spark.events.rows import events_batch
from ackline.spark.pipelines.audit import MEANINGS, findings
from ackline.spark.rows import jobs_batch, moment
from tests.spark.generating import ATTEMPTS, live, spoil

PIECE = 100_000


def write(shard, folder):
    """A shard as two files, as a lake and an export have them."""
    key = QueueKey("default", shard.queue)
    for name, rows, batch in (
        ("events", shard.events, events_batch),
        ("jobs", shard.jobs, lambda some: jobs_batch(key, some)),
    ):
        (folder / name).mkdir(exist_ok=True)
        pieces = [batch(rows[start : start + PIECE]) for start in range(0, len(rows), PIECE)]
        table = pyarrow.Table.from_batches(pieces)
        pyarrow.parquet.write_table(table, folder / name / f"{shard.queue}.parquet")


def audit(spark, folder):
    read = spark.read.parquet
    begin = moment(0.0)
    queues = [path.stem for path in (folder / "events").iterdir()]
    limits = spark.createDataFrame(
        [("default", queue, None, ATTEMPTS, begin, begin) for queue in queues], LIMITS
    )
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
