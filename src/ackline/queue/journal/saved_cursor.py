"""The saved cursors of the journal's readers."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from ackline.core.errors import ReaderMoved
from ackline.core.events import read_cursor
from ackline.core.ids import new_id
from ackline.core.limits import require_name
from ackline.core.reserved_keys import KeyFamily, reserved_key
from ackline.stores.contract import KeyWrite, Store, find_key

ALL_QUEUES = ""
"""Stands for all queues in which a reader has no cursor yet; no queue has an empty name."""


class SavedCursor(msgspec.Struct, frozen=True):
    """Where a reader continues, as stored; `saved_by` identifies the process that wrote it."""

    cursor: str
    saved_at: float
    saved_by: str


def decode_saved_cursor(value: bytes) -> SavedCursor:
    """Decode a saved cursor; raises if the value is invalid."""
    saved = msgspec.json.decode(value, type=SavedCursor)
    read_cursor(saved.cursor)
    return saved


def reader_keys(queue: str) -> tuple[str, ...]:
    """The prefix of the keys of a queue's readers, or of those that read every queue."""
    return reserved_key(KeyFamily.READERS, queue)


def cursor_write(queue: str, name: str, saved: SavedCursor, version: int | None = None) -> KeyWrite:
    """The write that saves a reader's cursor; without a version, unconditionally."""
    key = (*reader_keys(queue), name)
    return KeyWrite(key=key, value=msgspec.json.encode(saved), version=version)


class ReaderCursor:
    """The cursor of a reader in one queue, or in all that it has not read yet."""

    def __init__(self, store: Store, tenant: str, queue: str, name: str) -> None:
        require_name("reader", name)
        self._store = store
        self._tenant = tenant
        self._queue = queue
        self._name = name
        self._path = (*reader_keys(queue), name)
        self._id = new_id()
        self._saved: SavedCursor | None = None

    def load(self, first: Callable[[], str]) -> str:
        """Where this name last saved; a new name starts at the cursor that `first` returns."""
        while self._saved is None:
            self._saved, version = self._find()
            if self._saved is None:
                self._write(self._make_saved_cursor(first()), version)
        return self._saved.cursor

    def save(self, cursor: str) -> None:
        """Save a cursor, after `load`; `ReaderMoved` if another process saved or deleted it."""
        assert self._saved is not None
        if cursor == self._saved.cursor:
            return
        new = self._make_saved_cursor(cursor)
        while True:
            found, version = self._find()
            # It is our own if an earlier write was applied, but its reply was lost.
            if found is None or (found != self._saved and found.saved_by != new.saved_by):
                moved_to = found.cursor if found is not None else None
                raise ReaderMoved(self._queue or None, self._name, moved_to)
            if self._write(new, version):
                self._saved = new
                return

    def forget(self) -> None:
        """Delete the saved cursor of this name."""
        self._store.write_keys(self._tenant, [KeyWrite(key=self._path, value=None)])
        self._saved = None

    def _make_saved_cursor(self, cursor: str) -> SavedCursor:
        # With the process id, because a forked process is another reader.
        return SavedCursor(cursor, self._store.now(), f"{self._id} {os.getpid()}")

    def _find(self) -> tuple[SavedCursor | None, int]:
        entry = find_key(self._store, self._tenant, self._path)
        return (None, 0) if entry is None else (decode_saved_cursor(entry.value), entry.version)

    def _write(self, saved: SavedCursor, version: int) -> bool:
        write = cursor_write(self._queue, self._name, saved, version)
        return self._store.write_keys(self._tenant, [write])
