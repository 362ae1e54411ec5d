"""Jobs, the DLQ and the journal as tables: readers without Spark, on every store."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import DataSourceReader, InputPartition
from tests.spark.support.query_options import read_options

from ackline.core.config import DEFAULTS
from ackline.core.errors import ConfigError, EventsDropped
from ackline.core.events import Act, make_cursor, read_cursor
from ackline.core.lifecycle import cancel_running
from ackline.queue.job import record_of
from ackline.spark import schemas
from ackline.spark.tables import events as events
from ackline.spark.tables import jobs
from ackline.spark.tables.events import EventsTableReader
from ackline.spark.tables.job_rows import timestamp_array
from ackline.spark.tables.jobs import JobsTableReader

ROWS = {"jobs": JobsTableReader, "dlq": JobsTableReader, "events": EventsTableReader}


@pytest.fixture
def read(address):
    return lambda table, **options: rows_of(reader(address, table, **options))


def reader(address, table, **options):
    return ROWS[table](read_options("read", {"store": "x", "table": table, **options}), address)


def rows_of(reader, parts=None):
    name = "events" if isinstance(reader, EventsTableReader) else "jobs"
    rows = []
    for batch in batches_of(reader, parts):
        assert batch.schema.equals(schemas.arrow_schema(name))
        rows += batch.to_pylist()
    return rows


def batches_of(reader, parts=None):
    for part in parts or reader.partitions():
        yield from reader.read(pickle.loads(pickle.dumps(part)))


@pytest.mark.every_store
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


def test_only_the_columns_that_are_asked_for_go_to_spark(queues, address):
    queues["a"].enqueue("large", id="1")

    [batch] = batches_of(reader(address, "jobs", columns="state, queue,id"))

    assert batch.to_pylist() == [{"queue": "a", "id": "1", "state": "queued"}]


def test_a_time_that_never_comes_is_null():
    assert timestamp_array([float("inf"), None, float("nan"), 1.5]).to_pylist() == [
        *(None, None, None),
        datetime.fromtimestamp(1.5, UTC),
    ]


def test_the_dlq_has_only_what_failed(queues, read):
    queues["a"].enqueue(1, id="1")
    queues["a"].bury(queues["a"].claim(1)[0], "no")
    queues["a"].enqueue(2, id="2")

    assert [row["id"] for row in read("dlq")] == ["1"]


@pytest.mark.every_store
def test_pages_are_small_and_all_are_read(queues, read):
    queues["a"].enqueue_many(range(25))

    assert len({row["id"] for row in read("jobs", pageSize="4")}) == 25


@pytest.mark.parametrize("large", ["payload", "result"])
def test_pages_are_small_where_jobs_are_large(large, queues, address, monkeypatch):
    monkeypatch.setattr(jobs, "PAGE_BYTES", 4 << 20)
    queue = queues["a"]
    text = "x" * 900_000
    queue.enqueue_many([text if large == "payload" else ""] * 30)
    if large == "result":
        for job in queue.claim(30):
            queue.complete(job, text)

    batches = list(batches_of(reader(address, "jobs")))

    assert sum(batch.num_rows for batch in batches) == 30
    assert max(batch.nbytes for batch in batches) < 5 << 20


def test_pages_are_small_where_jobs_grow_suddenly(queues, address, monkeypatch):
    monkeypatch.setattr(jobs, "PAGE_BYTES", 1 << 20)
    queues["a"].enqueue_many(["x"] * 300 + ["x" * 50_000] * 200)

    batches = list(batches_of(reader(address, "jobs")))

    assert sum(batch.num_rows for batch in batches) == 500
    assert max(batch.nbytes for batch in batches) < 2 << 20


def test_pages_are_small_where_events_are_large(queues, address, monkeypatch):
    monkeypatch.setattr(events, "PAGE_BYTES", 1 << 20)
    queue = queues["a"]
    queue.enqueue_many(range(1500))
    for _ in range(3):
        claimed = map(record_of, queue.claim(500))
        queues.store.apply(
            queue.key, [cancel_running(job, "x" * 10_000, DEFAULTS) for job in claimed]
        )

    batches = list(batches_of(reader(address, "events", partitions="1")))

    assert sum(batch.num_rows for batch in batches) == 4500
    # It cannot know of the first large ones before they come.
    assert sorted(batch.nbytes for batch in batches)[-2] < 2 << 20


def test_pages_of_small_events_grow(queues, address):
    queues["a"].enqueue_many(range(7000))

    batches = batches_of(reader(address, "events", partitions="1"))

    assert [batch.num_rows for batch in batches] == [1000, 4000, 2000]


def test_pages_of_small_jobs_grow(queues, address):
    queues["a"].enqueue_many(range(3000))

    sizes = [batch.num_rows for batch in batches_of(reader(address, "jobs"))]

    assert sizes == [16, 64, 256, 1000, 1000, 664]


def test_what_was_planned_is_read_as_it_stands_whenever_it_is_read(queues, address):
    """Spark plans a DataFrame when it is first used, and not again."""
    queues["a"].enqueue_many(range(5))
    table_reader = reader(address, "jobs")
    parts = table_reader.partitions()
    assert len(rows_of(table_reader, parts)) == 5

    for job in queues["a"].claim(5):
        queues["a"].complete(job)
    queues["b"].enqueue_many(range(3))

    states = sorted((row["queue"], row["state"]) for row in rows_of(table_reader, parts))
    assert states == [("a", "completed")] * 5 + [("b", "queued")] * 3


def test_one_queue_planned_is_one_queue_read(queues, address):
    queues["a"].enqueue(1)
    table_reader = reader(address, "jobs", queue="a")
    parts = table_reader.partitions()

    queues["b"].enqueue(1)

    assert {row["queue"] for row in rows_of(table_reader, parts)} == {"a"}


def test_events_that_were_planned_stay_the_same(queues, address):
    queues["a"].enqueue_many(range(5))
    table_reader = reader(address, "events")
    parts = table_reader.partitions()
    before = rows_of(table_reader, parts)

    queues["a"].enqueue_many(range(5))
    queues["b"].enqueue(1)

    assert rows_of(table_reader, parts) == before


def test_other_tenants_are_not_seen(queues, read, connect):
    other = connect()
    other.tenant = "acme"
    other["a"].enqueue(1, id="theirs")
    queues["a"].enqueue(1, id="ours")

    assert [row["id"] for row in read("jobs")] == ["ours"]
    assert [row["id"] for row in read("events")] == ["ours"]


@pytest.mark.every_store
def test_the_store_filters_by_what_the_options_say(queues, read, clock):
    queues["a"].enqueue(1, id="old", kind="k")
    clock.advance(100)
    now = clock.now()
    queues["a"].enqueue(1, id="new", kind="k")
    queues["a"].enqueue(1, id="later", kind="k", delay=60)
    queues["a"].enqueue(1, id="other", kind="l")
    queues["b"].enqueue(1, id="elsewhere", kind="k")
    since = datetime.fromtimestamp(now - 50, UTC)

    def ids(**options):
        return sorted(row["id"] for row in read("jobs", **options))

    values = {"queue": "a", "states": "queued, failed", "kinds": "k"}
    assert ids(**values) == ["new", "old"]
    assert ids(**values, createdAfter=since.isoformat()) == ["new"]
    assert ids(**values, createdAfter=since.replace(tzinfo=None).isoformat()) == ["new"]
    assert ids(**values, createdBefore=str(now - 50)) == ["old"]
    assert ids(states="scheduled") == ["later"]
    assert ids(kinds="l,m") == ["other"]


def test_of_events_those_come_that_the_options_ask_for(queues, read, clock):
    queue, begun = queues["a"], clock.now()
    queue.enqueue(1, id="old", kind="k")
    clock.advance(100)
    queue.enqueue(1, id="new", kind="l")
    queue.complete(queue.claim(1)[0])
    middle = datetime.fromtimestamp(clock.now(), UTC)

    def steps_of(**options):
        return [(row["act"], row["id"]) for row in read("events", **options)]

    assert steps_of(kinds="l,m") == [("enqueue", "new")]
    assert steps_of(acts="claim, complete") == [("claim", "old"), ("complete", "old")]
    assert steps_of(acts="enqueue", kinds="k") == [("enqueue", "old")]
    assert steps_of(acts="enqueue", happenedAfter=middle.isoformat()) == [("enqueue", "new")]
    assert steps_of(happenedBefore=str(begun + 100)) == [("enqueue", "old")]
    assert steps_of(happenedAfter=str(begun + 50), kinds="k", acts="claim,fail") == [
        ("claim", "old")
    ]
    assert steps_of(happenedAfter=str(begun + 200)) == []


def test_events_before_a_clock_was_set_back_do_not_hide_those_after(queues, read, clock):
    queue, begun = queues["a"], clock.now()
    queue.enqueue(1, id="early")
    clock.advance(100)
    queue.enqueue(1, id="late")
    clock.advance(-90)
    queue.enqueue(1, id="early again")

    rows = read("events", happenedBefore=str(begun + 50))

    assert [row["id"] for row in rows] == ["early", "early again"]


def test_no_reader_takes_filters_from_spark():
    """Spark would keep what one filter leaves for every later use of the DataFrame."""
    assert JobsTableReader.pushFilters is DataSourceReader.pushFilters
    assert EventsTableReader.pushFilters is DataSourceReader.pushFilters


@pytest.mark.every_store
def test_events_in_order_and_in_ranges(queues, read, address):
    for number in range(40):
        queues["a"].enqueue(number, id=str(number))
    queues["b"].enqueue(1, id="b")

    rows = read("events", partitions="8", pageSize="3")

    mine = [row for row in rows if row["queue"] == "a"]
    assert [row["id"] for row in mine] == [str(number) for number in range(40)]
    assert [row["place"] for row in mine] == sorted(row["place"] for row in mine)
    assert len(rows) == 41
    table_reader = read_options("read", {"store": "x", "table": "events", "partitions": "8"})
    assert len(EventsTableReader(table_reader, address).partitions()) >= 4


def test_events_behind_a_cursor(queues, read):
    queues["a"].enqueue(1, id="1")
    cursor = next(iter(queues["a"].events())).cursor
    queues["a"].enqueue(2, id="2")

    assert [row["id"] for row in read("events", start=cursor)] == ["2"]
    assert read("events", start="now") == []
    with pytest.raises(ConfigError, match="end"):
        read("events", start=make_cursor(1000 * read_cursor(cursor)[0], 0))


def test_one_large_batch_of_events_is_read_in_pages(queues, read):
    queues["a"].enqueue_many(range(500))

    rows = read("events", pageSize="7")

    assert len(rows) == 500
    assert {row["act"] for row in rows} == {Act.ENQUEUE}


def test_an_empty_store_has_no_rows(read, address):
    assert read("jobs") == []
    assert read("events") == []
    table_reader = read_options("read", {"store": "x", "table": "jobs"})
    assert list(JobsTableReader(table_reader, address).read(InputPartition(None))) == []


def test_events_that_are_dropped_while_they_are_read_are_missed_loudly(queues, address):
    queue = queues["a"]
    queue.configure(max_journal=1)
    for number in range(5):
        queue.enqueue(number)
    reader = EventsTableReader(read_options("read", {"store": "x", "table": "events"}), address)
    parts = reader.partitions()

    queues.store.prune(queue.key, 100)

    with pytest.raises(EventsDropped):
        [row for part in parts for row in reader.read(part)]


@pytest.mark.every_store
def test_the_journal_of_a_dropped_queue_is_read_as_long_as_it_is_kept(queues, read):
    queues["a"].enqueue(1, id="1")
    queues["a"].drop(force=True)

    acts = [row["act"] for row in read("events")]

    assert acts == ["enqueue", "purge", "drop"]
    assert [row["act"] for row in read("events", queue="a")] == acts
    assert list(queues) == []
