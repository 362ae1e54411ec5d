"""The journal as a stream: read once, read again the same, and never with a gap, on every store."""

from __future__ import annotations

import pytest

from ackline.errors import ConfigError, EventsDropped, StoreUnavailable
from ackline.spark.events_stream import EventsStreamReader
from tests.spark.asking import read_options
from tests.spark.driver import POINTS, Checkpoint, Died, Driver


@pytest.fixture
def start(place):
    drivers = []

    def call(checkpoint, *, now=False, **options):
        said = {"store": "x", "table": "events", "wait": "0", **options}
        reader = EventsStreamReader(read_options("readStream", said), place)
        drivers.append(Driver(reader, checkpoint, now=now))
        return drivers[-1]

    return call


@pytest.fixture
def checkpoint():
    return Checkpoint()


def told(checkpoint):
    return [(row["queue"], row["act"], row["id"]) for row in checkpoint.rows]


def test_all_that_happens_comes_once(queues, start, checkpoint):
    driver = start(checkpoint)
    queues["a"].enqueue(1, id="1")
    driver.run()
    queues["a"].complete(queues["a"].claim(1)[0])
    queues["b"].enqueue(1, id="2")

    driver.run()

    assert sorted(told(checkpoint)) == [
        ("a", "claim", "1"),
        ("a", "complete", "1"),
        ("a", "enqueue", "1"),
        ("b", "enqueue", "2"),
    ]
    assert not driver.trigger()


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_driver_reads_the_same_again(point, queues, start, checkpoint):
    for number in range(20):
        queues["a"].enqueue(number, id=str(number))
    with pytest.raises(Died):
        start(checkpoint).trigger(die_at=point)
    queues["b"].enqueue(1, id="late")

    start(checkpoint).run()

    ids = [id for _, _, id in told(checkpoint)]
    assert sorted(ids) == sorted([*map(str, range(20)), "late"])


def test_a_limit_bounds_each_batch(queues, start, checkpoint):
    for number in range(25):
        queues["a"].enqueue(number, id=str(number))

    start(checkpoint, maxEventsPerTrigger="10").run()

    assert [len(rows) for rows in checkpoint.lake.values()] == [10, 10, 5]


def test_a_limit_is_kept_with_more_queues_than_events(queues, start, checkpoint):
    for number in range(7):
        queues[f"queue-{number}"].enqueue(number, id=str(number))

    start(checkpoint, maxEventsPerTrigger="3").run()

    assert [len(rows) for rows in checkpoint.lake.values()] == [3, 3, 1]
    assert sorted(id for _, _, id in told(checkpoint)) == list("0123456")


def test_available_now_ends_with_the_present(queues, start, checkpoint):
    queues["a"].enqueue(1, id="1")
    driver = start(checkpoint, now=True)
    assert driver.trigger()
    queues["a"].enqueue(2, id="2")

    driver.run()

    assert [id for _, _, id in told(checkpoint)] == ["1"]


def test_it_can_begin_now_and_hears_of_new_queues(queues, start, checkpoint):
    queues["a"].enqueue(1, id="old")
    driver = start(checkpoint, start="now")
    assert not driver.trigger()
    queues["a"].enqueue(2, id="new")
    queues["b"].enqueue(2, id="newer")

    driver.run()

    assert sorted(id for _, _, id in told(checkpoint)) == ["new", "newer"]


def test_a_pruned_journal_is_refused_loudly(queues, start, checkpoint):
    queue = queues["a"]
    queue.enqueue(1)
    start(checkpoint).run()
    queue.configure(max_journal=1)
    for number in range(5):
        queue.enqueue(number)
    queues.store.prune(queue.key, 100)

    with pytest.raises(EventsDropped):
        start(checkpoint).run()


def test_a_queue_pruned_before_the_stream_began_does_not_disturb(queues, start, checkpoint):
    queues["a"].enqueue(1, id="first")
    queue = queues["b"]
    queue.configure(max_journal=1)
    for number in range(5):
        queue.enqueue(number)
    queues.store.prune(queue.key, 100)

    start(checkpoint).run()

    assert "first" in [id for _, _, id in told(checkpoint)]


def fill_and_prune(queues, name):
    queue = queues[name]
    queue.configure(max_journal=1)
    for number in range(5):
        queue.enqueue(number)
    queues.store.prune(queue.key, 100)


def test_a_new_queue_pruned_before_the_stream_came_to_it_is_refused(queues, start, checkpoint):
    queues["a"].enqueue(1, id="first")
    start(checkpoint).run()
    fill_and_prune(queues, "b")

    with pytest.raises(EventsDropped, match="'b'"):
        start(checkpoint).run()


def test_a_first_batch_that_is_replayed_begins_where_it_did(queues, start, checkpoint):
    queues["a"].enqueue(1, id="first")
    with pytest.raises(Died):
        start(checkpoint).trigger(die_at="logged")
    fill_and_prune(queues, "a")

    with pytest.raises(EventsDropped):
        start(checkpoint).run()


def test_a_new_queue_is_kept_for_the_reader_from_its_first_batch_on(queues, start, checkpoint):
    queues["a"].enqueue(1, id="1")
    driver = start(checkpoint, reader="lake")
    driver.run()
    queues["b"].enqueue(1, id="2")

    driver.run()

    assert [reader.name for reader in queues["b"].readers()] == ["lake"]


def test_a_commit_saves_only_what_has_moved(queues, start, checkpoint, monkeypatch):
    queues["a"].enqueue(1)
    queues["b"].enqueue(1)
    driver = start(checkpoint, reader="lake")
    driver.run()
    for _ in range(2):
        queues["b"].enqueue(1)
        driver.run()
    writes = []
    store = driver.reader._open().store
    write = store.write_keys

    def noting(tenant, keys):
        writes.extend(keys)
        return write(tenant, keys)

    monkeypatch.setattr(store, "write_keys", noting)
    for _ in range(2):
        queues["b"].enqueue(1)
        driver.run()

    assert writes
    assert {key.key[2] for key in writes} == {"b"}


def test_the_journal_is_kept_for_a_registered_reader(queues, start, checkpoint, clock):
    queue = queues["a"]
    queue.configure(keep_journal=10.0)
    driver = start(checkpoint, reader="lake")
    for number in range(3):
        queue.enqueue(number, id=str(number))
        driver.run()

    assert [reader.name for reader in queue.readers()] == ["lake"]
    cursor = queue.readers()[0].cursor
    # Spark commits a micro-batch when the next has come: so it is behind by one.
    assert [event.id for event in queue.events(cursor)] == ["2"]


def test_another_sources_checkpoint_is_refused(start, checkpoint):
    checkpoint.offsets[0] = '{"batch": 1}'
    checkpoint.commits.add(0)

    with pytest.raises(ConfigError, match="an offset of another source"):
        start(checkpoint).trigger()


def test_an_outage_of_the_store_does_not_end_the_stream(queues, start, checkpoint, monkeypatch):
    queues["a"].enqueue(1, id="1")
    driver = start(checkpoint, retryFor="5")
    store = driver.reader._open().store
    outages = iter([True, True, False, True])
    info = store.info

    def away():
        if next(outages, False):
            raise StoreUnavailable("away")
        return info()

    monkeypatch.setattr(store, "info", away)
    driver.run()

    assert [id for _, _, id in told(checkpoint)] == ["1"]
    assert next(outages, None) is None


def test_without_patience_it_does(queues, start, checkpoint, monkeypatch):
    """The control."""
    driver = start(checkpoint, retryFor="0")

    def away():
        raise StoreUnavailable("away")

    monkeypatch.setattr(driver.reader._open().store, "info", away)

    with pytest.raises(StoreUnavailable):
        driver.run()
