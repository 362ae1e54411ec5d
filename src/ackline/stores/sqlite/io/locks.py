"""Locks between processes: whose turn it is to write, and which file is open and in use."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import sys
import threading
import weakref
from collections.abc import Iterator

from ackline.stores.sqlite.io.connection import file_identity, file_permissions

# --- whose turn it is to write ---
#
# SQLite lets the quickest retry win, so one busy process can starve the others. The kernel queues
# the processes that wait for a `flock` in order. Only fairness rests on this, never correctness: a
# process that has waited in vain goes on without, and SQLite's own lock decides.

REPEAT_TIMEOUT_SHARE = 0.02
"""The share of its timeout that a writer waits if its last wait was in vain."""


class WriteLock:
    """A lock on a file beside the database; `take` waits in line, but not for ever.

    One thread at a time.
    """

    def __init__(self, database: str) -> None:
        self._database = database
        self._line: _FlockWaiter | None = None

    def acquire(self, timeout: float) -> bool:
        """Wait for our turn; False when the time is up."""
        if self._line is None:
            self._line = _FlockWaiter(self._database)
        return self._line.take(timeout)

    def release(self) -> None:
        """Let the next process write; harmless without a turn."""
        if self._line is not None:
            self._line.leave()

    def close(self) -> None:
        """Close the lock file."""
        line, self._line = self._line, None
        if line is not None:
            line.close()


class _FlockWaiter:
    """The open lock file, and at most one thread that waits for the lock on our behalf.

    A flock cannot time out, and its holder may be a stopped process. A thread that waits in vain
    is left waiting, for the next `take`. If nobody wants the lock when it gets it, it releases
    the lock at once.
    """

    def __init__(self, database: str) -> None:
        self._file: int | None = _open_lock_file(database)
        self._closing = weakref.finalize(self, os.close, self._file)
        # Not when the interpreter ends: other threads may still be writing.
        self._closing.atexit = False
        self._lock = threading.Lock()
        self._acquired = threading.Lock()
        self._thread_waits = False
        self._wanted = False
        self._closed = False
        _WAITERS.add(self)

    def take(self, timeout: float) -> bool:
        with self._lock:
            self._wanted = True
            if self._thread_waits:
                timeout *= REPEAT_TIMEOUT_SHARE
            elif self._file is not None:
                try:
                    fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    self._start_waiting_thread(self._file)
                else:
                    return True
            through = self._acquired = threading.Lock()
            through.acquire()
        taken = False
        try:
            taken = through.acquire(timeout=timeout)
        finally:
            if not taken:
                self.leave()
        return taken

    def _start_waiting_thread(self, file: int) -> None:
        self._thread_waits = True
        try:
            threading.Thread(target=self._wait_for_flock, args=(file,), daemon=True).start()
        except RuntimeError:
            # No more threads: do without.
            self._thread_waits = False

    def _wait_for_flock(self, file: int) -> None:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        with self._lock:
            self._thread_waits = False
            if self._closed:
                self._close_file()
            elif self._wanted:
                self._acquired.release()
            else:
                fcntl.flock(file, fcntl.LOCK_UN)

    def leave(self) -> None:
        with self._lock:
            self._wanted = False
            if not self._thread_waits and self._file is not None:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._wanted = False
            if not self._thread_waits:
                self._close_file()

    def close_in_child(self) -> None:
        """In a forked child: close the file, so that only the parent holds the lock."""
        self._lock = threading.Lock()
        self._close_file()

    def _close_file(self) -> None:
        self._file = None
        self._closing()


def _open_lock_file(database: str) -> int:
    """Open the lock file, made for the database's users; to lock it, reading is enough."""
    path, reading = f"{database}-lock", os.O_RDONLY | os.O_CLOEXEC
    with contextlib.suppress(FileNotFoundError):
        return os.open(path, reading)
    mode = file_permissions(database)
    file = os.open(path, reading | os.O_CREAT, mode)
    with contextlib.suppress(PermissionError):  # another user made it first, and owns it
        os.fchmod(file, mode)
    return file


_WAITERS: weakref.WeakSet[_FlockWaiter] = weakref.WeakSet()


def _close_in_child() -> None:
    for line in list(_WAITERS):
        line.close_in_child()


os.register_at_fork(after_in_child=_close_in_child)


# --- that the file is open ---
#
# SQLite uses POSIX locks for this, which belong to the process. They are lost as soon as anything
# in the process closes the file, even after a mere copy, and a second SQLite library in the process
# does not see them. The next to close the file then believes that it is the last, and removes the
# log that we are still writing to. So the same bytes are locked once more, by a kind of lock that
# belongs to an open file: SQLite in any process, and any other library in this one, respects it.

_SQLITE_LOCK_BYTES = {"": (0x4000_0002, 510), "-shm": (128, 1)}
"""The bytes (start, length) that SQLite's format locks while a file is open: in the file itself,
so that nobody removes the log; in the log's index, so that nobody rebuilds it."""


class OpenFileLock:
    """One store's part in the locks of its process."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._locks: _ProcessLocks | None = None

    def acquire(self) -> None:
        """Take the locks; a connection must be open."""
        self._locks = _registry.join(self._path, self)

    @property
    def is_locked(self) -> bool:
        """Whether nobody can take the log away."""
        return self._locks is not None and self._locks.held

    @contextlib.contextmanager
    def released(self) -> Iterator[None]:
        """Close the last connection in this block: without our locks, it may remove the log."""
        locks, self._locks = self._locks, None
        if locks is not None:
            _registry.leave(locks, self)
        yield


class _ProcessLocks:
    """The locks of a process on one file, shared by its stores.

    Closing a file drops all locks that SQLite has on it in this process. So it stays open until
    the last store is gone, and is closed with this object.
    """

    def __init__(self, path: str) -> None:
        self._present: weakref.WeakSet[OpenFileLock] = weakref.WeakSet()
        self._files: dict[str, int] = {}
        self.held = False
        for suffix in _SQLITE_LOCK_BYTES:
            # If it cannot be opened, there is one guard less, as on systems without such locks.
            with contextlib.suppress(OSError):
                self._files[suffix] = os.open(path + suffix, os.O_RDONLY | os.O_CLOEXEC)
        # Not when the interpreter ends: other threads may still be writing.
        weakref.finalize(self, _close, list(self._files.values())).atexit = False

    def join(self, presence: OpenFileLock) -> None:
        self._present.add(presence)
        self.held = self._set(fcntl.F_RDLCK)

    def leave(self, presence: OpenFileLock) -> None:
        self._present.discard(presence)
        if not self._present:
            self._set(fcntl.F_UNLCK)

    def _set(self, kind: int) -> bool:
        done = 0
        for suffix, file in self._files.items():
            with contextlib.suppress(OSError):
                done += _lock(file, kind, *_SQLITE_LOCK_BYTES[suffix])
        return done == len(_SQLITE_LOCK_BYTES)


def _lock(file: int, kind: int, start: int, length: int) -> bool:
    if sys.platform != "linux":
        return False
    wanted = struct.pack("hhqqi", kind, os.SEEK_SET, start, length, 0)
    fcntl.fcntl(file, fcntl.F_OFD_SETLK, wanted)
    return True


def _close(files: list[int]) -> None:
    for file in files:
        os.close(file)


class _LockRegistry:
    """The locks of this process, each for as long as a store has a part in it."""

    def __init__(self) -> None:
        self._all: weakref.WeakValueDictionary[object, _ProcessLocks] = (
            weakref.WeakValueDictionary()
        )
        self._one_at_a_time = threading.Lock()

    def join(self, path: str, presence: OpenFileLock) -> _ProcessLocks:
        with self._one_at_a_time:
            key = file_identity(path)
            locks = self._all.get(key)
            if locks is None:
                locks = self._all[key] = _ProcessLocks(path)
            locks.join(presence)
            return locks

    def leave(self, locks: _ProcessLocks, presence: OpenFileLock) -> None:
        with self._one_at_a_time:
            locks.leave(presence)

    def reset_in_child(self) -> None:
        """In a forked child, where nobody will release a lock that another thread held."""
        self._one_at_a_time = threading.Lock()


_registry = _LockRegistry()
os.register_at_fork(after_in_child=_registry.reset_in_child)
