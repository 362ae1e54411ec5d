"""The journal as a stream: read once, read again the same, and never with a gap, on every store."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest
from tests.spark.support.clocked_address import DriverAddress, TestAddress
from tests.spark.support.query_options import read_options
from tests.spark.support.simulated_driver import POINTS, Checkpoint, Died, Driver

from ackline.core.errors import ConfigError, EventsDropped, StoreUnavailable
from ackline.core.events import make_cursor, read_cursor
from ackline.core.limits import RESERVED_KEY_PREFIX
from ackline.maintenance.pruner import Pruner
from ackline.queue.journal.saved_cursor import ALL_QUEUES
from ackline.queues import Queues
from ackline.spark.errors import StreamMismatch
from ackline.spark.journal.gaps import Gap
from ackline.spark.streams.events.pending_gaps import PendingGaps
from ackline.spark.streams.events.retained_journals import RetainedJournals
from ackline.spark.streams.events.stream_reader import EventsStreamReader
from ackline.stores.registry import store_from_url


@pytest.fixture
def start(connect):
    def call(checkpoint, *, now=False, **options):
        message = {"store": "x", "table": "events", "wait": "0", **options}
        address: Any = DriverAddress(connect)
        reader = EventsStreamReader(read_options("readStream", message), address)
        return Driver(reader, checkpoint, now=now)

    return call


@pytest.fixture
def checkpoint():
    return Checkpoint()


def gaps_told(checkpoint):
    return json.loads(checkpoint.offsets[max(checkpoint.offsets)])["gaps"]


def recorded(checkpoint):
    return [(row["queue"], row["act"], row["id"]) for row in checkpoint.rows]


@pytest.mark.every_store
def test_all_that_happens_comes_once(queues, start, checkpoint):
    driver = start(checkpoint)
    queues["a"].enqueue(1, id="1")
    driver.run()
    queues["a"].complete(queues["a"].claim(1)[0])
    queues["b"].enqueue(1, id="2")

    driver.run()

    assert sorted(recorded(checkpoint)) == [
        ("a", "claim", "1"),
        ("a", "complete", "1"),
        ("a", "enqueue", "1"),
        ("b", "enqueue", "2"),
    ]
    assert not driver.trigger()


@pytest.mark.every_store
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_driver_reads_the_same_again(point, queues, start, checkpoint):
    for number in range(20):
        queues["a"].enqueue(number, id=str(number))
    with pytest.raises(Died):
        start(checkpoint).trigger(die_at=point)
    queues["b"].enqueue(1, id="late")

    start(checkpoint).run()

    ids = [id for _, _, id in recorded(checkpoint)]
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
    assert sorted(id for _, _, id in recorded(checkpoint)) == list("0123456")


def test_a_limit_counts_the_events_that_are_left_out(queues, start, checkpoint):
    for number in range(25):
        queues["a"].enqueue(number, id=str(number), kind="ab"[number % 2])

    start(checkpoint, maxEventsPerTrigger="10", kinds="a").run()

    assert [len(rows) for rows in checkpoint.lake.values()] == [5, 5, 3]
    assert [id for _, _, id in recorded(checkpoint)] == [str(number) for number in range(0, 25, 2)]


def test_available_now_ends_with_the_present(queues, start, checkpoint):
    queues["a"].enqueue(1, id="1")
    driver = start(checkpoint, now=True)
    assert driver.trigger()
    queues["a"].enqueue(2, id="2")

    driver.run()

    assert [id for _, _, id in recorded(checkpoint)] == ["1"]


def test_it_can_begin_now_and_hears_of_new_queues(queues, start, checkpoint):
    queues["a"].enqueue(1, id="old")
    driver = start(checkpoint, start="now")
    assert not driver.trigger()
    queues["a"].enqueue(2, id="new")
    queues["b"].enqueue(2, id="newer")

    driver.run()

    assert sorted(id for _, _, id in recorded(checkpoint)) == ["new", "newer"]


@pytest.mark.every_store
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


@pytest.mark.parametrize(
    ("began", "goes_on", "named"),
    [
        ({"queue": "a"}, {"queue": "b"}, "queue 'a' .* reads queue 'b'"),
        ({"queue": "a"}, {}, "queue 'a' .* reads all queues"),
        ({}, {"queue": "b"}, "all queues .* reads queue 'b'"),
    ],
)
def test_a_checkpoint_of_other_queues_is_refused(began, goes_on, named, queues, start, checkpoint):
    for name in "ab":
        queues[name].enqueue(1)
    start(checkpoint, **began).run()

    with pytest.raises(StreamMismatch, match=named):
        start(checkpoint, **goes_on).trigger()


def test_a_checkpoint_of_another_tenant_is_refused(queues, start, checkpoint):
    queues["a"].enqueue(1)
    start(checkpoint).run()
    other: Any = TestAddress(lambda: Queues(queues.store, "other"))
    options = read_options("readStream", {"store": "x", "table": "events", "wait": "0"})

    with pytest.raises(StreamMismatch, match=r"'default'.* 'other'"):
        Driver(EventsStreamReader(options, other), checkpoint).trigger()


def test_a_gap_is_told_though_nothing_has_happened_since(queues, start, checkpoint, clock):
    queue = queues["a"]
    queue.configure(keep_journal=10)
    queue.enqueue(1)
    queues["b"].enqueue(1)
    start(checkpoint).run()
    queue.enqueue(2)
    clock.advance(60)
    queues.store.prune(queue.key, 100)
    assert queues.store.events(queue.key, None, 1) == []

    driver = start(checkpoint, skipDropped="*")
    driver.run()

    assert [gap["queue"] for gap in gaps_told(checkpoint)] == ["a"]
    queues["b"].enqueue(2)
    driver.run()
    assert [gap["queue"] for gap in gaps_told(checkpoint)] == ["a"]


def test_events_that_are_dropped_while_a_batch_is_planned_are_a_gap(
    queues, start, checkpoint, monkeypatch
):
    queue = queues["a"]
    queue.configure(max_journal=1)
    driver = start(checkpoint, skipDropped="*", maxEventsPerTrigger="10")
    driver.run()
    for number in range(5):
        queue.enqueue(number)
    walk = RetainedJournals.advance

    def prune_first(journals, *arguments):
        monkeypatch.undo()
        queues.store.prune(queue.key, 100)
        return walk(journals, *arguments)

    monkeypatch.setattr(RetainedJournals, "advance", prune_first)
    driver.run()

    assert [gap["queue"] for gap in gaps_told(checkpoint)] == ["a"]


def test_a_queue_pruned_before_the_stream_began_does_not_disturb(queues, start, checkpoint):
    queues["a"].enqueue(1, id="first")
    queue = queues["b"]
    queue.configure(max_journal=1)
    for number in range(5):
        queue.enqueue(number)
    queues.store.prune(queue.key, 100)

    start(checkpoint).run()

    assert "first" in [id for _, _, id in recorded(checkpoint)]


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

    with pytest.raises(EventsDropped, match=r"'b'.*skipDropped=b"):
        start(checkpoint).run()


@pytest.mark.parametrize("begin", ["oldest", "now"])
@pytest.mark.parametrize("drops", [False, True], ids=["kept", "dropped"])
def test_a_new_queue_of_whose_journal_nothing_is_left_is_refused(
    drops, begin, queues, start, checkpoint, clock
):
    queues["a"].enqueue(1, id="first")
    driver = start(checkpoint, start=begin)
    driver.run()
    queues["a"].enqueue(1, id="second")
    driver.run()
    queue = queues["b"]
    queue.configure(keep_journal=10.0)
    queue.enqueue(1)
    if drops:
        queue.drop(force=True)
    clock.advance(1e7)
    queues.store.prune(queue.key, 100)
    assert not queues.store.events(queue.key, None, 100)

    with pytest.raises(EventsDropped, match=r"'b'.*skipDropped=b"):
        start(checkpoint, start=begin).run()


@pytest.mark.parametrize("begin", ["oldest", "now"])
@pytest.mark.parametrize("drops", [False, True], ids=["kept", "dropped"])
@pytest.mark.parametrize("runs", [0, 1, 2])
def test_a_new_queue_keeps_its_journal_for_the_reader_of_all(
    runs, drops, begin, queues, start, checkpoint, clock
):
    queues["a"].enqueue(1, id="first")
    driver = start(checkpoint, reader="lake", start=begin)
    with pytest.raises(Died):
        driver.trigger(die_at="claimed")
    for number in range(runs):
        queues["a"].enqueue(1, id=f"run {number}")
        driver.run()
    queue = queues["b"]
    queue.configure(keep_journal=10.0)
    queue.enqueue(1, id="new")
    if drops:
        queue.drop(force=True)
    clock.advance(1e7)
    Pruner([queue], 30.0).step()

    driver.run()

    assert ("b", "enqueue", "new") in recorded(checkpoint)


def test_a_reader_of_one_queue_keeps_no_other(queues, start, checkpoint):
    queues["a"].enqueue(1)
    start(checkpoint, reader="lake", queue="a").run()
    queues["b"].enqueue(1)

    assert [reader.every_queue for reader in queues["a"].readers()] == [False]
    assert queues["b"].readers() == []


def test_a_queue_made_while_a_stream_begins_is_kept_whole(queues, start, checkpoint, monkeypatch):
    """It is not among the queues that were looked at, but has events when the look is over."""
    driver = start(checkpoint, reader="lake")
    queues["a"].configure(max_journal=0)
    queues.store.prune(queues["a"].key, 100)
    store = driver.store
    look = store.events

    def make_meanwhile(*arguments):
        queues["b"].enqueue(1, id="meanwhile")
        queues["a"].enqueue(1)
        return look(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(store, "events", make_meanwhile)
        initial = driver.reader.initialOffset()
    driver.reader.latestOffset(initial, driver.reader.getDefaultReadLimit())

    [reader] = queues["b"].readers()
    assert [event.id for event in queues["b"].events(reader.cursor)] == ["meanwhile"]


def test_a_named_queue_goes_on_without_what_was_dropped(queues, start, checkpoint, caplog):
    queues["a"].enqueue(1, id="first")
    start(checkpoint).run()
    fill_and_prune(queues, "b")
    queues["a"].enqueue(1, id="second")

    start(checkpoint, skipDropped="c, b").run()

    assert [id for queue, _, id in recorded(checkpoint) if queue == "a"] == ["first", "second"]
    kept = [event.id for event in queues["b"].events()]
    assert [id for queue, _, id in recorded(checkpoint) if queue == "b"] == kept
    [gap] = gaps_told(checkpoint)
    reached = json.loads(checkpoint.offsets[0])["cursors"]["a"]
    assert (gap["queue"], gap["after"]) == ("b", reached)
    assert gap["retained_from"] == next(iter(queues["b"].events())).at
    assert gap["skipped_at"] == queues.store.now()
    assert "queue 'b' has dropped events" in caplog.text


def test_what_was_skipped_stays_noted_and_is_skipped_once(queues, start, checkpoint):
    queue = queues["a"]
    queue.enqueue(1)
    start(checkpoint).run()
    fill_and_prune(queues, "a")
    start(checkpoint, skipDropped="*").run()
    queue.enqueue(1, id="last")

    start(checkpoint).run()

    assert recorded(checkpoint)[-1] == ("a", "enqueue", "last")
    assert len(gaps_told(checkpoint)) == 1


def test_a_stream_that_always_skips_has_a_checkpoint_that_does_not_grow(
    queues, start, checkpoint, monkeypatch
):
    monkeypatch.setattr("ackline.spark.journal.gaps.MAX_LISTED", 2)
    queues["other"].enqueue(1)
    driver = start(checkpoint, skipDropped="*")
    driver.run()
    fill_and_prune(queues, "other")
    for _ in range(6):
        fill_and_prune(queues, "a")
        driver.run()

    [of_other, *old_and_new] = gaps_told(checkpoint)

    assert of_other["queue"] == "other"
    assert [gap.get("count", 1) for gap in old_and_new] == [4, 1, 1]
    reached = json.loads(checkpoint.offsets[0])["cursors"]["other"]
    assert old_and_new[0]["after"] == reached
    ends = [read_cursor(gap["until"]) for gap in old_and_new]
    assert ends == sorted(ends)


def test_a_planned_batch_can_be_read_without_what_was_dropped_since(queues, start, checkpoint):
    queues["a"].enqueue(1, id="first")
    with pytest.raises(Died):
        start(checkpoint).trigger(die_at="logged")
    fill_and_prune(queues, "a")

    start(checkpoint, skipDropped="a").run()

    assert [id for _, _, id in recorded(checkpoint)] == [event.id for event in queues["a"].events()]


def test_what_a_planned_batch_lacks_is_told_though_nothing_follows(queues, start, checkpoint):
    queue = queues["a"]
    queue.configure(max_journal=1)
    queue.enqueue(1)
    with pytest.raises(Died):
        start(checkpoint).trigger(die_at="logged")
    planned = json.loads(checkpoint.offsets[0])
    queue.enqueue_many(range(3))
    queues.store.prune(queue.key, 100)
    assert not queues.store.events(queue.key, None, 1)

    start(checkpoint, skipDropped="a").run()
    start(checkpoint, skipDropped="a").run()

    assert recorded(checkpoint) == []
    lacks, since = gaps_told(checkpoint)
    assert (lacks["after"], lacks["until"]) == (
        planned["batch_start"]["a"],
        planned["cursors"]["a"],
    )
    assert since["after"] == lacks["until"]


@pytest.mark.parametrize("options", [{}, {"reader": "lake"}], ids=["unnamed", "named"])
@pytest.mark.parametrize("point", ["planned", "read", "sunk", "committed"])
def test_what_a_planned_batch_lacks_is_told_by_whichever_run_goes_on(
    point, options, queues, start, checkpoint
):
    skipping = plan_and_prune(queues, start, checkpoint, options)
    with pytest.raises(Died):
        skipping.trigger(die_at=point)
    if point != "committed":
        start(checkpoint, skipDropped="a", **options).trigger()

    start(checkpoint, **options).run()

    [gap] = gaps_told(checkpoint)
    assert gap["after"] == json.loads(checkpoint.offsets[0])["batch_start"]["a"]
    assert recorded(checkpoint) == [("a", "enqueue", id) for id in ("second", "third")]
    queues["a"].enqueue(1, id="last")
    start(checkpoint, **options).run()
    assert gaps_told(checkpoint) == [gap]


def test_a_gap_is_noted_until_an_offset_that_tells_of_it_is_planned(queues, start, checkpoint):
    skipping = plan_and_prune(queues, start, checkpoint, {})
    skipping.trigger()
    assert len(gaps_noted(queues)) == 1
    with pytest.raises(Died):
        start(checkpoint).trigger(die_at="claimed")
    assert len(gaps_noted(queues)) == 1

    start(checkpoint).run()

    assert len(gaps_told(checkpoint)) == 1
    assert not gaps_noted(queues)


def test_what_was_not_skipped_after_all_is_not_told(queues, start, checkpoint):
    skipping = plan_and_prune(queues, start, checkpoint, {})
    with pytest.raises(Died):
        skipping.trigger(die_at="planned")

    with pytest.raises(EventsDropped):
        start(checkpoint).run()

    assert not gaps_noted(queues)


def test_gaps_of_streams_that_nobody_goes_on_with_are_forgotten(
    queues, start, checkpoint, monkeypatch, clock
):
    monkeypatch.setattr("ackline.spark.streams.events.stream_records.MAX_STREAMS", 2)
    for number in range(4):
        clock.advance(1.0)
        PendingGaps(queues).record(f"stream {number}", [gap_at(clock.now())])

    assert gaps_noted(queues) == ["stream 2", "stream 3"]


def test_what_another_driver_notes_meanwhile_is_told_too(queues):
    PendingGaps(queues).record("s", [gap_at(1.0)])
    old, new = PendingGaps(queues), PendingGaps(queues)
    assert old.get("s") == new.get("s") == [gap_at(1.0)]
    theirs = Gap(queue="b", after="2.0", until="3.0", skipped_at=2.0)
    new.record("s", [theirs])

    old.record("s", [])
    assert old.get("s") == PendingGaps(queues).get("s") == [theirs]

    new.record("s", [])
    assert not gaps_noted(queues)


def test_a_gap_that_two_drivers_note_is_told_once(queues):
    old, new = PendingGaps(queues), PendingGaps(queues)
    assert old.get("s") == []
    new.record("s", [gap_at(1.0)])

    old.record("s", [gap_at(2.0)])

    assert PendingGaps(queues).get("s") == [gap_at(2.0)]


def test_a_note_that_is_forgotten_meanwhile_can_be_replaced(queues):
    notes = PendingGaps(queues)
    notes.record("s", [gap_at(1.0)])
    PendingGaps(queues).record("s", [])

    notes.record("s", [])

    assert not gaps_noted(queues)


def plan_and_prune(queues, start, checkpoint, options):
    """A batch is planned, and its first event dropped before it is read; a run that may skip it."""
    queue = queues["a"]
    queue.configure(max_journal=2)
    queue.enqueue(1, id="first")
    queue.enqueue(1, id="second")
    with pytest.raises(Died):
        start(checkpoint, **options).trigger(die_at="logged")
    queue.enqueue(1, id="third")
    queues.store.prune(queue.key, 100)
    return start(checkpoint, skipDropped="a", **options)


def gaps_noted(queues):
    notes = queues.store.read_keys(queues.tenant, (RESERVED_KEY_PREFIX, "spark", "gaps"), 100)
    return [note.key[-1] for note in notes]


def gap_at(skipped_at):
    return Gap(queue="a", after="0.0", until="1.0", skipped_at=skipped_at)


def test_a_driver_that_wakes_up_late_does_not_stop_the_stream(queues, start, checkpoint):
    queue = queues["a"]
    queue.enqueue(1, id="1")
    start(checkpoint, reader="lake").run()
    queue.enqueue(1, id="2")
    old = start(checkpoint, reader="lake")
    store = old.store
    write = store.write_keys

    def after_another_driver(tenant, writes):
        store.write_keys = write
        queue.enqueue(1, id="3")
        start(checkpoint, reader="lake").run()
        return write(tenant, writes)

    store.write_keys = after_another_driver
    with pytest.raises(Died):
        old.trigger(die_at="claimed")
    queue.enqueue(1, id="4")
    start(checkpoint, reader="lake").run()

    assert [id for _, _, id in recorded(checkpoint)] == ["1", "2", "3", "4"]


def test_a_queue_that_was_dropped_between_two_runs_is_read(queues, start, checkpoint):
    queues["a"].enqueue(1, id="1")
    start(checkpoint).run()
    queues["b"].enqueue(1, id="2")
    queues["b"].drop(force=True)

    start(checkpoint).run()

    assert ("b", "enqueue", "2") in recorded(checkpoint)
    assert ("b", "drop", "") in recorded(checkpoint)
    assert list(queues) == ["a"]


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


@pytest.mark.every_store
class TestDroppedQueues:
    """Who makes a queue for each reply, and drops it, must not burden the stream for ever."""

    @pytest.fixture
    def driver(self, queues, start, checkpoint):
        """A stream that has read all of a queue that was dropped since."""
        driver = start(checkpoint, reader="lake")
        queues["stays"].enqueue(1)
        queues["reply"].enqueue(1, id="1")
        driver.run()
        queues["reply"].drop(force=True)
        driver.run()
        queues["stays"].enqueue(2)
        driver.run()
        return driver

    def test_they_are_forgotten(self, queues, driver, checkpoint):
        last = json.loads(checkpoint.offsets[max(checkpoint.offsets)])

        assert list(last["cursors"]) == ["stays"]
        keys = queues.read_keys("ackline", "readers")
        assert [entry.key[2] for entry in keys] == [ALL_QUEUES, "stays"]

    @pytest.mark.parametrize("pruned", [False, True])
    def test_one_that_is_made_anew_is_read_on(self, pruned, queues, driver, checkpoint, clock):
        if pruned:
            clock.advance(1e7)
            Pruner([queues["reply"]], 30.0).step()
        for number in (2, 3):
            queues["reply"].enqueue(1, id=str(number))
            driver.run()

        acts = [(act, id) for queue, act, id in recorded(checkpoint) if queue == "reply"]
        assert acts == [
            ("enqueue", "1"),
            ("purge", "1"),
            ("drop", ""),
            ("enqueue", "2"),
            ("enqueue", "3"),
        ]
        assert [reader.every_queue for reader in queues["reply"].readers()] == [False]

    def test_the_micro_batch_that_forgets_them_can_be_repeated(self, start, driver, checkpoint):
        before = recorded(checkpoint)
        checkpoint.commits.remove(max(checkpoint.commits))

        start(checkpoint, reader="lake").run()

        assert recorded(checkpoint) == before

    def test_one_that_is_ahead_of_all_others_is_remembered(self, queues, start, checkpoint):
        """Made anew it would begin before its own end, and be read twice."""
        driver = start(checkpoint, maxEventsPerTrigger="1")
        queues["reply"].enqueue(1, id="1")
        queues["stays"].enqueue_many(range(3))
        driver.run()
        queues["stays"].enqueue_many(range(3))
        queues["reply"].enqueue(1, id="2")
        queues["reply"].drop(force=True)
        driver.run()
        queues["reply"].enqueue(1, id="3")
        driver.run()

        reply = [row["id"] for row in checkpoint.rows if row["queue"] == "reply"]
        assert sorted(reply) == ["", "1", "1", "2", "2", "3"]
        assert len(checkpoint.rows) == 6 + 6


def test_an_idle_stream_asks_no_queue_twice(queues, start, checkpoint, monkeypatch):
    for name in "abc":
        queues[name].enqueue(1)
    driver = start(checkpoint)
    driver.run()
    queues["a"].enqueue(2)
    driver.run()
    store, stream_options = driver.store, []
    look = store.events

    def noting(key, *more):
        stream_options.append(key and key.name)
        return look(key, *more)

    monkeypatch.setattr(store, "events", noting)
    assert not driver.trigger()
    assert not stream_options
    queues["b"].enqueue(2, id="news")
    driver.run()

    assert "b" in stream_options
    assert ("b", "enqueue", "news") in recorded(checkpoint)


def test_places_in_many_queues_are_saved_in_one_write(queues, start, checkpoint, monkeypatch):
    for number in range(20):
        queues[f"queue {number}"].enqueue(1)
    driver = start(checkpoint, reader="lake")
    store, writes = driver.store, []
    write = store.write_keys

    def noting(tenant, keys):
        writes.append([key.key[2] for key in keys if key.key[1] == "readers"])
        return write(tenant, keys)

    monkeypatch.setattr(store, "write_keys", noting)
    driver.trigger()

    assert [len(places) for places in writes if places] == [21]
    # Last, so that a queue is known before it is no longer among all others.
    assert writes[0][-1] == ALL_QUEUES


def test_a_commit_saves_only_what_has_moved(queues, start, checkpoint, monkeypatch):
    queues["a"].enqueue(1)
    queues["b"].enqueue(1)
    driver = start(checkpoint, reader="lake")
    driver.run()
    for _ in range(2):
        queues["b"].enqueue(1)
        driver.run()
    writes = []
    store = driver.store
    write = store.write_keys

    def noting(tenant, keys):
        writes.extend(keys)
        return write(tenant, keys)

    monkeypatch.setattr(store, "write_keys", noting)
    for _ in range(2):
        queues["b"].enqueue(1)
        driver.run()

    places = [write.key for write in writes if write.key[1] == "readers"]
    assert places
    assert {queue for _, _, queue, _ in places} == {"b", ALL_QUEUES}


@pytest.mark.every_store
def test_the_journal_is_kept_for_a_registered_reader(queues, start, checkpoint, clock):
    queue = queues["a"]
    queue.configure(keep_journal=10.0)
    driver = start(checkpoint, reader="lake")
    for number in range(3):
        queue.enqueue(number, id=str(number))
        driver.run()

    assert [reader.name for reader in queue.readers()] == ["lake"]
    clock.advance(1e7)
    Pruner([queue], 30.0).step()

    # Spark commits a micro-batch when the next has come: so it is behind by one.
    assert [event.id for event in queue.events()] == ["2"]


def test_a_first_micro_batch_is_kept_until_it_is_done(queues, start, checkpoint, clock):
    """When it is repeated, now is later: what happened in between is still needed."""
    queue = queues["a"]
    queue.configure(keep_journal=10.0)
    driver = start(checkpoint, reader="lake", start="now")
    assert not driver.trigger()
    queue.enqueue(1, id="needed")
    with pytest.raises(Died):
        driver.trigger(die_at="logged")
    clock.advance(1e7)
    queue.enqueue(2, id="later")
    again = start(checkpoint, reader="lake", start="now")
    again.reader.initialOffset()
    Pruner([queue], 30.0).step()

    again.run()

    assert checkpoint.ids == ["needed", "later"]


@pytest.mark.parametrize("only", [{}, {"queue": "a"}], ids=["all", "one"])
def test_two_streams_with_one_name_are_told_of_each_other(queues, start, caplog, only):
    first, second = Checkpoint(), Checkpoint()
    options = {"reader": "lake", **only}
    run_twice(queues, start, first, options)
    assert not caplog.text

    start(second, **options).run()

    assert "reader name 'lake'" in caplog.text
    run_twice(queues, start, second, options)
    caplog.clear()
    run_twice(queues, start, first, options)
    assert caplog.text.count("--reader NAME") == 1


@pytest.mark.parametrize("only", [{}, {"queue": "a"}], ids=["all", "one"])
@pytest.mark.parametrize("point", POINTS)
def test_a_stream_is_not_told_of_itself(point, only, queues, start, checkpoint, caplog):
    options = {"reader": "lake", **only}
    for _ in range(3):
        queues["a"].enqueue(1)
        with pytest.raises(Died):
            start(checkpoint, **options).trigger(die_at=point)
        run_twice(queues, start, checkpoint, options)

    assert "reader name" not in caplog.text


def run_twice(queues, start, checkpoint, options):
    """A restart and two batches: Spark commits a batch when the next has come."""
    driver = start(checkpoint, **options)
    for _ in range(2):
        queues["a"].enqueue(1)
        driver.run()


def test_it_cannot_begin_after_the_end(queues, start, checkpoint):
    queues["a"].enqueue(1)
    batch, _ = read_cursor(queues.info().cursor)

    with pytest.raises(ConfigError, match="end"):
        start(checkpoint, start=make_cursor(batch * 2, 0)).trigger()


def test_another_sources_checkpoint_is_refused(start, checkpoint):
    checkpoint.offsets[0] = '{"batch": 1}'
    checkpoint.commits.add(0)

    with pytest.raises(ConfigError, match="another source"):
        start(checkpoint).trigger()


def test_an_outage_of_the_store_does_not_end_the_stream(queues, start, checkpoint, monkeypatch):
    queues["a"].enqueue(1, id="1")
    driver = start(checkpoint, retryFor="5")
    store = driver.store
    outages = iter([True, True, False, True])
    info = store.info

    def away():
        if next(outages, False):
            raise StoreUnavailable("away")
        return info()

    monkeypatch.setattr(store, "info", away)
    driver.run()

    assert [id for _, _, id in recorded(checkpoint)] == ["1"]
    assert next(outages, None) is None


def test_without_patience_it_does(queues, start, checkpoint, monkeypatch):
    """The control."""
    driver = start(checkpoint, retryFor="0")

    def away():
        raise StoreUnavailable("away")

    monkeypatch.setattr(driver.store, "info", away)

    with pytest.raises(StoreUnavailable):
        driver.run()


class FileStore:
    """A store in a file, which can be kept and put back."""

    def __init__(self, folder, clock):
        self.file = folder / "jobs.db"
        self.kept = folder / "kept.db"
        self.clock = clock

    def open(self):
        store = store_from_url(f"sqlite:///{self.file}?durability=normal", self.clock)
        store.open()
        return Queues(store)

    def enqueue(self, *ids, queue="a"):
        with self.open() as queues:
            for id in ids:
                queues[queue].enqueue(1, id=id)

    def keep(self):
        shutil.copy(self.file, self.kept)

    def put_back(self):
        shutil.copy(self.kept, self.file)

    def read(self, checkpoint, die_at="", **options):
        message = {"store": "x", "table": "events", "wait": "0", **options}
        address: Any = TestAddress(self.open)
        reader = EventsStreamReader(read_options("readStream", message), address)
        driver = Driver(reader, checkpoint)
        try:
            driver.trigger(die_at) if die_at else driver.run()
        finally:
            reader.stop()


@pytest.fixture
def file(tmp_path, clock):
    return FileStore(tmp_path, clock)


@pytest.mark.parametrize("options", [{}, {"reader": "lake"}], ids=["unnamed", "named"])
def test_a_restored_store_is_refused(options, file, checkpoint):
    file.enqueue("1")
    file.read(checkpoint, **options)
    file.keep()
    file.enqueue("2", "3")
    file.read(checkpoint, **options)
    file.put_back()

    with pytest.raises(StreamMismatch, match="backup"):
        file.read(checkpoint, **options)


def test_a_restored_store_is_refused_though_its_cursor_has_caught_up(file, checkpoint):
    file.enqueue("1")
    file.read(checkpoint, reader="lake")
    file.keep()
    file.enqueue("2", "3")
    file.read(checkpoint, reader="lake")
    file.put_back()
    file.enqueue(*map(str, range(10, 30)))

    with pytest.raises(StreamMismatch):
        file.read(checkpoint, reader="lake")


def test_a_store_made_anew_is_refused(file, checkpoint):
    file.enqueue("1", "2")
    file.read(checkpoint, reader="lake")
    file.file.unlink()
    file.enqueue(*map(str, range(10, 30)))

    with pytest.raises(StreamMismatch):
        file.read(checkpoint, reader="lake")


def test_a_batch_is_not_replayed_from_a_restored_store(file, checkpoint):
    file.enqueue("1")
    file.keep()
    file.enqueue("2")
    with pytest.raises(Died):
        file.read(checkpoint, die_at="planned", reader="lake")
    file.put_back()
    file.enqueue("3", "4", "5")

    with pytest.raises(StreamMismatch):
        file.read(checkpoint, reader="lake")


def test_a_backup_of_after_the_last_run_is_as_good_as_the_store(file, checkpoint):
    file.enqueue("1")
    file.read(checkpoint, reader="lake")
    file.keep()
    file.enqueue("lost")
    file.put_back()
    file.enqueue("2")

    file.read(checkpoint, reader="lake")

    assert [id for _, _, id in recorded(checkpoint)] == ["1", "2"]


def test_a_stream_may_get_a_name_later_and_lose_it(file, checkpoint):
    for id, options in (("1", {}), ("2", {"reader": "lake"}), ("3", {}), ("4", {"reader": "lake"})):
        file.enqueue(id)
        file.read(checkpoint, **options)

    assert [id for _, _, id in recorded(checkpoint)] == ["1", "2", "3", "4"]
