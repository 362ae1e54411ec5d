"""Registered readers of the journal, and what others do when it was cut under them."""

from __future__ import annotations

import contextlib
import logging
import queue as _queue
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ackline import (
    Event,
    EventsDropped,
    InvalidName,
    InvalidOption,
    Queue,
    Queues,
    ReaderMoved,
    State,
    StoreUnavailable,
)
from ackline.queue.journal.reader import oldest_needed_cursor
from ackline.queue.journal.saved_cursor import ALL_QUEUES, ReaderCursor
from ackline.testing import ManualClock


@pytest.fixture
def queue(queues: Queues) -> Queue[Any, Any]:
    return queues["email"]


def put(queue: Queue[Any, Any], *ids: str) -> None:
    for id in ids:
        queue.enqueue(1, id=id)


def ids(events: list[Event]) -> list[str]:
    return [event.id for event in events if event.id]


def cut(queue: Queue[Any, Any], most: int = 0) -> None:
    """Leave only so many events, whoever needs them."""
    queue.configure(max_journal=most)
    queue.store.prune(queue.key, 100)


@pytest.mark.every_store
class TestReader:
    def test_from_now_on(self, queue: Queue[Any, Any]) -> None:
        put(queue, "before")
        reader = queue.reader("audit", start="now")
        assert reader.read() == []
        put(queue, "after")
        assert ids(queue.reader("audit", start="now").read()) == ["after"]

    def test_a_place_once_saved_comes_before_any_start(self, queue: Queue[Any, Any]) -> None:
        put(queue, "a", "b")
        reader = queue.reader("audit")
        reader.read(1)
        reader.save()
        assert ids(queue.reader("audit", start="now").read()) == ["b"]

    def test_a_list_of_readers(self, queue: Queue[Any, Any], clock: ManualClock) -> None:
        assert queue.readers() == []
        put(queue, "a")
        reader = queue.reader("audit")
        reader.read()
        clock.advance(10)
        reader.save()
        [info] = queue.readers()
        assert (info.name, info.cursor, info.saved_at) == ("audit", reader.cursor, clock.now())

    def test_a_reader_that_has_not_read_is_not_registered(self, queue: Queue[Any, Any]) -> None:
        reader = queue.reader("audit")
        assert reader.cursor is None
        assert queue.readers() == []

    def test_saving_what_is_saved_writes_nothing(
        self, queue: Queue[Any, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put(queue, "a")
        reader = queue.reader("audit")
        reader.read()
        reader.save()
        monkeypatch.setattr(queue.store, "write_keys", None)
        reader.read()
        reader.save()

    def test_it_can_be_set_elsewhere_before_and_after_it_began(
        self, queue: Queue[Any, Any]
    ) -> None:
        put(queue, "a", "b", "c")
        cursors = [event.cursor for event in queue.events()]
        reader = queue.reader("audit")
        reader.cursor = cursors[1]
        assert ids(reader.read()) == ["c"]
        reader.cursor = cursors[0]
        reader.save()
        assert ids(queue.reader("audit").read()) == ["b", "c"]
        with pytest.raises(ValueError, match="cursor"):
            reader.cursor = "nonsense"

    def test_a_save_whose_answer_was_lost_can_be_sent_again(
        self, queue: Queue[Any, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put(queue, "a", "b")
        reader = queue.reader("audit")
        reader.read(1)
        write = queue.store.write_keys

        def write_and_fail(*arguments: Any) -> bool:
            write(*arguments)
            raise StoreUnavailable("the answer was lost")

        with monkeypatch.context() as patch:
            patch.setattr(queue.store, "write_keys", write_and_fail)
            with pytest.raises(StoreUnavailable):
                reader.save()
        reader.read(1)
        reader.save()
        assert queue.reader("audit").read() == []

    def test_a_forgotten_reader_cannot_save(self, queue: Queue[Any, Any]) -> None:
        put(queue, "a", "b")
        reader = queue.reader("audit")
        reader.read(1)
        queue.reader("audit").forget()
        with pytest.raises(ReaderMoved) as moved:
            reader.save()
        assert moved.value.cursor is None
        assert queue.readers() == []

    def test_of_many_who_save_at_once_one_wins(self, queue: Queue[Any, Any]) -> None:
        put(queue, *map(str, range(20)))
        readers = [queue.reader("audit") for _ in range(8)]
        for count, reader in enumerate(readers, 1):
            reader.read(count)

        def saved(reader: Any) -> bool:
            try:
                reader.save()
            except ReaderMoved:
                return False
            return True

        with ThreadPoolExecutor(8) as threads:
            won = list(threads.map(saved, readers))
        assert won.count(True) == 1
        assert queue.readers()[0].cursor == readers[won.index(True)].cursor

    def test_what_cannot_work_is_refused(self, queue: Queue[Any, Any]) -> None:
        with pytest.raises(InvalidName):
            queue.reader("")
        with pytest.raises(InvalidOption, match="oldest"):
            queue.reader("audit", start="yesterday")  # type: ignore[arg-type]
        with pytest.raises(InvalidOption, match="1 event"):
            queue.reader("audit").read(0)


class TestOwnKeys:
    def test_they_are_not_among_the_keys_of_users(self, queues: Queues) -> None:
        queue = queues["pay"]
        queue.enqueue(1, keys_if_undelivered=[["zebra"]])
        queue.bury(queue.claim()[0], "no")
        for n in range(5):
            queue.reader(f"reader {n}").read()
        found = queues.read_keys()
        assert [entry.key for entry in found] == [("zebra",)]
        assert [entry.key for entry in queues.read_keys(limit=1)] == [("zebra",)]

    def test_users_cannot_write_them(self, queues: Queues) -> None:
        queue = queues["pay"]
        queue.reader("audit").read()
        with pytest.raises(InvalidOption, match="reserved"):
            queues.delete_key("ackline", "readers", "pay", "audit")
        with pytest.raises(InvalidOption, match="reserved"):
            queue.enqueue(1, keys_if_undelivered=[["ackline", "readers", "pay", "audit"]])
        assert len(queue.readers()) == 1


class TestCut:
    """Nobody who follows the journal skips events in silence."""

    def test_events_behind_a_cursor(self, queue: Queue[Any, Any]) -> None:
        put(queue, "a", "b", "c")
        first = next(queue.events()).cursor
        cut(queue, 2)
        with pytest.raises(EventsDropped) as caught:
            list(queue.events(first))
        assert ids(list(queue.events(caught.value.cursor))) == ids(list(queue.events())) == ["c"]

    def test_a_watcher_is_warned_and_goes_on(
        self, queue: Queue[Any, Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        go_on = threading.Event()
        got: _queue.SimpleQueue[str] = _queue.SimpleQueue()

        def note(event: Event) -> None:
            got.put(event.id)
            go_on.wait(5)

        with contextlib.closing(queue.on("enqueue", note)), caplog.at_level(logging.WARNING):
            put(queue, "first")
            assert got.get(timeout=5) == "first"
            put(queue, "skipped", "kept")
            cut(queue, 2)
            go_on.set()
            assert got.get(timeout=5) == "kept"
        assert "skipped" in caplog.text

    # Not Redis: its messages carry the results, so nothing is read for them.
    @pytest.mark.parametrize("store_name", ["memory", "sqlite"])
    def test_who_waits_for_results_looks_for_itself(
        self,
        queue: Queue[Any, Any],
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        monkeypatch.setattr("ackline.queue.results.MAX_DIRECT_LOOKUPS", 0)
        monkeypatch.setattr("ackline.queue.results.MAX_WAIT", 60.0)
        refused: list[EventsDropped] = []
        read, reads, turn = queue.store.events, threading.Semaphore(0), threading.Lock()

        def read_too_late(*arguments: Any) -> Sequence[Event]:
            reads.release()
            with turn:
                if not refused and queue.counts()[State.COMPLETED]:
                    cut(queue)
                    try:
                        return read(*arguments)
                    except EventsDropped as error:
                        refused.append(error)
                        raise
                return read(*arguments)

        monkeypatch.setattr(queue.store, "events", read_too_late)
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(queue.enqueue_and_wait, 1, timeout=10)
            [job] = queue.claim(wait=5)
            for _ in range(2):  # with the first read, it looks at the new job, too
                while not reads.acquire(timeout=0.01):  # it is told of ends of other jobs
                    queue.cancel(queue.enqueue(1).id)
            with turn:  # either before a read looks for it, or after that read
                queue.complete(job, "done")
            assert waiting.result(10) == "done"
        assert len(refused) == 1
        assert "cannot be read" not in caplog.text


@pytest.mark.every_store
def test_who_meets_a_queue_while_it_is_pruned_keeps_its_place(
    queue: Queue[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader of all queues writes its place in a new one before it moves on in the others."""
    put(queue, "a", "b", "c")
    first, second, last = queue.store.events(queue.key, None, 3)
    ReaderCursor(queue.store, "default", ALL_QUEUES, "lake").load(lambda: first.cursor)
    own = ReaderCursor(queue.store, "default", queue.name, "lake")
    read_keys, reads = queue.store.read_keys, list[None]()

    def wait_for_others(*given: Any) -> Any:
        found = read_keys(*given)
        reads.append(None)
        if len(reads) == 1:
            own.load(lambda: second.cursor)
            every = ReaderCursor(queue.store, "default", ALL_QUEUES, "lake")
            every.load(lambda: last.cursor)
            every.save(last.cursor)
        return found

    monkeypatch.setattr(queue.store, "read_keys", wait_for_others)

    assert oldest_needed_cursor(queue.store, queue.key) in (first.cursor, second.cursor)
