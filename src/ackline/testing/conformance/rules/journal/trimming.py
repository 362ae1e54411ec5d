"""What is dropped from the journal, and which readers get an error."""

from __future__ import annotations

import logging

import msgspec
import pytest

from ackline.core.errors import EventsDropped
from ackline.stores.contract import Store
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import NO_LIMIT, QueueDriver

AGE = 60.0


def left_of(driver: QueueDriver) -> str:
    """Prune; returns the ids of the jobs that are still in the journal."""
    driver.store.prune(driver.queue, 100)
    return "".join(event.id for event in driver.journal())


def cursors_of(driver: QueueDriver) -> dict[str, str]:
    """The cursor of each job's event; "" has that of a change of settings."""
    return {event.id: event.cursor for event in driver.journal()}


def old_and_new(driver: QueueDriver) -> dict[str, str]:
    """Enqueue three batches, two of them too old to keep; returns their cursors."""
    driver.configure(keep_journal=AGE)
    driver.enqueue_all("abc")
    driver.enqueue_all("def")
    driver.clock.advance(AGE + 1.0)
    driver.enqueue_all("ghi")
    return cursors_of(driver)


def cut_behind_f(driver: QueueDriver) -> dict[str, str]:
    """Enqueue three batches, drop the first two; returns the cursors of all three."""
    for ids in ("abc", "def", "ghi"):
        driver.enqueue_all(ids)
        driver.clock.advance(1.0)
    cursors = cursors_of(driver)
    driver.configure(max_journal=4)
    driver.store.prune(driver.queue, 100)
    return cursors


class TrimRules(StoreCase):
    """Rule 13: the journal is bounded, by age and by size; whole batches go, the oldest first."""

    def test_the_journal_is_bounded_by_age(self, driver: QueueDriver) -> None:
        driver.configure(keep_journal=AGE)
        driver.enqueue("a")
        driver.clock.advance(AGE + 1.0)
        driver.enqueue("b")

        assert left_of(driver) == "b"

    def test_the_journal_is_bounded_by_size(self, driver: QueueDriver) -> None:
        driver.configure(max_journal=5)
        for id in "abcdefghijk":
            driver.enqueue(id)

        assert left_of(driver) == "ghijk"

    def test_events_are_counted_and_not_batches(self, driver: QueueDriver) -> None:
        driver.configure(max_journal=5)
        for ids in ("abc", "def", "ghi"):
            driver.enqueue_all(ids)

        assert left_of(driver) == "ghi"

    def test_the_remaining_events_are_counted_correctly(self, driver: QueueDriver) -> None:
        driver.configure(max_journal=5)
        driver.enqueue_all("abc")
        assert left_of(driver) == "abc"
        driver.enqueue_all("de")
        assert left_of(driver) == "abcde"
        driver.enqueue("f")
        assert left_of(driver) == "def"
        driver.enqueue_all("gh")
        assert left_of(driver) == "defgh"

    def test_a_journal_of_no_events_is_kept_empty(self, driver: QueueDriver) -> None:
        driver.configure(max_journal=0)
        driver.enqueue_all("abc")

        assert left_of(driver) == ""
        driver.enqueue("d")
        assert [event.id for event in driver.journal()] == ["d"]

    def test_without_a_setting_the_store_says_how_many(
        self, driver: QueueDriver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        few = msgspec.structs.replace(driver.store.capabilities, max_journal=2)
        monkeypatch.setattr(driver.store, "capabilities", few)
        for id in "abcd":
            driver.enqueue(id)

        assert left_of(driver) == "cd"

    def test_trimming_reaches_no_other_queue(self, driver: QueueDriver) -> None:
        other = driver.other_queue("other")
        driver.configure(max_journal=0)
        other.enqueue_all("abc")
        driver.enqueue("d")

        assert left_of(driver) == ""
        assert [event.id for event in other.journal()] == ["a", "b", "c"]


class NeededRules(StoreCase):
    """What a registered reader has not read is kept at any age, up to the size limit."""

    @pytest.mark.parametrize(
        ("seen", "left"), [("", "abc"), ("a", "abc"), ("b", "abc"), ("c", "def"), ("e", "def")]
    )
    def test_age_drops_no_batch_that_a_reader_needs(
        self, driver: QueueDriver, seen: str, left: str
    ) -> None:
        cursors = old_and_new(driver)

        driver.store.prune(driver.queue, 100, cursors[seen])

        assert [event.id for event in driver.journal()][:3] == list(left)
        driver.store.events(driver.queue, cursors[seen], 1)

    @pytest.mark.parametrize("seen", ["f", "g", "i", None])
    def test_age_drops_what_all_readers_have_seen(
        self, driver: QueueDriver, seen: str | None
    ) -> None:
        cursors = old_and_new(driver)

        driver.store.prune(driver.queue, 100, cursors[seen] if seen else None)

        assert [event.id for event in driver.journal()] == ["g", "h", "i"]

    def test_a_cursor_of_another_queue_is_valid_here(self, driver: QueueDriver) -> None:
        """A cursor is a position in all journals: here it lies between two entries."""
        driver.configure(keep_journal=AGE)
        driver.enqueue("a")
        driver.clock.advance(1.0)
        other = driver.other_queue("other")
        other.enqueue("x")
        driver.clock.advance(1.0)
        driver.enqueue("b")
        driver.clock.advance(2 * AGE)

        driver.store.prune(driver.queue, 100, other.journal()[0].cursor)

        assert [event.id for event in driver.journal()] == ["b"]

    def test_the_size_limit_drops_it_anyway_and_warns_once(
        self, driver: QueueDriver, caplog: pytest.LogCaptureFixture
    ) -> None:
        cursors = old_and_new(driver)
        driver.configure(max_journal=4)

        with caplog.at_level(logging.WARNING, "ackline"):
            driver.store.prune(driver.queue, 100, cursors["b"])

        assert [event.id for event in driver.journal()] == ["g", "h", "i", ""]
        [warning] = caplog.records
        assert "work" in warning.getMessage()
        assert "4 events" in warning.getMessage()

    @pytest.mark.parametrize("seen", ["i", None])
    def test_events_that_no_reader_needs_are_dropped_without_a_warning(
        self, driver: QueueDriver, caplog: pytest.LogCaptureFixture, seen: str | None
    ) -> None:
        cursors = old_and_new(driver)
        driver.configure(max_journal=1)

        with caplog.at_level(logging.WARNING, "ackline"):
            driver.store.prune(driver.queue, 100, cursors[seen] if seen else None)

        assert caplog.records == []


class TrimmedReaderRules(StoreCase):
    """Rule 14: a reader whose events are gone gets an error, and never skips them silently."""

    @pytest.mark.parametrize("seen", ["a", "c", "d", "e"])
    def test_a_reader_before_the_dropped_events_gets_an_error(
        self, driver: QueueDriver, seen: str
    ) -> None:
        cursor = cut_behind_f(driver)[seen]

        with pytest.raises(EventsDropped) as caught:
            driver.store.events(driver.queue, cursor, 100)

        assert cursor in str(caught.value)
        assert caught.value.cursor in str(caught.value)
        left = driver.store.events(driver.queue, caught.value.cursor, 100)
        assert [event.id for event in left] == ["g", "h", "i", ""]

    @pytest.mark.parametrize(("seen", "left"), [("f", "ghi"), ("g", "hi"), ("i", "")])
    def test_a_reader_after_the_dropped_events_continues(
        self, driver: QueueDriver, seen: str, left: str
    ) -> None:
        cursor = cut_behind_f(driver)[seen]

        found = driver.store.events(driver.queue, cursor, 100)

        assert "".join(event.id for event in found) == left

    def test_without_a_cursor_it_begins_with_the_oldest_that_is_kept(
        self, driver: QueueDriver
    ) -> None:
        cut_behind_f(driver)

        for queue in (driver.queue, None):
            found = driver.store.events(queue, None, 100)
            assert [event.id for event in found] == ["g", "h", "i", ""]

    def test_a_reader_that_started_at_the_end_gets_the_error_too(self, driver: QueueDriver) -> None:
        driver.enqueue("a")
        cursor = driver.store.info().cursor
        driver.configure(max_journal=0)
        driver.enqueue("b")
        driver.store.prune(driver.queue, 100)

        with pytest.raises(EventsDropped):
            driver.store.events(driver.queue, cursor, 100)

    def test_an_emptied_journal_still_raises_the_error(self, driver: QueueDriver) -> None:
        driver.enqueue_all("ab")
        cursors = [event.cursor for event in driver.journal()]
        driver.configure(max_journal=0)
        driver.store.prune(driver.queue, 100)

        with pytest.raises(EventsDropped) as caught:
            driver.store.events(driver.queue, cursors[0], 100)
        assert driver.store.events(driver.queue, caught.value.cursor, 100) == []

    def test_a_reader_that_keeps_up_never_gets_the_error(self, driver: QueueDriver) -> None:
        driver.configure(max_journal=3)
        seen, cursor = [], None
        for id in "abcdefghij":
            driver.enqueue(id)
            driver.store.prune(driver.queue, 100)
            for event in driver.store.events(driver.queue, cursor, 100):
                seen.append(event.id)
                cursor = event.cursor

        assert seen == ["", *"abcdefghij"]

    def test_a_reader_of_another_queue_is_not_affected(self, driver: QueueDriver) -> None:
        other = driver.other_queue("other")
        other.enqueue_all("xy")
        first = other.journal()[0].cursor
        cut_behind_f(driver)

        assert [event.id for event in other.store.events(other.queue, first, 100)] == ["y"]

    def test_a_reader_of_all_queues_gets_the_error_of_any(self, driver: QueueDriver) -> None:
        other = driver.other_queue("other")
        other.enqueue_all("xy")
        driver.clock.advance(1.0)
        first = other.journal()[0].cursor
        cut_behind_f(driver)

        with pytest.raises(EventsDropped) as caught:
            driver.store.events(None, first, 100)

        left = driver.store.events(None, caught.value.cursor, 100)
        assert [event.id for event in left] == ["g", "h", "i", ""]

    def test_a_reader_of_a_tenant_gets_the_error_of_its_own_queues_only(
        self, driver: QueueDriver
    ) -> None:
        other, away = driver.other_queue("other"), driver.other_queue("work", tenant="acme")
        for queue in (other, away):
            queue.enqueue_all("xy")
        driver.clock.advance(1.0)
        first, start = other.journal()[0].cursor, away.journal()[0].cursor
        cut_behind_f(driver)

        with pytest.raises(EventsDropped) as caught:
            driver.store.events(None, first, 100, tenant=driver.queue.tenant)

        left = driver.store.events(None, caught.value.cursor, 100, tenant=driver.queue.tenant)
        assert [event.id for event in left] == ["g", "h", "i", ""]
        assert [event.id for event in driver.store.events(None, start, 9, tenant="acme")] == ["y"]

    def test_a_long_journal_is_read_without_a_gap(self, driver: QueueDriver) -> None:
        """If events are dropped while a store reads, the next call raises the error."""
        for n in range(250):
            driver.enqueue(str(n))
        half = driver.journal()[124].cursor
        driver.configure(max_journal=126)
        driver.store.prune(driver.queue, 100)

        found = driver.store.events(driver.queue, half, NO_LIMIT)

        assert [event.id for event in found] == [*map(str, range(125, 250)), ""]

    def test_the_store_keeps_what_was_dropped_after_reopening(
        self, driver: QueueDriver, store: Store
    ) -> None:
        cursors = cut_behind_f(driver)
        store.close()
        store.open()

        with pytest.raises(EventsDropped):
            store.events(driver.queue, cursors["a"], 100)
        assert store.events(driver.queue, cursors["h"], 1)[0].id == "i"
