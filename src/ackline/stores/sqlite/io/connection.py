"""Connections to the file, and the translation of SQLite's errors."""

from __future__ import annotations

import errno
import os
import resource
import stat
from collections.abc import Callable
from typing import Any, Literal

import apsw

from ackline.core.errors import (
    StoreError,
    StoreFull,
    StoreMismatch,
    StoreReadOnly,
    StoreUnavailable,
)

Durability = Literal["full", "normal"]

Execute = Callable[..., Any]
"""Runs a statement with its values, and returns a cursor of rows of any type."""

BUSY_TIMEOUT = 5.0
"""Seconds that a writer waits for the write lock before it reports that the store is busy."""

CHECKPOINT_PAGES = 1900
"""The size of the write-ahead log at which SQLite itself checkpoints, unless a reader blocks it.

Just below the 8 MiB at which `writer` truncates the log: each checkpoint costs two syncs and writes
every changed page, however often it has changed.
"""


def connect(path: str, durability: Durability, *, create: bool = False) -> apsw.Connection:
    """A connection that may write; with `create`, a missing file is created."""
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    connection = apsw.Connection(path, flags=flags, statementcachesize=200)
    try:
        connection.set_busy_timeout(int(BUSY_TIMEOUT * 1000))
        # Fetch all rows: apsw runs a statement only up to the first row.
        connection.execute("PRAGMA journal_mode = wal").fetchall()
        synchronous = "PRAGMA synchronous = full"
        if durability == "normal":
            synchronous = "PRAGMA synchronous = normal"
        connection.execute(synchronous).fetchall()
        connection.wal_autocheckpoint(CHECKPOINT_PAGES)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_reader(path: str) -> apsw.Connection:
    """A connection that only reads."""
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=60)
    connection.set_busy_timeout(int(BUSY_TIMEOUT * 1000))
    connection.execute("PRAGMA query_only = on").fetchall()
    return connection


def translate_error(error: apsw.Error, path: str) -> StoreError:
    """The error to raise for an error of SQLite: what it means, and what to do about it."""
    match error:
        case apsw.BusyError() | apsw.LockedError() | apsw.ProtocolError():
            return StoreUnavailable(
                f"{path} is busy: another process has held its write lock for more than "
                f"{BUSY_TIMEOUT:.0f} s. Try again; if it persists, look for a stopped process"
            )
        case apsw.FullError():
            return StoreFull(f"no space left for {path}: free some disk space, or purge old jobs")
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.AuthError():
            return StoreReadOnly(f"{path} cannot be written: {_read_only_reason(path)}")
        case apsw.NotADBError():
            return StoreMismatch(
                f"{path} is not a SQLite database. Nothing was changed: use another path"
            )
        case apsw.CorruptError():
            return StoreError(f"{path} is damaged ({error}): restore it from a backup")
        case apsw.CantOpenError():
            return _translate_cannot_open(path)
        case _:
            return StoreError(f"{path}: {error}")


def translate_os_error(error: OSError, path: str) -> StoreError:
    """The error to raise for an error of the operating system."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return StoreUnavailable(
            f"cannot open {path}: too many files are open (the limit of this process is {limit}). "
            "Close stores that are no longer used, or raise the limit (ulimit -n)"
        )
    return StoreUnavailable(f"{path}: {error.strerror or error}")


def _translate_cannot_open(path: str) -> StoreError:
    folder = os.path.dirname(path) or "."
    try:
        # SQLite does not say why. Try the folder: closing the file itself would drop its locks.
        os.close(os.open(folder, os.O_RDONLY))
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return translate_os_error(error, path)
    if not os.path.isdir(folder):
        return StoreUnavailable(f"cannot open {path}: there is no directory {folder}, create it")
    if os.path.isdir(path):
        return StoreUnavailable(f"cannot open {path}: it is a directory, not a file")
    if not os.access(folder, os.W_OK):
        return StoreReadOnly(f"{path} cannot be written: {_read_only_reason(path)}")
    return StoreUnavailable(f"cannot open {path}: check that this user may read and write it")


def _read_only_reason(path: str) -> str:
    folder = os.path.dirname(path) or "."
    if os.path.exists(path) and not os.access(path, os.W_OK):
        return "this user may not write the file"
    if not os.access(folder, os.W_OK):
        return f"this user may not write in {folder}, where the log is kept next to the file"
    return "the file or its disk is read-only"


# --- the file ---


def file_identity(path: str) -> tuple[int, int] | None:
    """Device and inode of the file that has this name now; None if there is none."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def file_permissions(path: str) -> int:
    """The permission bits of a database; the files next to it get the same."""
    return stat.S_IMODE(os.stat(path).st_mode)
