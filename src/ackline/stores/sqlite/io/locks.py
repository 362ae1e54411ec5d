"""Locks between processes: the write lock, and the lock of an open file."""

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

# --- the write lock ---
#
# With SQLite's own lock the fastest retry wins, so one busy process can starve the others. The
# kernel queues the processes that wait for a `flock`. Only fairness depends on it, not correctness:
# after a timeout a process writes without it, and SQLite's own lock decides.

REPEAT_TIMEOUT_SHARE = 0.02
"""The share of its timeout that a writer waits if its last wait timed out."""


class WriteLock:
    """A lock on a file next to the database, acquired in order of arrival, with a timeout.

    Used by one thread at a time.
    """

    def __init__(self, database: str) -> None:
        self._database = database
        self._waiter: _FlockWaiter | None = None

    def acquire(self, timeout: float) -> bool:
        """Wait for the lock; False after the timeout."""
        if self._waiter is None:
            self._waiter = _FlockWaiter(self._database)
        return self._waiter.acquire(timeout)

    def release(self) -> None:
        """Release the lock; does nothing if it is not held."""
        if self._waiter is not None:
            self._waiter.release()

    def close(self) -> None:
        """Close the lock file."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.close()


class _FlockWaiter:
    """The open lock file, and at most one thread that waits for the lock.

    A flock has no timeout, and its holder may be a stopped process. After a timeout the thread is
    left waiting, for the next `acquire`. If the lock is no longer wanted when it comes, the thread
    releases it immediately.
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

    def acquire(self, timeout: float) -> bool:
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
            acquired = self._acquired = threading.Lock()
            acquired.acquire()
        is_locked = False
        try:
            is_locked = acquired.acquire(timeout=timeout)
        finally:
            if not is_locked:
                self.release()
        return is_locked

    def _start_waiting_thread(self, file: int) -> None:
        self._thread_waits = True
        try:
            threading.Thread(target=self._wait_for_flock, args=(file,), daemon=True).start()
        except RuntimeError:
            # No more threads can be started: do without the lock.
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

    def release(self) -> None:
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
    """Open the lock file, created for the database's users; to lock it, reading is enough."""
    path, flags = f"{database}-lock", os.O_RDONLY | os.O_CLOEXEC
    with contextlib.suppress(FileNotFoundError):
        return os.open(path, flags)
    mode = file_permissions(database)
    file = os.open(path, flags | os.O_CREAT, mode)
    with contextlib.suppress(PermissionError):  # another user has created and owns it
        os.fchmod(file, mode)
    return file


_WAITERS: weakref.WeakSet[_FlockWaiter] = weakref.WeakSet()


def _close_in_child() -> None:
    for waiter in list(_WAITERS):
        waiter.close_in_child()


os.register_at_fork(after_in_child=_close_in_child)


# --- the lock of an open file ---
#
# SQLite marks a file as open with POSIX locks, which belong to the process. They are lost as soon
# as anything in the process closes the file, for example after copying it, and a second SQLite
# library in the process does not see them. The next process to close the file then believes that it
# is the last, and removes the log while we still write to it. So the same bytes are locked once
# more, with a kind of lock that belongs to an open file and that every SQLite respects.

_SQLITE_LOCK_BYTES = {"": (0x4000_0002, 510), "-shm": (128, 1)}
"""The bytes (start, length) that SQLite locks while a file is open: in the file itself, so that
nobody removes the log; in the log's index, so that nobody rebuilds it."""


class OpenFileLock:
    """One store's reference to the locks of its process."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._locks: _ProcessLocks | None = None

    def acquire(self) -> None:
        """Acquire the locks; a connection must be open."""
        self._locks = _registry.join(self._path, self)

    @property
    def is_locked(self) -> bool:
        """Whether nobody else can remove the log."""
        return self._locks is not None and self._locks.complete

    @contextlib.contextmanager
    def released(self) -> Iterator[None]:
        """A block to close the last connection in: without the locks, it may remove the log."""
        locks, self._locks = self._locks, None
        if locks is not None:
            _registry.leave(locks, self)
        yield


class _ProcessLocks:
    """The locks of a process on one file, shared by its stores.

    Closing a file drops all locks that SQLite has on it in this process. So it stays open until the
    last store is closed, and is closed with this object.
    """

    def __init__(self, path: str) -> None:
        self._members: weakref.WeakSet[OpenFileLock] = weakref.WeakSet()
        self._files: dict[str, int] = {}
        self.complete = False
        for suffix in _SQLITE_LOCK_BYTES:
            # If it cannot be opened, there is no lock, as on systems without such locks.
            with contextlib.suppress(OSError):
                self._files[suffix] = os.open(path + suffix, os.O_RDONLY | os.O_CLOEXEC)
        # Not when the interpreter ends: other threads may still be writing.
        weakref.finalize(self, _close, list(self._files.values())).atexit = False

    def join(self, member: OpenFileLock) -> None:
        self._members.add(member)
        self.complete = self._set(fcntl.F_RDLCK)

    def leave(self, member: OpenFileLock) -> None:
        self._members.discard(member)
        if not self._members:
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
    """The locks of this process on its files."""

    def __init__(self) -> None:
        self._all: weakref.WeakValueDictionary[object, _ProcessLocks] = (
            weakref.WeakValueDictionary()
        )
        self._lock = threading.Lock()

    def join(self, path: str, member: OpenFileLock) -> _ProcessLocks:
        with self._lock:
            key = file_identity(path)
            locks = self._all.get(key)
            if locks is None:
                locks = self._all[key] = _ProcessLocks(path)
            locks.join(member)
            return locks

    def leave(self, locks: _ProcessLocks, member: OpenFileLock) -> None:
        with self._lock:
            locks.leave(member)

    def reset_in_child(self) -> None:
        """In a forked child: replace the lock, which another thread of the parent may have held."""
        self._lock = threading.Lock()


_registry = _LockRegistry()
os.register_at_fork(after_in_child=_registry.reset_in_child)
