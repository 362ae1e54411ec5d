"""The journal's entries: what happened to which job, in batches."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, overload

import msgspec

from ackline.core.job import QueueKey, State


class Act(enum.StrEnum):
    """What can happen to a job or queue; commands, routes and buttons use the same words."""

    ENQUEUE = "enqueue"
    CLAIM = "claim"
    COMPLETE = "complete"
    FAIL = "fail"
    SNOOZE = "snooze"
    RELEASE = "release"
    EXPIRE = "expire"
    EXTEND = "extend"
    PROGRESS = "progress"
    PROMOTE = "promote"
    CANCEL = "cancel"
    REQUEST_CANCEL = "request_cancel"
    REDRIVE = "redrive"
    EDIT = "edit"
    MOVE = "move"
    PRUNE = "prune"
    PURGE = "purge"
    PAUSE = "pause"
    RESUME = "resume"
    CONFIGURE = "configure"
    DROP = "drop"

    @classmethod
    def _missing_(cls, value: object) -> Act | None:
        # What other queues call it when the worker of a job is gone.
        return cls.EXPIRE if value == "stalled" else None


class RecoveredBy(enum.StrEnum):
    """What recovered a job from a worker that did not settle it."""

    MONITOR = "monitor"
    """The supervisor saw the worker's process die."""
    DISCONNECT = "disconnect"
    """The service saw the client's stream end."""
    HEARTBEAT = "heartbeat"
    """The worker sent no more heartbeats."""
    SWEEP = "sweep"
    """A maintenance loop found the lease past its deadline."""
    CLAIM = "claim"
    """A claim found the lease past its deadline."""
    MANUAL = "manual"
    """An operator called `recover` or `expire`."""


ACTS_WITH_PRIORITY = frozenset({Act.ENQUEUE, Act.EDIT, Act.REDRIVE})
"""Acts whose entries have the job's priority; so has the entry of a job that is moved in."""


class Entry(msgspec.Struct, frozen=True, gc=False, array_like=True, omit_defaults=True):
    """One entry of a journal batch; `source` or `to` is None if the job did not exist then.

    `id` is empty for an act on the whole queue. `priority` is set where a job may have got a new
    one, see `ACTS_WITH_PRIORITY`. `callback_url` is set when the job ends: the job itself may be
    deleted before it is called. `moved_from` and `moved_to` are the names of the queues that a
    moved job has left and entered; the entries in both journals have both. `recovered_by` is set
    for an expired lease.
    """

    act: Act
    id: str
    kind: str
    source: State | None
    to: State | None
    attempt: int = 0
    token: int = 0
    worker: str = ""
    note: str = ""
    by: str = ""
    priority: int | None = None
    callback_url: str | None = None
    moved_from: str | None = None
    moved_to: str | None = None
    recovered_by: RecoveredBy | None = None


class Event(msgspec.Struct, frozen=True, gc=False):
    """An entry with its cursor; pass `cursor` back to read on from here."""

    cursor: str
    at: float
    queue: QueueKey
    act: Act
    id: str
    kind: str
    source: State | None
    to: State | None
    attempt: int
    token: int
    worker: str
    note: str
    by: str
    priority: int | None = None
    callback_url: str | None = None
    moved_from: str | None = None
    moved_to: str | None = None
    recovered_by: RecoveredBy | None = None

    @property
    def reached(self) -> State | None:
        """The state that the job has got into; None if it is in the same state as before.

        A job that is edited in its state, or moved to another queue, reaches no state.
        """
        return None if self.to is self.source or self.act is Act.MOVE else self.to


class PackedEntries(Protocol):
    """A batch of entries in its store's encoding."""

    def unpack(self) -> list[Entry]:
        """All entries."""
        ...


class LazyEntries(Sequence[Entry]):
    """Consecutive entries of a packed batch, unpacked when one is first read."""

    __slots__ = ("_entries", "indexes", "packed")

    def __init__(self, packed: PackedEntries, indexes: range) -> None:
        self.packed = packed
        self.indexes = indexes
        """The range of entries in the batch."""
        self._entries: list[Entry] | None = None

    def _read(self) -> list[Entry]:
        if self._entries is None:
            self._entries = self.packed.unpack()[self.indexes.start : self.indexes.stop]
        return self._entries

    def __len__(self) -> int:
        return len(self.indexes)

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Entry]: ...
    def __getitem__(self, index: int | slice) -> Entry | Sequence[Entry]:
        if isinstance(index, slice) and index.step is None and self._entries is None:
            return LazyEntries(self.packed, self.indexes[index])
        return self._read()[index]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._read())


class JournalBatch(msgspec.Struct, frozen=True, gc=False):
    """Entries of one batch of the journal: all of them, or some after its first `offset`."""

    number: int
    at: float
    queue: QueueKey
    entries: Sequence[Entry]
    offset: int = 0

    @property
    def end(self) -> tuple[int, int]:
        """The position after the last entry."""
        return self.number, self.offset + len(self.entries)

    def part(self, start: int, end: int) -> JournalBatch:
        """The entries from `start` up to `end`."""
        entries = self.entries[start:end]
        return JournalBatch(self.number, self.at, self.queue, entries, self.offset + start)


class Events(Sequence[Event]):
    """Events in the order of the journal, created from their batches when first read.

    Code that reads millions of events column by column uses `batches`, which creates no `Event`.
    """

    __slots__ = ("_events", "batches")

    def __init__(self, batches: list[JournalBatch]) -> None:
        self.batches = batches
        self._events: list[Event] | None = None

    @classmethod
    def up_to_limit(
        cls, batches: Iterable[JournalBatch], after: tuple[int, int], limit: int
    ) -> Events:
        """At most `limit` events after a position; `batches` begin with the batch of that position.

        It reads no more batches than it needs.
        """
        taken: list[JournalBatch] = []
        number, used = after
        left = limit
        if left > 0:
            for batch in batches:
                start = used if batch.number == number else 0
                size = len(batch.entries) - start
                if size <= 0:
                    continue
                taken.append(batch.part(start, start + left) if start or size > left else batch)
                left -= size
                if left <= 0:
                    break
        return cls(taken)

    @classmethod
    def from_sequence(cls, events: Sequence[Event]) -> Events:
        """Convert any sequence of events; each event of a plain sequence becomes a batch."""
        if isinstance(events, Events):
            return events
        return cls([_batch_of(event) for event in events])

    def until(self, cursor: str) -> Events:
        """The events up to a cursor."""
        last = read_cursor(cursor)
        if not self.batches or self.batches[-1].end <= last:
            return self
        number, used = last
        whole = [batch for batch in self.batches if batch.end <= last]
        cut = [
            batch.part(0, used - batch.offset)
            for batch in self.batches[len(whole) :]
            if batch.number == number and batch.offset < used
        ]
        return Events(whole + cut)

    @property
    def cursor(self) -> str | None:
        """The cursor after the last event; None if there are no events."""
        return make_cursor(*self.batches[-1].end) if self.batches else None

    def _all(self) -> list[Event]:
        if self._events is None:
            self._events = [
                Event(f"{batch.number}.{used}", batch.at, batch.queue, *row)
                for batch in self.batches
                for used, row in enumerate(map(_astuple, batch.entries), batch.offset + 1)
            ]
        return self._events

    def __len__(self) -> int:
        return sum([len(batch.entries) for batch in self.batches])

    def __bool__(self) -> bool:
        return bool(self.batches)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        return self._all()[index]

    def __iter__(self) -> Iterator[Event]:
        return iter(self._all())

    def __eq__(self, other: object) -> bool:
        return self._all() == list(other) if isinstance(other, (Events, list)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._all())


def _batch_of(event: Event) -> JournalBatch:
    number, used = read_cursor(event.cursor)
    entry = Entry(*_astuple(event)[-len(Entry.__struct_fields__) :])
    return JournalBatch(number, event.at, event.queue, [entry], used - 1)


_astuple = msgspec.structs.astuple


def count_unread(batch: int, size: int, reader: tuple[int, int] | None) -> int:
    """How many entries of a batch a reader has not read yet; without a reader, none.

    >>> [count_unread(batch, 3, (7, 1)) for batch in (7, 8, 6)]
    [2, 3, 0]
    """
    if reader is None or (batch, size) <= reader:
        return 0
    return size - reader[1] if batch == reader[0] else size


def make_cursor(batch: int, used: int) -> str:
    """The cursor after the first `used` entries of a batch."""
    return f"{batch}.{used}"


def read_cursor(cursor: str | None) -> tuple[int, int]:
    """The batch, and how many of its entries were read; None is before the first."""
    if not cursor:
        return (0, 0)
    batch, _, used = cursor.partition(".")
    if not (batch.isdecimal() and used.isdecimal() and cursor.isascii() and len(used) < 19):
        raise ValueError(f"{cursor!r} is not a journal cursor")
    return (int(batch), int(used))
