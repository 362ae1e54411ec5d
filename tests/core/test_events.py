from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackline.core.events import (
    Act,
    Entry,
    Events,
    JournalBatch,
    LazyEntries,
    count_unread,
    make_cursor,
    read_cursor,
)
from ackline.core.job import QueueKey, State
from ackline.stores.shared.journal_batches import UniformRun, uniform_runs

QUEUE = QueueKey("default", "mail")
states = st.none() | st.sampled_from(State)
entries = st.builds(
    Entry,
    act=st.sampled_from(Act),
    id=st.text(st.characters(exclude_categories=["Cs"])),
    kind=st.just("k"),
    source=states,
    to=states,
    attempt=st.integers(0, 9),
    token=st.integers(0, 2**62),
    worker=st.sampled_from(["", "w1"]),
    note=st.just(""),
    by=st.sampled_from(["", "me"]),
    priority=st.none() | st.integers(0, 9),
)


def read(entries: Sequence[Entry], number: int = 7) -> Events:
    return Events.up_to_limit([JournalBatch(number, 1.5, QUEUE, entries)], (number, 0), 10**6)


class PackedList:
    """A packed batch that says whether it was unpacked."""

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.unpacked = 0

    def unpack(self) -> list[Entry]:
        self.unpacked += 1
        return self.entries

    def uniform_runs(self) -> list[UniformRun]:
        """Two runs of rows of two bytes, of which the second is an id."""
        rows = [b"-" + entry.id.encode() for entry in self.entries]
        half = len(rows) // 2
        return [
            UniformRun(self.entries[0], rows[0], b"".join(some), 2, slice(1, 2))
            for some in (rows[:half], rows[half:])
            if some
        ]


def unread(entries: list[Entry]) -> LazyEntries:
    return LazyEntries(PackedList(entries), range(len(entries)))


@given(st.lists(entries), st.integers(-6, 6), st.integers(-6, 6))
def test_unread_entries_are_those_that_were_packed(listed, start, end):
    batch = unread(listed)

    assert len(batch) == len(listed)
    assert list(batch[start:end]) == listed[start:end]
    assert list(batch[start:end][1:]) == listed[start:end][1:]
    assert list(batch[::2]) == listed[::2]
    assert [batch[place] for place in range(len(listed))] == listed
    assert list(batch) == listed
    assert read(unread(listed)) == read(listed)


def test_entries_that_nobody_looks_at_are_not_unpacked():
    packed = PackedList([Entry(Act.CLAIM, id, "k", None, None) for id in "abcdef"])
    batch = LazyEntries(packed, range(6))

    events = Events.up_to_limit([JournalBatch(7, 1.5, QUEUE, batch)], (7, 2), 3).until("7.4")

    assert (len(events), events.cursor, packed.unpacked) == (2, "7.4", 0)
    assert [event.id for event in events] == ["c", "d"]
    assert packed.unpacked == 1


@given(st.integers(1, 6), st.integers(0, 6), st.integers(0, 6))
def test_rows_are_those_of_the_same_places(size, start, end):
    listed = [Entry(Act.CLAIM, id, "k", None, None) for id in "abcdef"[:size]]

    part = unread(listed)[start:end]

    assert isinstance(part, LazyEntries)
    found = uniform_runs(part)
    assert all(len(rows) for rows in found)
    assert b"".join(rows.rows for rows in found)[1::2].decode() == "abcdef"[:size][start:end]


@given(st.integers(1, 3), st.integers(1, 3), st.tuples(st.integers(1, 3), st.integers(0, 3)))
def test_unseen_are_those_that_a_reader_would_get(batch, size, reader):
    entries = [Entry(Act.CLAIM, "a", "k", None, None)] * size
    behind = [e for e in read(entries, batch) if read_cursor(e.cursor) > reader]

    assert count_unread(batch, size, reader) == len(behind)
    assert count_unread(batch, size, None) == 0


def test_a_cursor_is_behind_its_entry():
    batch = [Entry(Act.ENQUEUE, id, "k", None, State.QUEUED) for id in "abc"]

    cursors = [event.cursor for event in read(batch)]

    assert [read_cursor(cursor) for cursor in cursors] == [(7, 1), (7, 2), (7, 3)]


@given(st.integers(0, 2**62), st.integers(0, 10**6))
def test_cursors_are_read_as_they_are_made(batch, used):
    assert read_cursor(make_cursor(batch, used)) == (batch, used)


@pytest.mark.parametrize("nothing", [None, ""])
def test_no_cursor_is_before_everything(nothing):
    assert read_cursor(nothing) == (0, 0)


@pytest.mark.parametrize("cursor", ["x", "1", "1.x", ".1", "1.2.3"])
def test_what_is_no_cursor_is_refused(cursor):
    with pytest.raises(ValueError, match="cursor"):
        read_cursor(cursor)


def journal(*sizes: int) -> list[JournalBatch]:
    """Batches of so many entries each, numbered from 1."""
    return [
        JournalBatch(
            number, 1.5, QUEUE, [Entry(Act.CLAIM, id, "k", None, None) for id in "abcd"[:size]]
        )
        for number, size in enumerate(sizes, 1)
    ]


sizes = st.lists(st.integers(1, 4), max_size=6)
places = st.tuples(st.integers(0, 7), st.integers(0, 5))


@given(sizes, places, st.integers(-1, 12))
def test_as_many_as_asked_for_behind_a_place(sizes, after, limit):
    batches = [batch for batch in journal(*sizes) if batch.number >= after[0]]
    all_of_them = [event for batch in batches for event in Events([batch])]

    found = Events.up_to_limit(batches, after, limit)

    behind = [event for event in all_of_them if read_cursor(event.cursor) > after]
    assert found == behind[: max(0, limit)]
    assert len(found) == len(list(found))
    assert bool(found) == bool(list(found))
    assert found.cursor == (found[-1].cursor if found else None)


@given(sizes, places, places, st.integers(0, 12))
def test_what_is_not_behind_a_place(sizes, after, until, limit):
    batches = [batch for batch in journal(*sizes) if batch.number >= after[0]]
    found = Events.up_to_limit(batches, after, limit)

    cut = found.until(make_cursor(*until))

    assert cut == [event for event in found if read_cursor(event.cursor) <= until]


def test_no_batch_is_read_beyond_those_that_are_needed():
    batches = iter(journal(2, 2, 2))

    assert len(Events.up_to_limit(batches, (0, 0), 4)) == 4
    assert next(batches).number == 3


@given(sizes, places)
def test_events_without_batches_are_one_each(sizes, after):
    found = Events.up_to_limit(journal(*sizes), after, 100)

    assert Events.from_sequence(list(found)) == found
    assert Events.from_sequence(found) is found


def test_events_are_a_sequence_that_compares_as_a_list_does():
    found = Events(journal(2, 1))
    first, second, third = found

    assert (found[0], found[-1], found[1:]) == (first, third, [second, third])
    assert [*found] == found
    assert found != [first]
    assert found != (first, second, third)
    assert third in found
    assert repr(found) == repr([first, second, third])
