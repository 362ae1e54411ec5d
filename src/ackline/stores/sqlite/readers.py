"""Connections that only look; they never block a writer."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import apsw

from ackline.stores.sqlite.connection import Execute, connect_reader


class Readers:
    """A few connections, handed out to one caller at a time."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._idle: list[apsw.Connection] = []
        self._closed = False
        self._watching = threading.Lock()
        self._watcher: apsw.Connection | None = None

    @contextlib.contextmanager
    def read(self) -> Iterator[Execute]:
        """Run statements that all see one moment. Be quick: the log cannot be cut meanwhile."""
        reader = self._take()
        try:
            reader.execute("BEGIN")
            yield reader.execute
        finally:
            if reader.in_transaction:
                reader.execute("ROLLBACK")
            self._give_back(reader)

    def version(self) -> int:
        """A number that changes whenever anyone has written."""
        with self._watching:
            if self._watcher is None:
                # Always the same connection, for the number has a meaning only within one.
                self._watcher = connect_reader(self._path)
            execute: Execute = self._watcher.execute
            return int(execute("PRAGMA data_version").fetchall()[0][0])

    def close(self) -> None:
        """Close what is idle; what is in use is closed when it comes back."""
        with self._lock, self._watching:
            self._closed = True
            for connection in (*self._idle, self._watcher):
                if connection is not None:
                    connection.close()
            self._idle.clear()
            self._watcher = None

    def _take(self) -> apsw.Connection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return connect_reader(self._path)

    def _give_back(self, reader: apsw.Connection) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(reader)
                return
        reader.close()
