"""The write-ahead log of a file: kept short, and checked to be the one that others read."""

from __future__ import annotations

import os

import apsw

from ackline.errors import StoreUnavailable
from ackline.stores.sqlite.connection import BUSY_SECONDS
from ackline.stores.sqlite.opening import identity

LONGEST_LOG = 8 * 1024 * 1024
"""Above this many bytes the log is cut, unless readers are in the way."""


class Log:
    """The log of one file."""

    def __init__(self, path: str) -> None:
        self.path = f"{path}-wal"
        self._next_cut = LONGEST_LOG
        self._identity: tuple[int, int] | None = None
        self._size = 0

    def remember(self) -> None:
        """Note which log a connection has opened."""
        self._identity = identity(self.path)

    def require_there(self) -> None:
        """Before a transaction: refuse to write to a removed log, which nobody would read."""
        if self.removed():
            raise StoreUnavailable(
                f"{self.path} was removed while it was in use: nothing was written. "
                "Close the store and open it again"
            )

    def removed(self) -> bool:
        """Whether the log was removed: a process that opens the file would not read this one."""
        try:
            status = os.stat(self.path)
        except OSError:
            return True
        self._size = status.st_size
        return (status.st_dev, status.st_ino) != self._identity

    def cut(self, writer: apsw.Connection) -> None:
        """Copy the log back into the file and empty it, if it was long when last looked at."""
        size = self._size
        if size < self._next_cut:
            self._next_cut = max(LONGEST_LOG, min(self._next_cut, size + LONGEST_LOG // 8))
            return
        # A reader may be in the way. Do not wait for it, because writers wait for us. Try later.
        writer.set_busy_timeout(50)
        try:
            writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self._next_cut = LONGEST_LOG
        except apsw.Error:
            self._next_cut = size + LONGEST_LOG // 8
        finally:
            writer.set_busy_timeout(int(BUSY_SECONDS * 1000))
