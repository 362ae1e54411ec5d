"""Spark itself finds the format, reads and writes it on every store, and calls in this order."""

from __future__ import annotations

from pathlib import Path

import pytest

import ackline
from ackline.core.job import State
from ackline.spark.data_source import AcklineSource
from ackline.spark.store.address import resolve_address
from ackline.spark.streams.claims.stream_reader import ClaimsStreamReader
from tests.spark.support.query_options import read_options
from tests.spark.support.simulated_driver import Checkpoint, Driver

pytestmark = pytest.mark.ci


@pytest.fixture
def read(spark, url):
    def call(table, **options):
        return spark.read.format("ackline").option("store", url).options(**options).load(table)

    return call


@pytest.fixture
def stream(spark, url):
    def call(table, source="ackline", **options):
        return spark.readStream.format(source).option("store", url).options(**options).load(table)

    return call


def run(frame, checkpoint, lake):
    """Everything that is there now into a lake of which each micro-batch has a path of its own."""

    def sink(batch, number):
        batch.write.mode("overwrite").parquet(f"{lake}/batch_id={number}")

    query = (
        frame.writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


@pytest.mark.parametrize("store_name", ["redis", pytest.param("postgres", marks=pytest.mark.slow)])
def test_from_rows_to_jobs_to_a_lake(spark, url, read, stream, tmp_path):
    rows = spark.range(100).selectExpr(
        "concat('j', id) as id",
        "cast(id % 10 as int) as priority",
        "to_json(struct(id)) as payload",
    )
    for _ in range(2):
        writing = rows.write.format("ackline").option("store", url).option("table", "jobs")
        writing.option("queue", "email").mode("append").save()
    assert read("jobs").where("state = 'queued'").count() == 100
    assert read("jobs", states="failed,completed").count() == 0

    options = {"queue": "email", "streamId": "lake", "maxJobsPerTrigger": "60", "wait": "0"}
    run(stream("jobs", **options), tmp_path / "checkpoint", tmp_path / "lake")
    run(stream("events"), tmp_path / "events-checkpoint", tmp_path / "events")

    lake = spark.read.parquet(str(tmp_path / "lake"))
    assert (lake.count(), lake.select("id").distinct().count()) == (100, 100)
    acts = {row["act"]: row["count"] for row in _counted(spark, tmp_path / "events")}
    assert acts == {"enqueue": 100, "claim": 100, "complete": 100}
    with ackline.open(url) as queues:
        assert queues["email"].counts()[State.COMPLETED] == 100


def test_a_table_is_right_each_time_it_is_used(spark, sqlite_url):
    """Spark plans a DataFrame when it is first used, and not again."""
    read = spark.read.format("ackline").option("store", sqlite_url)
    with ackline.open(sqlite_url) as queues:
        queues["a"].enqueue_many(range(5))
        jobs, events = read.load("jobs"), read.load("events")
        assert (jobs.count(), events.count()) == (5, 5)

        for job in queues["a"].claim(5):
            queues["a"].complete(job)
        queues["b"].enqueue_many(range(3))

    assert jobs.count() == 8
    both = jobs.where("queue = 'a'").union(jobs.where("state = 'queued'"))
    assert both.groupBy("state").count().orderBy("state").collect() == [
        ("completed", 5),
        ("queued", 3),
    ]
    assert events.count() == 5
    assert read.load("events").count() == 18


def _counted(spark, path):
    return spark.read.parquet(str(path)).groupBy("act").count().collect()


class NotingReader(ClaimsStreamReader):
    """Notes what Spark calls."""

    def note(self, method):
        with Path(self.options.stream_id).open("a") as file:
            file.write(f"{method}\n")

    def initialOffset(self):  # noqa: N802
        self.note("initialOffset")
        return super().initialOffset()

    def prepareForTriggerAvailableNow(self):  # noqa: N802
        self.note("prepareForTriggerAvailableNow")
        super().prepareForTriggerAvailableNow()

    def latestOffset(self, start, limit):  # noqa: N802
        self.note("latestOffset")
        return super().latestOffset(start, limit)

    def partitions(self, start, end):
        self.note("partitions")
        return super().partitions(start, end)

    def commit(self, end):
        self.note("commit")
        super().commit(end)


class NotingSource(AcklineSource):
    @classmethod
    def name(cls):
        return "noting"

    def streamReader(self, schema):  # noqa: N802
        reader = super().streamReader(schema)
        assert isinstance(reader, ClaimsStreamReader)
        return NotingReader(reader.options, reader.address)


def test_the_order_of_calls_is_the_one_that_tests_go_by(spark, sqlite_url, tmp_path):
    spark.dataSource.register(NotingSource)
    notes, model = tmp_path / "notes", tmp_path / "model"
    with ackline.open(sqlite_url) as queues:
        queues["email"].enqueue_many(range(25))
        queues["model"].enqueue_many(range(25))

    def options(queue, stream):
        return {"queue": queue, "streamId": str(stream), "maxJobsPerTrigger": "10", "wait": "0"}

    frame = spark.readStream.format("noting").option("store", sqlite_url)
    run(
        frame.options(**options("email", notes)).load("jobs"),
        tmp_path / "checkpoint",
        tmp_path / "lake",
    )
    values = {"store": sqlite_url, "table": "jobs", **options("model", model)}
    parsed = read_options("readStream", values)
    driver = Driver(NotingReader(parsed, resolve_address(parsed)), Checkpoint(), now=True)
    driver.run()
    driver.reader.stop()

    assert notes.read_text().split() == model.read_text().split()


@pytest.mark.parametrize("store_name", ["redis"])
def test_a_mistake_is_told_in_a_sentence(spark, read):
    with pytest.raises(Exception, match="pageSize"):
        read("jobs", pagSize="1").count()
