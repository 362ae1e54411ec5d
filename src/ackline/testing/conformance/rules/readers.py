"""Registered readers: they go on where they ended, and their journal waits for them."""

from __future__ import annotations

import pytest

from ackline.errors import EventsDropped, ReaderMoved
from ackline.events import Event
from ackline.queue.reader import JournalReader, first_needed, registered_readers
from ackline.testing.conformance.bench import Bench
from ackline.testing.conformance.case import StoreCase


def reader_of(bench: Bench, name: str = "audit") -> JournalReader:
    """A reader of the queue, as another process would make it."""
    return JournalReader(bench.store, bench.queue, name)


def ids(events: list[Event]) -> str:
    """Which jobs they tell of."""
    return "".join(event.id for event in events)


class ReaderRules(StoreCase):
    """A reader's place is a key of the tenant: written by compare-and-set."""

    def test_a_new_reader_begins_with_the_oldest_that_is_kept(self, bench: Bench) -> None:
        bench.put_all("abc")
        bench.put_all("de")

        reader = reader_of(bench)

        assert ids(reader.read(limit=2)) == "ab"
        assert ids(reader.read()) == "cde"
        assert reader.read() == []

    def test_a_reader_goes_on_where_its_name_has_saved(self, bench: Bench) -> None:
        bench.put_all("abc")
        first = reader_of(bench)
        first.read(limit=2)
        first.save()
        first.read()

        again = reader_of(bench)

        assert ids(again.read()) == "c"
        assert again.cursor == first.cursor

    def test_what_was_not_saved_comes_again(self, bench: Bench) -> None:
        bench.put_all("ab")
        reader_of(bench).read()

        assert ids(reader_of(bench).read()) == "ab"

    def test_an_empty_journal_is_a_beginning_too(self, bench: Bench) -> None:
        reader = reader_of(bench)
        assert reader.read() == []
        bench.put("a")

        assert ids(reader.read()) == "a"
        assert ids(reader_of(bench).read()) == "a"

    def test_readers_have_places_of_their_own(self, bench: Bench) -> None:
        bench.put_all("abc")
        other = bench.beside("other")
        for where, name, count in ((bench, "one", 1), (bench, "two", 2), (other, "one", 1)):
            reader = reader_of(where, name)
            reader.read(count)
            reader.save()

        names = [info.name for info in registered_readers(bench.store, bench.queue)]

        assert names == ["one", "two"]
        assert ids(reader_of(bench, "one").read()) == "bc"
        assert ids(reader_of(bench, "two").read()) == "c"

    def test_two_of_one_name_notice(self, bench: Bench) -> None:
        bench.put_all("abc")
        one, two = reader_of(bench), reader_of(bench)
        one.read(1)
        two.read(2)
        one.save()

        with pytest.raises(ReaderMoved):
            two.save()

        assert ids(reader_of(bench).read()) == "bc"
        one.read(1)
        one.save()
        assert ids(reader_of(bench).read()) == "c"

    def test_what_a_reader_needs_outlives_its_age(self, bench: Bench) -> None:
        bench.configure(keep_journal=60.0)
        bench.put("a")
        reader = reader_of(bench)
        reader.read()
        bench.put("b")
        reader.save()
        bench.put("c")
        bench.clock.advance(61.0)

        needed = first_needed(bench.store, bench.queue)
        bench.store.prune(bench.queue, 100, needed)

        assert ids(bench.journal()) == "bc"
        assert ids(reader_of(bench).read()) == "bc"

    def test_a_reader_that_lost_events_is_told_and_can_go_on(self, bench: Bench) -> None:
        bench.put_all("ab")
        reader = reader_of(bench)
        reader.read(1)
        reader.save()
        bench.put("c")
        bench.configure(max_journal=2)
        bench.store.prune(bench.queue, 100, first_needed(bench.store, bench.queue))

        with pytest.raises(EventsDropped) as caught:
            reader.read()
        reader.cursor = caught.value.cursor

        assert ids(reader.read()) == "c"
        reader.save()
        assert reader_of(bench).read() == []

    def test_a_forgotten_reader_needs_nothing_and_begins_anew(self, bench: Bench) -> None:
        bench.put_all("ab")
        reader = reader_of(bench)
        reader.read()
        reader.save()

        reader.forget()

        assert registered_readers(bench.store, bench.queue) == []
        assert first_needed(bench.store, bench.queue) is None
        assert ids(reader.read()) == "ab"

    def test_the_slowest_reader_says_what_is_needed(self, bench: Bench) -> None:
        bench.put_all("abcdefghijkl")
        for name, count in (("a", 11), ("b", 2), ("c", 10)):
            reader = reader_of(bench, name)
            reader.read(count)
            reader.save()

        assert first_needed(bench.store, bench.queue) == bench.journal()[1].cursor
