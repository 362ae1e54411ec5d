"""Which process may write next.

SQLite lets the quickest retry win, so one busy process can starve the others. The kernel
queues the processes that wait for a `flock` in order. Only fairness rests on this, never
correctness: a process that has waited in vain goes on without, and SQLite's own lock decides.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import weakref

from ackline.stores.sqlite.opening import permissions

SECOND_PATIENCE = 0.02
"""The share of its timeout that a writer waits if its last wait was in vain."""


class Turn:
    """A lock on a file beside the database; `take` waits in line, but not for ever.

    One thread at a time.
    """

    def __init__(self, database: str) -> None:
        self._database = database
        self._line: _Line | None = None

    def take(self, timeout: float) -> bool:
        """Wait for our turn; False when the time is up."""
        if self._line is None:
            self._line = _Line(self._database)
        return self._line.take(timeout)

    def leave(self) -> None:
        """Let the next process write; harmless without a turn."""
        if self._line is not None:
            self._line.leave()

    def close(self) -> None:
        """Close the lock file."""
        line, self._line = self._line, None
        if line is not None:
            line.close()


class _Line:
    """The open lock file, and at most one thread that waits for the lock on our behalf.

    A flock cannot time out, and its holder may be a stopped process. A thread that waits in vain
    is left waiting, for the next `take`. If nobody wants the lock when it gets it, it releases
    the lock at once.
    """

    def __init__(self, database: str) -> None:
        self._file: int | None = _open_beside(database)
        self._closing = weakref.finalize(self, os.close, self._file)
        # Not when the interpreter ends: other threads may still be writing.
        self._closing.atexit = False
        self._lock = threading.Lock()
        self._through = threading.Lock()
        self._standing = False
        self._wanted = False
        self._closed = False
        _LINES.add(self)

    def take(self, timeout: float) -> bool:
        with self._lock:
            self._wanted = True
            if self._standing:
                timeout *= SECOND_PATIENCE
            elif self._file is not None:
                try:
                    fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    self._send_one_to_stand(self._file)
                else:
                    return True
            through = self._through = threading.Lock()
            through.acquire()
        taken = False
        try:
            taken = through.acquire(timeout=timeout)
        finally:
            if not taken:
                self.leave()
        return taken

    def _send_one_to_stand(self, file: int) -> None:
        self._standing = True
        try:
            threading.Thread(target=self._stand, args=(file,), daemon=True).start()
        except RuntimeError:
            # No more threads: do without.
            self._standing = False

    def _stand(self, file: int) -> None:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        with self._lock:
            self._standing = False
            if self._closed:
                self._close_file()
            elif self._wanted:
                self._through.release()
            else:
                fcntl.flock(file, fcntl.LOCK_UN)

    def leave(self) -> None:
        with self._lock:
            self._wanted = False
            if not self._standing and self._file is not None:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._wanted = False
            if not self._standing:
                self._close_file()

    def forget(self) -> None:
        """In a forked child: close the file, so that only the parent holds the lock."""
        self._lock = threading.Lock()
        self._close_file()

    def _close_file(self) -> None:
        self._file = None
        self._closing()


def _open_beside(database: str) -> int:
    """Open the lock file, made for the database's users; to lock it, reading is enough."""
    path, reading = f"{database}-lock", os.O_RDONLY | os.O_CLOEXEC
    with contextlib.suppress(FileNotFoundError):
        return os.open(path, reading)
    mode = permissions(database)
    file = os.open(path, reading | os.O_CREAT, mode)
    with contextlib.suppress(PermissionError):  # another user made it first, and owns it
        os.fchmod(file, mode)
    return file


_LINES: weakref.WeakSet[_Line] = weakref.WeakSet()


def _forget_all() -> None:
    for line in list(_LINES):
        line.forget()


os.register_at_fork(after_in_child=_forget_all)
