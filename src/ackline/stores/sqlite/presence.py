"""Locks that show that this process has the file open, and that it cannot drop by accident.

SQLite uses POSIX locks for this, which belong to the process. They are lost as soon as anything in
the process closes the file, even after a mere copy, and a second SQLite library in the process does
not see them. The next to close the file then believes that it is the last, and removes the log that
we are still writing to. So the same bytes are locked once more, by a kind of lock that belongs to
an open file: SQLite in any process, and any other library in this one, respects it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import sys
import threading
import weakref
from collections.abc import Iterator

from ackline.stores.sqlite.opening import identity

_BYTES = {"": (0x4000_0002, 510), "-shm": (128, 1)}
"""The bytes (start, length) that SQLite's format locks while a file is open: in the file itself,
so that nobody removes the log; in the log's index, so that nobody rebuilds it."""


class Presence:
    """One store's part in the locks of its process."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._locks: _Locks | None = None

    def begin(self) -> None:
        """Take the locks; a connection must be open."""
        self._locks = _shares.join(self._path, self)

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """Close the last connection in this block: without our locks, it may remove the log."""
        locks, self._locks = self._locks, None
        if locks is not None:
            _shares.leave(locks, self)
        yield


class _Locks:
    """The locks of a process on one file, shared by its stores.

    Closing a file drops all locks that SQLite has on it in this process. So it stays open until
    the last store is gone, and is closed with this object.
    """

    def __init__(self, path: str) -> None:
        self._present: weakref.WeakSet[Presence] = weakref.WeakSet()
        self._files: dict[str, int] = {}
        for suffix in _BYTES:
            # If it cannot be opened, there is one guard less, as on systems without such locks.
            with contextlib.suppress(OSError):
                self._files[suffix] = os.open(path + suffix, os.O_RDONLY | os.O_CLOEXEC)
        # Not when the interpreter ends: other threads may still be writing.
        weakref.finalize(self, _close, list(self._files.values())).atexit = False

    def join(self, presence: Presence) -> None:
        self._present.add(presence)
        self._set(fcntl.F_RDLCK)

    def leave(self, presence: Presence) -> None:
        self._present.discard(presence)
        if not self._present:
            self._set(fcntl.F_UNLCK)

    def _set(self, kind: int) -> None:
        for suffix, file in self._files.items():
            with contextlib.suppress(OSError):
                _lock(file, kind, *_BYTES[suffix])


def _lock(file: int, kind: int, start: int, length: int) -> None:
    if sys.platform == "linux":
        wanted = struct.pack("hhqqi", kind, os.SEEK_SET, start, length, 0)
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, wanted)


def _close(files: list[int]) -> None:
    for file in files:
        os.close(file)


class _Shares:
    """The locks of this process, each for as long as a store has a part in it."""

    def __init__(self) -> None:
        self._all: weakref.WeakValueDictionary[object, _Locks] = weakref.WeakValueDictionary()
        self._one_at_a_time = threading.Lock()

    def join(self, path: str, presence: Presence) -> _Locks:
        with self._one_at_a_time:
            key = identity(path)
            locks = self._all.get(key)
            if locks is None:
                locks = self._all[key] = _Locks(path)
            locks.join(presence)
            return locks

    def leave(self, locks: _Locks, presence: Presence) -> None:
        with self._one_at_a_time:
            locks.leave(presence)

    def start_anew(self) -> None:
        """In a forked child, where nobody will release a lock that another thread held."""
        self._one_at_a_time = threading.Lock()


_shares = _Shares()
os.register_at_fork(after_in_child=_shares.start_anew)
