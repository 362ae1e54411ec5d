"""A stream of events asks the queues that have news, not each queue that exists, on every store."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.spark.support.clocked_address import DriverAddress
from tests.spark.support.query_options import read_options
from tests.spark.support.simulated_driver import Checkpoint, Driver

from ackline.core.events import make_cursor, read_cursor
from ackline.queues import Queues
from ackline.spark.errors import StreamMismatch
from ackline.spark.streams.events.offset import EventsOffset
from ackline.spark.streams.events.stream_reader import EventsStreamReader
from ackline.spark.tables.events import EventsTableReader

MANY = 12


@pytest.fixture
def start(connect, checkpoint):
    def call(**options):
        values = {"store": "x", "table": "events", "wait": "0", **options}
        address: Any = DriverAddress(connect)
        reader = EventsStreamReader(read_options("readStream", values), address)
        return Driver(reader, checkpoint)

    return call


@pytest.fixture
def checkpoint():
    return Checkpoint()


@pytest.fixture
def many(queues):
    for number in range(MANY):
        queues[f"queue {number}"].enqueue(1, id="old")
    return queues


def asked_by(driver, monkeypatch):
    """The queues that are asked from now on; None is all of them at once."""
    store, asked = driver.store, []
    look = store.events

    def noting(key, *more):
        asked.append(key and key.name)
        return look(key, *more)

    monkeypatch.setattr(store, "events", noting)
    return asked


def ids_of(checkpoint):
    return [row["id"] for row in checkpoint.rows if row["id"] != "old"]


@pytest.mark.every_store
@pytest.mark.parametrize("restarts", [False, True])
def test_idle_queues_are_not_asked(restarts, many, start, checkpoint, monkeypatch):
    driver = start()
    driver.run()
    if restarts:
        driver = start()
    asked = asked_by(driver, monkeypatch)
    many["queue 7"].enqueue(1, id="news")
    many["a new queue"].enqueue(1, id="more news")

    driver.run()

    assert sorted(ids_of(checkpoint)) == ["more news", "news"]
    assert set(asked) == {None, "queue 7", "a new queue"}
    assert len(asked) < 10


def test_the_news_of_other_tenants_is_searched_once(many, start, monkeypatch):
    driver = start()
    driver.run()
    other = Queues(many.store, "other")
    asked = asked_by(driver, monkeypatch)
    for number in range(3):
        other["a"].enqueue_many([{"number": number}] * (5 * MANY))
        assert not driver.trigger()

    assert set(asked) == {None}


def test_queues_that_a_limit_has_left_behind_are_read_to_their_end(
    many, start, checkpoint, monkeypatch
):
    start().run()
    for number in range(6):
        many[f"queue {number}"].enqueue(1, id=f"news {number}")
    driver = start(maxEventsPerTrigger="2")
    asked = asked_by(driver, monkeypatch)

    driver.run()

    assert sorted(ids_of(checkpoint)) == [f"news {number}" for number in range(6)]
    assert set(asked) == {None, *(f"queue {number}" for number in range(6))}


def test_many_events_are_not_searched(many, start, checkpoint, monkeypatch):
    """They are read anyway, and by many tasks."""
    start().run()
    many["queue 7"].enqueue_many(list(range(1000)))
    driver = start()
    asked = asked_by(driver, monkeypatch)

    driver.run()

    assert len(ids_of(checkpoint)) == 1000
    assert asked.count(None) <= 2
    assert set(asked) == {None, *(f"queue {number}" for number in range(MANY))}


@pytest.mark.every_store
def test_what_is_not_yet_to_be_seen_in_the_journal_of_all_queues_is_not_skipped(
    many, start, checkpoint, monkeypatch
):
    """As in a cluster: where its clocks seem to go back, the end of all journals does, too."""
    driver = start()
    driver.run()
    many["queue 7"].enqueue(1, id="first")
    many["queue 8"].enqueue(1, id="second")
    store = driver.store
    look = store.events

    def only_the_first(key, after, limit):
        found = look(key, after, limit)
        return found if key is not None else [event for event in found if event.id == "first"]

    with monkeypatch.context() as patch:
        patch.setattr(store, "events", only_the_first)
        driver.run()
    assert ids_of(checkpoint) == ["first"]
    many["queue 9"].enqueue(1, id="third")

    driver.run()

    assert sorted(ids_of(checkpoint)) == ["first", "second", "third"]


def test_what_was_dropped_is_not_taken_for_nothing(many, start, checkpoint):
    start().run()
    queue = many["queue 7"]
    queue.configure(max_journal=1)
    for number in range(5):
        queue.enqueue(number)
    many.store.prune(queue.key, 100)

    start(skipDropped="*").run()

    gaps = json.loads(checkpoint.offsets[max(checkpoint.offsets)])["gaps"]
    assert [gap["queue"] for gap in gaps] == ["queue 7"]


def test_a_table_after_a_cursor_has_tasks_only_for_queues_with_events(many, address):
    cursor = many.info().cursor
    many["queue 7"].enqueue(1, id="news")
    values = {"store": "x", "table": "events", "start": cursor}
    reader = EventsTableReader(read_options("read", values), address)

    parts = reader.partitions()

    assert {one.queue for part in parts for one in part.value} == {"queue 7"}
    rows = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    assert [row["id"] for row in rows] == ["news"]


def test_a_checkpoint_that_has_searched_further_than_the_store_reaches_is_refused(
    many, start, checkpoint
):
    start(maxEventsPerTrigger="2").trigger()
    offset = json.loads(checkpoint.offsets[0])
    offset["searched_to"] = make_cursor(1000 * read_cursor(offset["searched_to"])[0], 0)
    checkpoint.offsets[0] = json.dumps(offset)

    with pytest.raises(StreamMismatch, match="backup"):
        start().run()


def test_the_furthest_place_is_not_sought_for_each_queue(many, start, monkeypatch):
    sought, furthest = [], vars(EventsOffset)["furthest"].fget

    def noting(offset):
        sought.append(offset)
        return furthest(offset)

    monkeypatch.setattr(EventsOffset, "furthest", property(noting))
    start().run()

    assert 0 < len(sought) < MANY
