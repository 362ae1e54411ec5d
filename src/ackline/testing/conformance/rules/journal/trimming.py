"""What is dropped from the journal, and which readers are told."""

from __future__ import annotations

import logging

import msgspec
import pytest

from ackline.core.errors import EventsDropped
from ackline.stores.contract import Store
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import NO_LIMIT, QueueDriver

AGE = 60.0


def left_of(bench: QueueDriver) -> str:
    """Prune; returns the ids of the jobs that are still in the journal."""
    bench.store.prune(bench.queue, 100)
    return "".join(event.id for event in bench.journal())


def cursors_of(bench: QueueDriver) -> dict[str, str]:
    """The cursor of each job's event; the one of "" is that of a change of settings."""
    return {event.id: event.cursor for event in bench.journal()}


def old_and_new(bench: QueueDriver) -> dict[str, str]:
    """Enqueue three batches, two of them too old to keep; returns their cursors."""
    bench.configure(keep_journal=AGE)
    bench.put_all("abc")
    bench.put_all("def")
    bench.clock.advance(AGE + 1.0)
    bench.put_all("ghi")
    return cursors_of(bench)


def cut_behind_f(bench: QueueDriver) -> dict[str, str]:
    """Enqueue three batches, drop the first two; returns the cursors of all three."""
    for ids in ("abc", "def", "ghi"):
        bench.put_all(ids)
        bench.clock.advance(1.0)
    cursors = cursors_of(bench)
    bench.configure(max_journal=4)
    bench.store.prune(bench.queue, 100)
    return cursors


class TrimRules(StoreCase):
    """Rule 13: the journal is bounded, by age and by size; whole batches go, the oldest first."""

    def test_the_journal_is_bounded_by_age(self, bench: QueueDriver) -> None:
        bench.configure(keep_journal=AGE)
        bench.put("a")
        bench.clock.advance(AGE + 1.0)
        bench.put("b")

        assert left_of(bench) == "b"

    def test_the_journal_is_bounded_by_size(self, bench: QueueDriver) -> None:
        bench.configure(max_journal=5)
        for id in "abcdefghijk":
            bench.put(id)

        assert left_of(bench) == "ghijk"

    def test_events_are_counted_and_not_batches(self, bench: QueueDriver) -> None:
        bench.configure(max_journal=5)
        for ids in ("abc", "def", "ghi"):
            bench.put_all(ids)

        assert left_of(bench) == "ghi"

    def test_what_is_left_is_counted_on(self, bench: QueueDriver) -> None:
        bench.configure(max_journal=5)
        bench.put_all("abc")
        assert left_of(bench) == "abc"
        bench.put_all("de")
        assert left_of(bench) == "abcde"
        bench.put("f")
        assert left_of(bench) == "def"
        bench.put_all("gh")
        assert left_of(bench) == "defgh"

    def test_a_journal_of_no_events_is_kept_empty(self, bench: QueueDriver) -> None:
        bench.configure(max_journal=0)
        bench.put_all("abc")

        assert left_of(bench) == ""
        bench.put("d")
        assert [event.id for event in bench.journal()] == ["d"]

    def test_without_a_setting_the_store_says_how_many(
        self, bench: QueueDriver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        few = msgspec.structs.replace(bench.store.capabilities, max_journal=2)
        monkeypatch.setattr(bench.store, "capabilities", few)
        for id in "abcd":
            bench.put(id)

        assert left_of(bench) == "cd"

    def test_trimming_reaches_no_other_queue(self, bench: QueueDriver) -> None:
        other = bench.other_queue("other")
        bench.configure(max_journal=0)
        other.put_all("abc")
        bench.put("d")

        assert left_of(bench) == ""
        assert [event.id for event in other.journal()] == ["a", "b", "c"]


class NeededRules(StoreCase):
    """What a registered reader has not seen is kept whatever its age, up to the size limit."""

    @pytest.mark.parametrize(
        ("seen", "left"), [("", "abc"), ("a", "abc"), ("b", "abc"), ("c", "def"), ("e", "def")]
    )
    def test_age_drops_no_batch_that_a_reader_needs(
        self, bench: QueueDriver, seen: str, left: str
    ) -> None:
        cursors = old_and_new(bench)

        bench.store.prune(bench.queue, 100, cursors[seen])

        assert [event.id for event in bench.journal()][:3] == list(left)
        bench.store.events(bench.queue, cursors[seen], 1)

    @pytest.mark.parametrize("seen", ["f", "g", "i", None])
    def test_age_drops_what_all_readers_have_seen(
        self, bench: QueueDriver, seen: str | None
    ) -> None:
        cursors = old_and_new(bench)

        bench.store.prune(bench.queue, 100, cursors[seen] if seen else None)

        assert [event.id for event in bench.journal()] == ["g", "h", "i"]

    def test_a_reader_of_another_queue_has_a_cursor_that_is_good_here(
        self, bench: QueueDriver
    ) -> None:
        """A cursor is a place in all journals: here it lies between two entries."""
        bench.configure(keep_journal=AGE)
        bench.put("a")
        bench.clock.advance(1.0)
        other = bench.other_queue("other")
        other.put("x")
        bench.clock.advance(1.0)
        bench.put("b")
        bench.clock.advance(2 * AGE)

        bench.store.prune(bench.queue, 100, other.journal()[0].cursor)

        assert [event.id for event in bench.journal()] == ["b"]

    def test_size_drops_it_all_the_same_and_says_so_once(
        self, bench: QueueDriver, caplog: pytest.LogCaptureFixture
    ) -> None:
        cursors = old_and_new(bench)
        bench.configure(max_journal=4)

        with caplog.at_level(logging.WARNING, "ackline"):
            bench.store.prune(bench.queue, 100, cursors["b"])

        assert [event.id for event in bench.journal()] == ["g", "h", "i", ""]
        [warning] = caplog.records
        assert "work" in warning.getMessage()
        assert "4 events" in warning.getMessage()

    @pytest.mark.parametrize("seen", ["i", None])
    def test_what_nobody_misses_is_dropped_in_silence(
        self, bench: QueueDriver, caplog: pytest.LogCaptureFixture, seen: str | None
    ) -> None:
        cursors = old_and_new(bench)
        bench.configure(max_journal=1)

        with caplog.at_level(logging.WARNING, "ackline"):
            bench.store.prune(bench.queue, 100, cursors[seen] if seen else None)

        assert caplog.records == []


class TrimmedReaderRules(StoreCase):
    """Rule 14: a reader whose events are gone is told, and never skips them unseen."""

    @pytest.mark.parametrize("seen", ["a", "c", "d", "e"])
    def test_who_has_not_seen_what_was_dropped_is_told(self, bench: QueueDriver, seen: str) -> None:
        cursor = cut_behind_f(bench)[seen]

        with pytest.raises(EventsDropped) as caught:
            bench.store.events(bench.queue, cursor, 100)

        assert cursor in str(caught.value)
        assert caught.value.cursor in str(caught.value)
        left = bench.store.events(bench.queue, caught.value.cursor, 100)
        assert [event.id for event in left] == ["g", "h", "i", ""]

    @pytest.mark.parametrize(("seen", "left"), [("f", "ghi"), ("g", "hi"), ("i", "")])
    def test_who_has_seen_it_reads_on(self, bench: QueueDriver, seen: str, left: str) -> None:
        cursor = cut_behind_f(bench)[seen]

        found = bench.store.events(bench.queue, cursor, 100)

        assert "".join(event.id for event in found) == left

    def test_without_a_cursor_it_begins_with_the_oldest_that_is_kept(
        self, bench: QueueDriver
    ) -> None:
        cut_behind_f(bench)

        for queue in (bench.queue, None):
            found = bench.store.events(queue, None, 100)
            assert [event.id for event in found] == ["g", "h", "i", ""]

    def test_who_started_at_the_end_is_told_as_well(self, bench: QueueDriver) -> None:
        bench.put("a")
        cursor = bench.store.info().cursor
        bench.configure(max_journal=0)
        bench.put("b")
        bench.store.prune(bench.queue, 100)

        with pytest.raises(EventsDropped):
            bench.store.events(bench.queue, cursor, 100)

    def test_a_journal_that_is_empty_has_not_forgotten_it(self, bench: QueueDriver) -> None:
        bench.put_all("ab")
        cursors = [event.cursor for event in bench.journal()]
        bench.configure(max_journal=0)
        bench.store.prune(bench.queue, 100)

        with pytest.raises(EventsDropped) as caught:
            bench.store.events(bench.queue, cursors[0], 100)
        assert bench.store.events(bench.queue, caught.value.cursor, 100) == []

    def test_who_reads_on_in_time_is_never_refused(self, bench: QueueDriver) -> None:
        bench.configure(max_journal=3)
        seen, cursor = [], None
        for id in "abcdefghij":
            bench.put(id)
            bench.store.prune(bench.queue, 100)
            for event in bench.store.events(bench.queue, cursor, 100):
                seen.append(event.id)
                cursor = event.cursor

        assert seen == ["", *"abcdefghij"]

    def test_a_reader_of_another_queue_is_not_concerned(self, bench: QueueDriver) -> None:
        other = bench.other_queue("other")
        other.put_all("xy")
        first = other.journal()[0].cursor
        cut_behind_f(bench)

        assert [event.id for event in other.store.events(other.queue, first, 100)] == ["y"]

    def test_a_reader_of_all_queues_is_told_of_any(self, bench: QueueDriver) -> None:
        other = bench.other_queue("other")
        other.put_all("xy")
        bench.clock.advance(1.0)
        first = other.journal()[0].cursor
        cut_behind_f(bench)

        with pytest.raises(EventsDropped) as caught:
            bench.store.events(None, first, 100)

        left = bench.store.events(None, caught.value.cursor, 100)
        assert [event.id for event in left] == ["g", "h", "i", ""]

    def test_a_reader_of_a_tenant_is_told_of_its_own_queues_only(self, bench: QueueDriver) -> None:
        other, away = bench.other_queue("other"), bench.other_queue("work", tenant="acme")
        for queue in (other, away):
            queue.put_all("xy")
        bench.clock.advance(1.0)
        first, start = other.journal()[0].cursor, away.journal()[0].cursor
        cut_behind_f(bench)

        with pytest.raises(EventsDropped) as caught:
            bench.store.events(None, first, 100, tenant=bench.queue.tenant)

        left = bench.store.events(None, caught.value.cursor, 100, tenant=bench.queue.tenant)
        assert [event.id for event in left] == ["g", "h", "i", ""]
        assert [event.id for event in bench.store.events(None, start, 9, tenant="acme")] == ["y"]

    def test_a_long_journal_is_read_without_a_gap(self, bench: QueueDriver) -> None:
        """However much a store reads at once: a reader cut off in a call is told at the next."""
        for n in range(250):
            bench.put(str(n))
        half = bench.journal()[124].cursor
        bench.configure(max_journal=126)
        bench.store.prune(bench.queue, 100)

        found = bench.store.events(bench.queue, half, NO_LIMIT)

        assert [event.id for event in found] == [*map(str, range(125, 250)), ""]

    def test_what_was_dropped_is_remembered_by_the_store(
        self, bench: QueueDriver, store: Store
    ) -> None:
        cursors = cut_behind_f(bench)
        store.close()
        store.open()

        with pytest.raises(EventsDropped):
            store.events(bench.queue, cursors["a"], 100)
        assert store.events(bench.queue, cursors["h"], 1)[0].id == "i"
