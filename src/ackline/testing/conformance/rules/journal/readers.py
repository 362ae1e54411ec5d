"""Registered readers: they continue where they ended, and the journal keeps what they need."""

from __future__ import annotations

import pytest

from ackline.core.errors import EventsDropped, ReaderMoved
from ackline.core.events import Event
from ackline.queue.journal.reader import (
    JournalReader,
    oldest_needed_cursor,
    readers_of,
    readers_of_every_queue,
    registered_readers,
)
from ackline.queue.journal.saved_cursor import ALL_QUEUES, ReaderCursor
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import QueueDriver


def reader_of(bench: QueueDriver, name: str = "audit") -> JournalReader:
    """A reader of the queue, as another process would make it."""
    return JournalReader(bench.store, bench.queue, name)


def reads_every_queue(bench: QueueDriver, cursor: str, name: str = "lake") -> ReaderCursor:
    """The place of a reader that has read all queues of the tenant up to a cursor."""
    place = ReaderCursor(bench.store, bench.queue.tenant, ALL_QUEUES, name)
    place.load(lambda: cursor)
    place.save(cursor)
    return place


def pruned(bench: QueueDriver) -> str:
    """Prune the journal except what readers need; returns the ids that are left."""
    needed = oldest_needed_cursor(bench.store, bench.queue)
    bench.store.prune(bench.queue, 100, needed)
    return ids(bench.journal())


def ids(events: list[Event]) -> str:
    """The ids of the jobs of these events."""
    return "".join(event.id for event in events)


class ReaderRules(StoreCase):
    """A reader's place is a key of the tenant: written by compare-and-set."""

    def test_a_new_reader_begins_with_the_oldest_that_is_kept(self, bench: QueueDriver) -> None:
        bench.put_all("abc")
        bench.put_all("de")

        reader = reader_of(bench)

        assert ids(reader.read(limit=2)) == "ab"
        assert ids(reader.read()) == "cde"
        assert reader.read() == []

    def test_a_reader_goes_on_where_its_name_has_saved(self, bench: QueueDriver) -> None:
        bench.put_all("abc")
        first = reader_of(bench)
        first.read(limit=2)
        first.save()
        first.read()

        again = reader_of(bench)

        assert ids(again.read()) == "c"
        assert again.cursor == first.cursor

    def test_what_was_not_saved_comes_again(self, bench: QueueDriver) -> None:
        bench.put_all("ab")
        reader_of(bench).read()

        assert ids(reader_of(bench).read()) == "ab"

    def test_an_empty_journal_is_a_beginning_too(self, bench: QueueDriver) -> None:
        reader = reader_of(bench)
        assert reader.read() == []
        bench.put("a")

        assert ids(reader.read()) == "a"
        assert ids(reader_of(bench).read()) == "a"

    def test_readers_have_places_of_their_own(self, bench: QueueDriver) -> None:
        bench.put_all("abc")
        other = bench.other_queue("other")
        for where, name, count in ((bench, "one", 1), (bench, "two", 2), (other, "one", 1)):
            reader = reader_of(where, name)
            reader.read(count)
            reader.save()

        names = [info.name for info in registered_readers(bench.store, bench.queue)]

        assert names == ["one", "two"]
        assert ids(reader_of(bench, "one").read()) == "bc"
        assert ids(reader_of(bench, "two").read()) == "c"

    def test_two_of_one_name_notice(self, bench: QueueDriver) -> None:
        bench.put_all("abc")
        first, second = reader_of(bench), reader_of(bench)
        first.read(1)
        second.read(2)
        first.save()

        with pytest.raises(ReaderMoved):
            second.save()

        assert ids(reader_of(bench).read()) == "bc"
        first.read(1)
        first.save()
        assert ids(reader_of(bench).read()) == "c"

    def test_what_a_reader_needs_outlives_its_age(self, bench: QueueDriver) -> None:
        bench.configure(keep_journal=60.0)
        bench.put("a")
        reader = reader_of(bench)
        reader.read()
        bench.put("b")
        reader.save()
        bench.put("c")
        bench.clock.advance(61.0)

        needed = oldest_needed_cursor(bench.store, bench.queue)
        bench.store.prune(bench.queue, 100, needed)

        assert ids(bench.journal()) == "bc"
        assert ids(reader_of(bench).read()) == "bc"

    def test_a_reader_that_lost_events_is_told_and_can_go_on(self, bench: QueueDriver) -> None:
        bench.put_all("ab")
        reader = reader_of(bench)
        reader.read(1)
        reader.save()
        bench.put("c")
        bench.configure(max_journal=2)
        bench.store.prune(bench.queue, 100, oldest_needed_cursor(bench.store, bench.queue))

        with pytest.raises(EventsDropped) as caught:
            reader.read()
        reader.cursor = caught.value.cursor

        assert ids(reader.read()) == "c"
        reader.save()
        assert reader_of(bench).read() == []

    def test_a_forgotten_reader_needs_nothing_and_begins_anew(self, bench: QueueDriver) -> None:
        bench.put_all("ab")
        reader = reader_of(bench)
        reader.read()
        reader.save()

        reader.forget()

        assert registered_readers(bench.store, bench.queue) == []
        assert oldest_needed_cursor(bench.store, bench.queue) is None
        assert ids(reader.read()) == "ab"

    def test_the_slowest_reader_says_what_is_needed(self, bench: QueueDriver) -> None:
        bench.put_all("abcdefghijkl")
        for name, count in (("a", 11), ("b", 2), ("c", 10)):
            reader = reader_of(bench, name)
            reader.read(count)
            reader.save()

        assert oldest_needed_cursor(bench.store, bench.queue) == bench.journal()[1].cursor


class EveryQueueRules(StoreCase):
    """A reader of every queue of a tenant keeps the journals of queues made later, too."""

    def test_a_queue_made_later_keeps_all_for_it(self, bench: QueueDriver) -> None:
        bench.put("a")
        reads_every_queue(bench, bench.store.info().cursor)
        later = bench.other_queue("later")
        later.put_all("xy")
        later.configure(keep_journal=60.0)
        bench.clock.advance(61.0)

        assert pruned(later) == "xy"

    def test_what_it_has_read_is_dropped_in_each_queue(self, bench: QueueDriver) -> None:
        benches = [bench, bench.other_queue("other")]
        for each in benches:
            each.configure(keep_journal=60.0)
            each.put_all("ab")
            # A cluster orders what happens at the same time by queue.
            bench.clock.advance(1.0)
        reads_every_queue(bench, benches[-1].journal()[-1].cursor)
        for each in benches:
            each.put("c")
        bench.clock.advance(61.0)

        assert [pruned(each) for each in benches] == ["c", "c"]

    @pytest.mark.parametrize(("own", "of_all"), [(2, 11), (11, 2)])
    def test_whoever_is_slowest_says_what_is_needed(
        self, bench: QueueDriver, own: int, of_all: int
    ) -> None:
        bench.put_all("abcdefghijkl")
        reader = reader_of(bench)
        reader.read(own)
        reader.save()
        reads_every_queue(bench, bench.journal()[of_all - 1].cursor)

        assert oldest_needed_cursor(bench.store, bench.queue) == bench.journal()[1].cursor

    def test_it_is_of_one_tenant(self, bench: QueueDriver) -> None:
        foreign = bench.other_queue(bench.queue.name, tenant="another")
        reads_every_queue(bench, bench.store.info().cursor)

        assert oldest_needed_cursor(foreign.store, foreign.queue) is None
        assert readers_of_every_queue(foreign.store, "another") == []

    def test_it_is_listed_beside_the_readers_of_a_queue(self, bench: QueueDriver) -> None:
        reader_of(bench).read()
        reads_every_queue(bench, bench.store.info().cursor)

        found = readers_of(bench.store, bench.queue)

        names = [(info.name, info.every_queue) for info in found]
        assert names == [("audit", False), ("lake", True)]
        assert [info.name for info in registered_readers(bench.store, bench.queue)] == ["audit"]

    @pytest.mark.parametrize(("own", "of_all"), [(2, 1), (2, 3)])
    def test_where_it_has_a_place_of_its_own_that_counts(
        self, bench: QueueDriver, own: int, of_all: int
    ) -> None:
        bench.put_all("abc")
        cursors = [event.cursor for event in bench.journal()]
        reads_every_queue(bench, cursors[of_all - 1])
        reader = reader_of(bench, "lake")
        reader.read(own)
        reader.save()

        assert oldest_needed_cursor(bench.store, bench.queue) == cursors[own - 1]
        assert len(readers_of(bench.store, bench.queue)) == 1
        reader.forget()
        assert oldest_needed_cursor(bench.store, bench.queue) == cursors[of_all - 1]

    def test_once_forgotten_it_needs_nothing(self, bench: QueueDriver) -> None:
        bench.put("a")

        reads_every_queue(bench, bench.store.info().cursor).forget()

        assert oldest_needed_cursor(bench.store, bench.queue) is None

    def test_two_of_one_name_notice(self, bench: QueueDriver) -> None:
        bench.put_all("abc")
        first, second, third = (event.cursor for event in bench.journal())
        place = reads_every_queue(bench, first)
        reads_every_queue(bench, second)

        with pytest.raises(ReaderMoved, match="'lake' of all queues"):
            place.save(third)
