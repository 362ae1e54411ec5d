"""Whose turn it is to write, among processes.

SQLite lets the quickest retry win, so one busy process can starve the others. The kernel
queues those who wait for a `flock` in order. Only fairness rests on this, never correctness.
"""

from __future__ import annotations

import fcntl
import os
import threading


class Turn:
    """A lock on a side file; `take` waits in line, but not for ever."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: int | None = None

    def take(self, timeout: float) -> bool:
        """Wait for our turn; False when the time is up."""
        if self._file is None:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return self._queue_up(self._file, timeout)
        return True

    def leave(self) -> None:
        """Let the next one."""
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _queue_up(self, file: int, timeout: float) -> bool:
        # A flock cannot time out, and its holder may be a stopped process: wait in a thread.
        waiter = _Waiter(file)
        if waiter.wait(timeout):
            return True
        # The thread keeps this file and closes it once it gets through.
        self._file = None
        return False


class _Waiter:
    def __init__(self, file: int) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._got = threading.Event()
        self._abandoned = False
        threading.Thread(target=self._run, name="ackline-turn", daemon=True).start()

    def wait(self, timeout: float) -> bool:
        if self._got.wait(timeout):
            return True
        with self._lock:
            self._abandoned = not self._got.is_set()
            return not self._abandoned

    def _run(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        with self._lock:
            self._got.set()
            if self._abandoned:
                os.close(self._file)
