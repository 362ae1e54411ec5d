"""The first connection to a file: is the file Ackline's, and is its schema up to date."""

from __future__ import annotations

import os
import stat
import time

import apsw

from ackline.stores.sqlite.connection import BUSY_SECONDS, Durability, connect
from ackline.stores.sqlite.migrate import check_owner, migrate


def first_connection(path: str, durability: Durability) -> apsw.Connection:
    """Connect to a file, made if need be, once it is known to be Ackline's."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            if os.path.exists(path) and os.path.getsize(path):
                _look_first(path)
            return _connect_and_migrate(path, durability)
        except apsw.BusyError:
            # While another process makes the file, SQLite refuses some steps without waiting.
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


def identity(path: str) -> tuple[int, int] | None:
    """Which file has this name now, as device and inode."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def permissions(path: str) -> int:
    """The permission bits of a database; the files beside it are for the same users."""
    return stat.S_IMODE(os.stat(path).st_mode)


def _look_first(path: str) -> None:
    # Before the journal mode is set: that would already change a file of another program.
    reader = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        reader.set_busy_timeout(int(BUSY_SECONDS * 1000))
        check_owner(reader, path)
    finally:
        reader.close()


def _connect_and_migrate(path: str, durability: Durability) -> apsw.Connection:
    writer = connect(path, durability, make=True)
    try:
        if writer.readonly("main"):
            # SQLite opens such a file without an error, and would fail at the first write.
            raise apsw.ReadOnlyError(path)
        migrate(writer, path)
    except BaseException:
        writer.close()
        raise
    return writer
