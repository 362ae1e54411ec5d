"""Registered readers: they continue at their cursor, and the journal keeps what they need."""

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


def reader_of(driver: QueueDriver, name: str = "audit") -> JournalReader:
    """A reader of the queue, as in another process."""
    return JournalReader(driver.store, driver.queue, name)


def reads_every_queue(driver: QueueDriver, cursor: str, name: str = "lake") -> ReaderCursor:
    """Save that a reader has read all queues of the tenant up to a cursor."""
    saved = ReaderCursor(driver.store, driver.queue.tenant, ALL_QUEUES, name)
    saved.load(lambda: cursor)
    saved.save(cursor)
    return saved


def pruned(driver: QueueDriver) -> str:
    """Prune the journal except what readers need; returns the ids that are left."""
    needed = oldest_needed_cursor(driver.store, driver.queue)
    driver.store.prune(driver.queue, 100, needed)
    return ids(driver.journal())


def ids(events: list[Event]) -> str:
    """The ids of the jobs of these events."""
    return "".join(event.id for event in events)


class ReaderRules(StoreCase):
    """A reader's cursor is a key of the tenant, written by compare-and-set."""

    def test_a_new_reader_begins_with_the_oldest_that_is_kept(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abc")
        driver.enqueue_all("de")

        reader = reader_of(driver)

        assert ids(reader.read(limit=2)) == "ab"
        assert ids(reader.read()) == "cde"
        assert reader.read() == []

    def test_a_reader_continues_at_its_saved_cursor(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abc")
        first = reader_of(driver)
        first.read(limit=2)
        first.save()
        first.read()

        again = reader_of(driver)

        assert ids(again.read()) == "c"
        assert again.cursor == first.cursor

    def test_events_after_the_saved_cursor_are_read_again(self, driver: QueueDriver) -> None:
        driver.enqueue_all("ab")
        reader_of(driver).read()

        assert ids(reader_of(driver).read()) == "ab"

    def test_a_reader_can_start_with_an_empty_journal(self, driver: QueueDriver) -> None:
        reader = reader_of(driver)
        assert reader.read() == []
        driver.enqueue("a")

        assert ids(reader.read()) == "a"
        assert ids(reader_of(driver).read()) == "a"

    def test_each_reader_has_its_own_cursor(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abc")
        other = driver.other_queue("other")
        for where, name, count in ((driver, "one", 1), (driver, "two", 2), (other, "one", 1)):
            reader = reader_of(where, name)
            reader.read(count)
            reader.save()

        names = [info.name for info in registered_readers(driver.store, driver.queue)]

        assert names == ["one", "two"]
        assert ids(reader_of(driver, "one").read()) == "bc"
        assert ids(reader_of(driver, "two").read()) == "c"

    def test_two_of_one_name_notice(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abc")
        first, second = reader_of(driver), reader_of(driver)
        first.read(1)
        second.read(2)
        first.save()

        with pytest.raises(ReaderMoved):
            second.save()

        assert ids(reader_of(driver).read()) == "bc"
        first.read(1)
        first.save()
        assert ids(reader_of(driver).read()) == "c"

    def test_events_that_a_reader_needs_are_kept_beyond_their_age(
        self, driver: QueueDriver
    ) -> None:
        driver.configure(keep_journal=60.0)
        driver.enqueue("a")
        reader = reader_of(driver)
        reader.read()
        driver.enqueue("b")
        reader.save()
        driver.enqueue("c")
        driver.clock.advance(61.0)

        needed = oldest_needed_cursor(driver.store, driver.queue)
        driver.store.prune(driver.queue, 100, needed)

        assert ids(driver.journal()) == "bc"
        assert ids(reader_of(driver).read()) == "bc"

    def test_a_reader_that_lost_events_gets_an_error_and_can_continue(
        self, driver: QueueDriver
    ) -> None:
        driver.enqueue_all("ab")
        reader = reader_of(driver)
        reader.read(1)
        reader.save()
        driver.enqueue("c")
        driver.configure(max_journal=2)
        driver.store.prune(driver.queue, 100, oldest_needed_cursor(driver.store, driver.queue))

        with pytest.raises(EventsDropped) as caught:
            reader.read()
        reader.cursor = caught.value.cursor

        assert ids(reader.read()) == "c"
        reader.save()
        assert reader_of(driver).read() == []

    def test_a_forgotten_reader_needs_nothing_and_starts_over(self, driver: QueueDriver) -> None:
        driver.enqueue_all("ab")
        reader = reader_of(driver)
        reader.read()
        reader.save()

        reader.forget()

        assert registered_readers(driver.store, driver.queue) == []
        assert oldest_needed_cursor(driver.store, driver.queue) is None
        assert ids(reader.read()) == "ab"

    def test_the_slowest_reader_decides_what_is_kept(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abcdefghijkl")
        for name, count in (("a", 11), ("b", 2), ("c", 10)):
            reader = reader_of(driver, name)
            reader.read(count)
            reader.save()

        assert oldest_needed_cursor(driver.store, driver.queue) == driver.journal()[1].cursor


class EveryQueueRules(StoreCase):
    """A reader of every queue of a tenant also keeps the journals of queues created later."""

    def test_a_queue_created_later_keeps_all_events_for_it(self, driver: QueueDriver) -> None:
        driver.enqueue("a")
        reads_every_queue(driver, driver.store.info().cursor)
        later = driver.other_queue("later")
        later.enqueue_all("xy")
        later.configure(keep_journal=60.0)
        driver.clock.advance(61.0)

        assert pruned(later) == "xy"

    def test_events_that_it_has_read_are_dropped_in_each_queue(self, driver: QueueDriver) -> None:
        benches = [driver, driver.other_queue("other")]
        for each in benches:
            each.configure(keep_journal=60.0)
            each.enqueue_all("ab")
            # A cluster orders what happens at the same time by queue.
            driver.clock.advance(1.0)
        reads_every_queue(driver, benches[-1].journal()[-1].cursor)
        for each in benches:
            each.enqueue("c")
        driver.clock.advance(61.0)

        assert [pruned(each) for each in benches] == ["c", "c"]

    @pytest.mark.parametrize(("own", "of_all"), [(2, 11), (11, 2)])
    def test_the_slowest_of_both_decides_what_is_kept(
        self, driver: QueueDriver, own: int, of_all: int
    ) -> None:
        driver.enqueue_all("abcdefghijkl")
        reader = reader_of(driver)
        reader.read(own)
        reader.save()
        reads_every_queue(driver, driver.journal()[of_all - 1].cursor)

        assert oldest_needed_cursor(driver.store, driver.queue) == driver.journal()[1].cursor

    def test_it_is_of_one_tenant(self, driver: QueueDriver) -> None:
        foreign = driver.other_queue(driver.queue.name, tenant="another")
        reads_every_queue(driver, driver.store.info().cursor)

        assert oldest_needed_cursor(foreign.store, foreign.queue) is None
        assert readers_of_every_queue(foreign.store, "another") == []

    def test_it_is_listed_beside_the_readers_of_a_queue(self, driver: QueueDriver) -> None:
        reader_of(driver).read()
        reads_every_queue(driver, driver.store.info().cursor)

        found = readers_of(driver.store, driver.queue)

        names = [(info.name, info.every_queue) for info in found]
        assert names == [("audit", False), ("lake", True)]
        assert [info.name for info in registered_readers(driver.store, driver.queue)] == ["audit"]

    @pytest.mark.parametrize(("own", "of_all"), [(2, 1), (2, 3)])
    def test_its_cursor_for_a_queue_overrides_the_common_one(
        self, driver: QueueDriver, own: int, of_all: int
    ) -> None:
        driver.enqueue_all("abc")
        cursors = [event.cursor for event in driver.journal()]
        reads_every_queue(driver, cursors[of_all - 1])
        reader = reader_of(driver, "lake")
        reader.read(own)
        reader.save()

        assert oldest_needed_cursor(driver.store, driver.queue) == cursors[own - 1]
        assert len(readers_of(driver.store, driver.queue)) == 1
        reader.forget()
        assert oldest_needed_cursor(driver.store, driver.queue) == cursors[of_all - 1]

    def test_once_forgotten_it_needs_nothing(self, driver: QueueDriver) -> None:
        driver.enqueue("a")

        reads_every_queue(driver, driver.store.info().cursor).forget()

        assert oldest_needed_cursor(driver.store, driver.queue) is None

    def test_two_of_one_name_notice(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abc")
        first, second, third = (event.cursor for event in driver.journal())
        saved = reads_every_queue(driver, first)
        reads_every_queue(driver, second)

        with pytest.raises(ReaderMoved, match="'lake' of all queues"):
            saved.save(third)
