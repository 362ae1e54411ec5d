"""Jobs, the DLQ and the journal as tables: readers without Spark, on every store."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, In, InputPartition, LessThan, Not

from ackline.errors import EventsDropped
from ackline.events import Act
from ackline.spark import schemas
from ackline.spark.events import EventsReader, PushingEventsReader
from ackline.spark.jobs import JobsReader, PushingJobsReader, next_size
from tests.spark.asking import read_options

ROWS = {"jobs": JobsReader, "dlq": JobsReader, "events": EventsReader}


@pytest.fixture
def read(place):
    def call(table, **options):
        asked = read_options("read", {"store": "x", "table": table, **options})
        return rows_of(ROWS[table](asked, place))

    return call


def rows_of(reader):
    rows = []
    for part in reader.partitions():
        carried = pickle.loads(pickle.dumps(part))
        for batch in reader.read(carried):
            name = "events" if isinstance(reader, EventsReader) else "jobs"
            assert batch.schema.equals(schemas.arrow(name))
            rows += batch.to_pylist()
    return rows


def test_jobs_of_all_queues_and_states(queues, read):
    queues["a"].enqueue({"n": 1}, id="1", kind="k", priority=9, group="g", headers={"h": "v"})
    queues["a"].enqueue(None, id="2", delay=60)
    queues["b"].enqueue("x", id="3")
    job = queues["b"].claim(1)[0]
    queues["b"].bury(job, ValueError("no"))

    rows = {row["id"]: row for row in read("jobs")}

    assert {id: row["state"] for id, row in rows.items()} == {
        "1": "queued",
        "2": "scheduled",
        "3": "failed",
    }
    assert rows["1"]["payload"] == b'{"n":1}'
    assert (rows["1"]["kind"], rows["1"]["priority"], rows["1"]["group"]) == ("k", 9, "g")
    assert dict(rows["1"]["headers"]) == {"h": "v"}
    assert (rows["3"]["error_type"], rows["3"]["error_message"]) == ("ValueError", "no")


def test_the_dlq_has_only_what_failed(queues, read):
    queues["a"].enqueue(1, id="1")
    queues["a"].bury(queues["a"].claim(1)[0], "no")
    queues["a"].enqueue(2, id="2")

    assert [row["id"] for row in read("dlq")] == ["1"]


def test_pages_are_small_and_all_are_read(queues, read):
    queues["a"].enqueue_many(range(25))

    assert len({row["id"] for row in read("jobs", pageSize="4")}) == 25


def test_large_payloads_make_smaller_pages(queues):
    queues["a"].enqueue("x" * 900_000, id="1")
    job = queues.store.get(queues["a"].key, ["1"])

    assert next_size(1000, job * 20, 1000) == 500
    assert next_size(1, job * 20, 1000) == 1
    assert next_size(500, job, 1000) == 1000


def test_other_tenants_are_not_seen(queues, read, connect):
    other = connect()
    other.tenant = "acme"
    other["a"].enqueue(1, id="theirs")
    queues["a"].enqueue(1, id="ours")

    assert [row["id"] for row in read("jobs")] == ["ours"]
    assert [row["id"] for row in read("events")] == ["ours"]


def test_filters_are_left_to_the_store(queues, place, clock):
    queues["a"].enqueue(1, id="old", kind="k")
    clock.advance(100)
    queues["a"].enqueue(1, id="new", kind="k")
    queues["a"].enqueue(1, id="other", kind="l")
    queues["b"].enqueue(1, id="elsewhere", kind="k")
    reader = PushingJobsReader(read_options("read", {"store": "x", "table": "jobs"}), place)
    since = GreaterThan(("created_at",), datetime.fromtimestamp(clock.now() - 50, UTC))
    unknown = Not(EqualTo(("kind",), "l"))

    left = reader.pushFilters(
        [
            EqualTo(("queue",), "a"),
            In(("state",), ("queued", "failed")),
            EqualTo(("kind",), "k"),
            since,
            LessThan(("created_at",), datetime.fromtimestamp(clock.now() + 1, UTC)),
            unknown,
        ]
    )

    assert [row["id"] for row in rows_of(reader)] == ["new"]
    assert left[0] is since
    assert left[-1] is unknown
    assert len(reader.partitions()) == 1


def test_a_reader_that_cannot_push_does_not_offer_to():
    """Spark refuses a reader that has `pushFilters` unless it is set to push."""
    assert "pushFilters" not in vars(JobsReader)
    assert "pushFilters" not in vars(EventsReader)


def test_events_in_order_and_in_stretches(queues, read, place):
    for number in range(40):
        queues["a"].enqueue(number, id=str(number))
    queues["b"].enqueue(1, id="b")

    rows = read("events", partitions="8", pageSize="3")

    mine = [row for row in rows if row["queue"] == "a"]
    assert [row["id"] for row in mine] == [str(number) for number in range(40)]
    assert [row["place"] for row in mine] == sorted(row["place"] for row in mine)
    assert len(rows) == 41
    asked = read_options("read", {"store": "x", "table": "events", "partitions": "8"})
    assert len(EventsReader(asked, place).partitions()) >= 4


def test_events_behind_a_cursor(queues, read):
    queues["a"].enqueue(1, id="1")
    cursor = next(iter(queues["a"].events())).cursor
    queues["a"].enqueue(2, id="2")

    assert [row["id"] for row in read("events", start=cursor)] == ["2"]
    assert read("events", start="now") == []


def test_one_large_batch_of_events_is_read_in_pages(queues, read):
    queues["a"].enqueue_many(range(500))

    rows = read("events", pageSize="7")

    assert len(rows) == 500
    assert {row["act"] for row in rows} == {Act.ENQUEUE}


def test_an_empty_store_has_no_rows(read, place):
    assert read("jobs") == []
    assert read("events") == []
    asked = read_options("read", {"store": "x", "table": "jobs"})
    assert list(JobsReader(asked, place).read(InputPartition(None))) == []


def test_events_that_are_dropped_while_they_are_read_are_missed_loudly(queues, place):
    queue = queues["a"]
    queue.configure(max_journal=1)
    for number in range(5):
        queue.enqueue(number)
    reader = EventsReader(read_options("read", {"store": "x", "table": "events"}), place)
    parts = reader.partitions()

    queues.store.prune(queue.key, 100)

    with pytest.raises(EventsDropped):
        [row for part in parts for row in reader.read(part)]


def test_pushed_queues_plan_no_others(queues, place):
    queues["a"].enqueue(1)
    queues["b"].enqueue(1)
    reader = PushingEventsReader(read_options("read", {"store": "x", "table": "events"}), place)

    assert reader.pushFilters([EqualTo(("queue",), "b")]) == []

    assert {row["queue"] for row in rows_of(reader)} == {"b"}
