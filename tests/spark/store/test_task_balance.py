"""Queues share tasks: about as many as are asked for, however many queues there are."""

from __future__ import annotations

import json
import pickle
from collections import Counter

import pytest
from tests.spark.support.query_options import read_options
from tests.spark.support.simulated_driver import Checkpoint, Died, Driver

import ackline
from ackline.spark.store.task_balance import balance
from ackline.spark.streams.events.stream_reader import EventsStreamReader
from ackline.spark.tables.events import EventsTableReader
from ackline.spark.tables.jobs import JobsTableReader

MANY = 30
TASKS = 4


@pytest.fixture
def many(queues):
    for number in range(MANY):
        queues[f"queue {number}"].enqueue(1, id="one")
    return queues


def make_reader(kind, address, role="read", **more):
    table = "jobs" if kind is JobsTableReader else "events"
    values = {"store": "x", "table": table, "partitions": str(TASKS), "wait": "0", **more}
    if kind is JobsTableReader:
        del values["wait"]
    return kind(read_options(role, values), address)


def rows_of(reader, parts):
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


def test_groups_have_about_as_much_to_do():
    sizes = {"large": 500, **{f"small {number}": 5 for number in range(100)}}

    groups = balance(sizes, 4)

    assert groups[0] == ["large"]
    assert sorted(map(len, groups[1:])) == [33, 33, 34]
    assert sorted(item for group in groups for item in group) == sorted(sizes)


def test_nothing_is_no_group_and_few_are_one_each():
    assert balance({}, 4) == []
    assert balance({"a": 0, "b": 9}, 4) == [["b"], ["a"]]


def test_small_queues_share_the_tasks_of_jobs(many, address):
    reader = make_reader(JobsTableReader, address)

    *parts, rest = reader.partitions()

    assert [len(rows_of(reader, [part])) for part in parts] == [8, 8, 7, 7]
    assert rows_of(reader, [rest]) == []


@pytest.mark.parametrize("start", ["oldest", "0.0"])
def test_small_queues_share_the_tasks_of_events(start, many, address):
    reader = make_reader(EventsTableReader, address, start=start)

    parts = reader.partitions()

    assert [len(rows_of(reader, [part])) for part in parts] == [8, 8, 7, 7]
    assert len({row["queue"] for row in rows_of(reader, parts)}) == MANY


@pytest.mark.parametrize("kind", [JobsTableReader, EventsTableReader])
def test_a_task_opens_the_store_once(kind, many, address, monkeypatch):
    reader, opened, connect = make_reader(kind, address), [], address.connect
    part = reader.partitions()[0]

    def recording():
        opened.append(connect())
        return opened[-1]

    monkeypatch.setattr(address, "connect", recording)

    assert len(rows_of(reader, [part])) == 8
    assert len(opened) == 1


def test_a_large_queue_among_small_ones_is_read_by_several_tasks(many, address, clock):
    for number in range(100):
        clock.advance(1)
        many["large"].enqueue(number, id=str(number))
    reader = make_reader(EventsTableReader, address)

    parts = reader.partitions()

    shares = [Counter(row["queue"] for row in rows_of(reader, [part])) for part in parts]
    assert len(shares) == TASKS
    assert min(share["large"] for share in shares) >= 10
    ids = [row["id"] for row in rows_of(reader, parts) if row["queue"] == "large"]
    assert sorted(ids, key=int) == [str(number) for number in range(100)]


def test_few_events_have_no_more_tasks_than_events(queues, address):
    queues["a"].enqueue(1)
    queues["b"].enqueue(1)

    assert len(make_reader(EventsTableReader, address, partitions="8").partitions()) == 2


def test_a_micro_batch_has_as_many_tasks_as_are_asked_for_and_the_same_again(many, address):
    checkpoint = Checkpoint()
    with pytest.raises(Died):
        Driver(make_reader(EventsStreamReader, address, "readStream"), checkpoint).trigger(
            "planned"
        )
    end = json.loads(checkpoint.offsets[0])
    plans = []
    for _ in range(2):
        reader = make_reader(EventsStreamReader, address, "readStream")
        plans.append(reader.partitions(reader.initialOffset(), end))

    Driver(reader, checkpoint).run()

    assert [len(plan) for plan in plans] == [TASKS, TASKS]
    assert pickle.dumps(plans[0]) == pickle.dumps(plans[1])
    assert Counter(row["queue"] for row in checkpoint.rows) == {
        f"queue {number}": 1 for number in range(MANY)
    }


def test_spark_has_few_tasks_for_hundreds_of_queues(spark, sqlite_url, tmp_path):
    with ackline.open(sqlite_url) as queues:
        for number in range(300):
            queues[f"queue {number}"].enqueue(1)
    values = {"store": sqlite_url, "partitions": "3"}
    tasks, rows = [], []

    def sink(frame, batch):
        tasks.append(frame.rdd.getNumPartitions())
        rows.append(frame.count())

    for table in ("jobs", "events"):
        sink(spark.read.format("ackline").options(**values).load(table), 0)
    stream = spark.readStream.format("ackline").options(**values).load("events").writeStream
    stream = stream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "checkpoint"))
    stream.trigger(availableNow=True).start().awaitTermination()

    assert tasks == [4, 3, 3]
    assert rows == [300, 300, 300]
