"""Registered readers: each has a name, and continues the journal where that name last saved."""

from __future__ import annotations

from typing import Literal

import msgspec

from ackline.core.errors import InvalidOption
from ackline.core.events import Event, make_cursor, read_cursor
from ackline.core.job import QueueKey
from ackline.queue.journal.saved_cursor import (
    ALL_QUEUES,
    ReaderCursor,
    decode_saved_cursor,
    reader_keys,
)
from ackline.stores.contract import Store

PAGE_SIZE = 500
MAX_READERS = 10_000

Start = Literal["oldest", "now"]


class ReaderInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A registered reader: after which event it continues, and when it last saved that."""

    name: str
    cursor: str
    saved_at: float
    every_queue: bool = False
    """Whether the cursor is for all queues, also new ones, in which it has none of its own."""


class JournalReader:
    """Reads a queue's journal from where this name last saved; for one thread at a time.

    From its first read on, events that it has not saved are not dropped for their age.

    >>> reader = queue.reader("audit")  # doctest: +SKIP
    >>> for event in reader.read():  # doctest: +SKIP
    ...     keep(event)
    >>> reader.save()  # doctest: +SKIP
    """

    def __init__(self, store: Store, key: QueueKey, name: str, start: Start = "oldest") -> None:
        self._saved_cursor = ReaderCursor(store, key.tenant, key.name, name)
        if start not in ("oldest", "now"):
            raise InvalidOption(f"a reader starts with the 'oldest' event or 'now', not {start!r}")
        self.name = name
        self._store = store
        self._key = key
        self._start = start
        self._cursor: str | None = None

    @property
    def cursor(self) -> str | None:
        """The event after which it continues; set it to read from elsewhere. None at first."""
        return self._cursor

    @cursor.setter
    def cursor(self, cursor: str) -> None:
        read_cursor(cursor)
        self._cursor = cursor

    def read(self, limit: int = PAGE_SIZE) -> list[Event]:
        """The next events, up to `limit`; empty when there are no more yet.

        Raises `EventsDropped` if some that it has not read are gone.
        To go on without them, set `cursor` to that of the error.
        """
        if limit < 1:
            raise InvalidOption(f"a reader reads at least 1 event, not {limit}")
        events = list(self._store.events(self._key, self._start_cursor(), limit))
        if events:
            self._cursor = events[-1].cursor
        return events

    def save(self) -> None:
        """Save the cursor: from now on this name continues after what was read.

        Raises `ReaderMoved`, and changes nothing, if another process saved under this name in the
        meantime, or deleted it.
        """
        self._saved_cursor.save(self._start_cursor())

    def forget(self) -> None:
        """Delete the reader: events are no longer kept for it, and its next read starts over."""
        self._saved_cursor.forget()
        self._cursor = None

    def _start_cursor(self) -> str:
        """Where to continue: where this name last saved, unless `cursor` was set elsewhere."""
        saved = self._saved_cursor.load(self._initial_cursor)
        if self._cursor is None:
            self._cursor = saved
        return self._cursor

    def _initial_cursor(self) -> str:
        end = self._store.info().cursor
        oldest = self._store.events(self._key, None, 1) if self._start == "oldest" else []
        return make_cursor(read_cursor(oldest[0].cursor)[0], 0) if oldest else end


def registered_readers(store: Store, key: QueueKey) -> list[ReaderInfo]:
    """The readers of just this queue, by name."""
    return _registered(store, key.tenant, key.name)


def readers_of_every_queue(store: Store, tenant: str) -> list[ReaderInfo]:
    """The readers of all queues of a tenant, and where each starts in a new queue."""
    return _registered(store, tenant, ALL_QUEUES)


def readers_of(store: Store, key: QueueKey) -> list[ReaderInfo]:
    """The readers for which a queue's journal is kept: its own, and those that read every queue.

    If one of the latter has a cursor of its own in this queue, only that cursor counts.
    """
    # In this order: a reader that first reads this queue in between saves its cursor here before
    # it moves the one that it has for every queue.
    of_every_queue = readers_of_every_queue(store, key.tenant)
    own = registered_readers(store, key)
    known = {reader.name for reader in own}
    return own + [reader for reader in of_every_queue if reader.name not in known]


def oldest_needed_cursor(store: Store, key: QueueKey) -> str | None:
    """The smallest cursor of a queue's readers: events after it are still needed."""
    cursors = [reader.cursor for reader in readers_of(store, key)]
    return min(cursors, key=read_cursor, default=None)


def _registered(store: Store, tenant: str, queue: str) -> list[ReaderInfo]:
    entries = store.read_keys(tenant, reader_keys(queue), MAX_READERS)
    cursors = [(entry.key[-1], decode_saved_cursor(entry.value)) for entry in entries]
    return [
        ReaderInfo(
            name=name, cursor=saved.cursor, saved_at=saved.saved_at, every_queue=queue == ALL_QUEUES
        )
        for name, saved in cursors
    ]
