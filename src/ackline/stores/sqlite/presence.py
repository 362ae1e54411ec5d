"""Locks that say that this process has the file open, and that nothing else it does can drop.

SQLite says so by POSIX locks, which belong to the process. They are gone as soon as anything in it
closes the file, be it after a copy, and another SQLite library in it does not see them. Whoever
closes the file next then believes to be the last one, and removes the log under our feet, with all
that is written to it afterwards. So the same bytes are locked once more, by a kind of lock that
belongs to an open file: SQLite in any process, and any other library in this one, respects it.
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
"""What SQLite locks for as long as a file is open, as its format says: in the file itself against
whoever would remove the log, in the index of the log against whoever would build it anew."""


class Presence:
    """One store's part in the locks of its process."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._locks: _Locks | None = None

    def begin(self) -> None:
        """Lock, once a connection is open."""
        self._locks = _shares.join(self._path, self)

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """Close the last connection in here: unlocked, it may tidy the log away."""
        locks, self._locks = self._locks, None
        if locks is not None:
            _shares.leave(locks, self)
        yield


class _Locks:
    """The locks of a process on one file, shared by its stores.

    To close a file drops all that SQLite has locked of it in this process. So it stays open
    until the last store has gone, and is closed with this object.
    """

    def __init__(self, path: str) -> None:
        self._present: weakref.WeakSet[Presence] = weakref.WeakSet()
        self._files: dict[str, int] = {}
        for suffix in _BYTES:
            # Without it, there is one guard less, as in a system that has no such locks.
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
        """In a forked child, where nobody will let go of what another thread held."""
        self._one_at_a_time = threading.Lock()


_shares = _Shares()
os.register_at_fork(after_in_child=_shares.start_anew)
