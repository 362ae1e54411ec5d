"""Registered readers: they read the journal on from where they ended, under a name."""

from __future__ import annotations

import os
from typing import Literal

import msgspec

from ackline.errors import InvalidOption, ReaderMoved
from ackline.events import Event, make_cursor, read_cursor
from ackline.ids import new_id
from ackline.job import QueueKey
from ackline.limits import OWN_KEYS, require_name
from ackline.queue.broken_notes import UNREADABLE, OnBroken, warn_of_broken
from ackline.stores.base import Key, KeyWrite, Store

PAGE = 500
MOST_READERS = 10_000

Start = Literal["oldest", "now"]


class ReaderInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A registered reader: after which event it continues, and when it last saved that."""

    name: str
    cursor: str
    saved_at: float


class Place(msgspec.Struct, frozen=True):
    """Where a reader reads on, as the store keeps it; `by` tells who wrote it."""

    cursor: str
    at: float
    by: str


def read_place(value: bytes) -> Place:
    """A place as it was kept; raises if it is none."""
    place = msgspec.json.decode(value, type=Place)
    read_cursor(place.cursor)
    return place


class JournalReader:
    """Reads a queue's journal on from where this name last saved; for one thread at a time.

    From its first read on, nothing that it has not saved is dropped for its age.

    >>> reader = queue.reader("audit")  # doctest: +SKIP
    >>> for event in reader.read():  # doctest: +SKIP
    ...     keep(event)
    >>> reader.save()  # doctest: +SKIP
    """

    def __init__(self, store: Store, key: QueueKey, name: str, start: Start = "oldest") -> None:
        require_name("reader", name)
        if start not in ("oldest", "now"):
            raise InvalidOption(f"a reader starts with the 'oldest' event or 'now', not {start!r}")
        self.name = name
        self._store = store
        self._key = key
        self._start = start
        self._path = (*_room(key), name)
        self._id = new_id()
        self._saved: Place | None = None
        self._cursor: str | None = None

    @property
    def cursor(self) -> str | None:
        """Behind which event it reads on; set it to read from elsewhere. None before it began."""
        return self._cursor

    @cursor.setter
    def cursor(self, cursor: str) -> None:
        read_cursor(cursor)
        self._cursor = cursor

    def read(self, limit: int = PAGE) -> list[Event]:
        """The next events, up to `limit`; empty when there are no more yet.

        Raises `EventsDropped` if some that it has not read are gone.
        To go on without them, set `cursor` to that of the error.
        """
        if limit < 1:
            raise InvalidOption(f"a reader reads at least 1 event, not {limit}")
        if self._saved is None:
            self._begin()
        events = list(self._store.events(self._key, self._cursor, limit))
        if events:
            self._cursor = events[-1].cursor
        return events

    def save(self) -> None:
        """Note that all that was read is done: from now on this name continues after it.

        Raises `ReaderMoved`, and changes nothing, if someone else saved under this name in the
        meantime, or forgot it.
        """
        if self._saved is None:
            self._begin()
        assert self._saved is not None
        assert self._cursor is not None
        if self._cursor == self._saved.cursor:
            return
        place = self._place(self._cursor)
        while True:
            found, version = self._find()
            # One's own is there if an earlier try was done, though its answer was lost.
            if found is None or (found != self._saved and found.by != place.by):
                now_at = found.cursor if found is not None else None
                raise ReaderMoved(self._key.name, self.name, now_at)
            if self._write(place, version):
                self._saved = place
                return

    def forget(self) -> None:
        """Give the name up: nothing is kept for it any more, and the next read begins anew."""
        self._store.write_keys(self._key.tenant, [KeyWrite(key=self._path, value=None)])
        self._saved = self._cursor = None

    def _begin(self) -> None:
        """Find where this name ended, or register it."""
        while self._saved is None:
            self._saved, version = self._find()
            if self._saved is None:
                self._write(self._place(self._first()), version)
        if self._cursor is None:
            self._cursor = self._saved.cursor

    def _first(self) -> str:
        end = self._store.info().cursor
        oldest = self._store.events(self._key, None, 1) if self._start == "oldest" else []
        return make_cursor(read_cursor(oldest[0].cursor)[0], 0) if oldest else end

    def _place(self, cursor: str) -> Place:
        # With the process: a forked one is someone else.
        return Place(cursor, self._store.info().now, f"{self._id} {os.getpid()}")

    def _find(self) -> tuple[Place | None, int]:
        for entry in self._store.read_keys(self._key.tenant, self._path, 1):
            if entry.key == self._path:
                return self._readable(entry), entry.version
        return None, 0

    def _readable(self, entry: Key) -> Place | None:
        try:
            return read_place(entry.value)
        except UNREADABLE as error:
            # It begins anew: rather an event twice than never one again.
            warn_of_broken(self._key.tenant, entry, error)
            return None

    def _write(self, place: Place, version: int) -> bool:
        write = KeyWrite(key=self._path, value=msgspec.json.encode(place), version=version)
        return self._store.write_keys(self._key.tenant, [write])


def registered_readers(
    store: Store, key: QueueKey, on_broken: OnBroken = warn_of_broken
) -> list[ReaderInfo]:
    """All readers of a queue, by name."""
    found = []
    for entry in store.read_keys(key.tenant, _room(key), MOST_READERS):
        try:
            place = read_place(entry.value)
        except UNREADABLE as error:
            on_broken(key.tenant, entry, error)
            continue
        found.append(ReaderInfo(name=entry.key[-1], cursor=place.cursor, saved_at=place.at))
    return found


def first_needed(store: Store, key: QueueKey, on_broken: OnBroken = warn_of_broken) -> str | None:
    """The smallest cursor of a queue's readers: what comes after it is still needed."""
    cursors = [reader.cursor for reader in registered_readers(store, key, on_broken)]
    return min(cursors, key=read_cursor, default=None)


def _room(key: QueueKey) -> tuple[str, ...]:
    return (OWN_KEYS, "readers", key.name)
