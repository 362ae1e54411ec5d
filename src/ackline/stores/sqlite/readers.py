"""Connections that only read; they never block a writer."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import apsw

from ackline.stores.sqlite.connection import Execute, connect_reader

_MOMENT = 0.001
"""Seconds between two checks. Forks are rare, and an interrupt can break a Condition."""

MOST_IDLE = 16
"""The most connections kept for later reads; many at once are rare, and each has open files."""


class Readers:
    """A few connections, handed out to one caller at a time."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._idle: list[apsw.Connection] = []
        self._out = 0
        self._paused = False
        self._closed = False
        self._watching = threading.Lock()
        self._watcher: apsw.Connection | None = None
        self._watchers = 0

    @contextlib.contextmanager
    def read(self) -> Iterator[Execute]:
        """Run statements that all see one snapshot. Be quick: the log cannot be cut meanwhile."""
        with self._counted():
            reader = self._take()
            try:
                reader.execute("BEGIN")
                yield reader.execute
            finally:
                self._give_back(reader)

    def version(self) -> int:
        """A number that changes whenever any process has written to the file."""
        with self._counted(), self._watching:
            if self._watcher is None:
                # Always the same connection, because the number has a meaning only within one.
                self._watcher = connect_reader(self._path)
                self._watchers += 1
            execute: Execute = self._watcher.execute
            version = int(execute("PRAGMA data_version").fetchall()[0][0])
            return (self._watchers << 32) + version

    def close(self) -> None:
        """Close idle connections; one in use is closed when it is given back."""
        with self._lock, self._watching:
            self._closed = True
            self._close_idle()

    def pause(self, timeout: float) -> bool:
        """Block all reads and close everything; False if one is still under way in the end."""
        end = time.monotonic() + timeout
        self._paused = True
        while True:
            with self._lock:
                if self._out == 0:
                    self._close_idle()
                    return True
            if time.monotonic() > end:
                return False
            time.sleep(_MOMENT)

    def resume(self) -> None:
        """Let others read again."""
        self._paused = False

    def _close_idle(self) -> None:
        for connection in (*self._idle, self._watcher):
            if connection is not None:
                connection.close()
        self._idle.clear()
        self._watcher = None

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        counted = False
        try:
            while not counted:
                with self._lock:
                    if not self._paused:
                        self._out += 1
                        counted = True
                if not counted:
                    time.sleep(_MOMENT)
            yield
        finally:
            if counted:
                with self._lock:
                    self._out -= 1

    def _take(self) -> apsw.Connection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return connect_reader(self._path)

    def _give_back(self, reader: apsw.Connection) -> None:
        try:
            if reader.in_transaction:
                reader.execute("ROLLBACK")
        except BaseException:
            # The state of the connection is unknown.
            reader.close(True)
            raise
        with self._lock:
            if not self._closed and len(self._idle) < MOST_IDLE:
                self._idle.append(reader)
                return
        reader.close()
