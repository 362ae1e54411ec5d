"""Connections to the file, and what SQLite's errors mean to a user."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable
from typing import Any, Literal

import apsw

from ackline.errors import (
    StoreError,
    StoreFull,
    StoreMismatch,
    StoreReadOnly,
    StoreUnavailable,
)

Durability = Literal["full", "normal"]

Execute = Callable[..., Any]
"""Runs a statement with its values, and returns a cursor of rows of any type."""

BUSY_SECONDS = 5.0
"""How long a writer waits for its turn before it reports that the store is busy."""

CHECKPOINT_PAGES = 1900
"""SQLite itself copies the write-ahead log back at this size, if no reader is in the way.

Just below the 8 MiB at which `log` cuts it: each time costs two syncs of the disk and every page
that has changed, however often it has.
"""


def connect(path: str, durability: Durability, *, make: bool = False) -> apsw.Connection:
    """A connection that may write; with `make`, it creates a missing file."""
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if make else 0)
    connection = apsw.Connection(path, flags=flags, statementcachesize=200)
    try:
        connection.set_busy_timeout(int(BUSY_SECONDS * 1000))
        # Each statement is fetched to its end: apsw stops at the first row and drops the rest.
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
    connection.set_busy_timeout(int(BUSY_SECONDS * 1000))
    connection.execute("PRAGMA query_only = on").fetchall()
    return connection


def explain(error: apsw.Error, path: str) -> StoreError:
    """What an error of SQLite means, and what to do about it."""
    match error:
        case apsw.BusyError() | apsw.LockedError() | apsw.ProtocolError():
            return StoreUnavailable(
                f"{path} is busy: another process has held its write lock for more than "
                f"{BUSY_SECONDS:.0f} s. Try again; if it lasts, look for a stopped process"
            )
        case apsw.FullError():
            return StoreFull(f"no room left for {path}: free some disk space, or purge old jobs")
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.AuthError():
            return StoreReadOnly(f"{path} cannot be written: {_read_only_reason(path)}")
        case apsw.NotADBError():
            return StoreMismatch(
                f"{path} is not a SQLite database. Nothing was changed: give another path"
            )
        case apsw.CorruptError():
            return StoreError(f"{path} is damaged ({error}): restore it from a backup")
        case apsw.CantOpenError():
            return _explain_cannot_open(path)
        case _:
            return StoreError(f"{path}: {error}")


def explain_system(error: OSError, path: str) -> StoreError:
    """What an error of the operating system means."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return StoreUnavailable(
            f"cannot open {path}: too many files are open (this process may have {most}). "
            "Close stores that are no longer used, or raise the limit (ulimit -n)"
        )
    return StoreUnavailable(f"{path}: {error.strerror or error}")


def _explain_cannot_open(path: str) -> StoreError:
    folder = os.path.dirname(path) or "."
    try:
        # SQLite does not say why. Try the folder: closing the file itself would drop its locks.
        os.close(os.open(folder, os.O_RDONLY))
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return explain_system(error, path)
    if not os.path.isdir(folder):
        return StoreUnavailable(f"cannot open {path}: there is no directory {folder}, make it")
    if os.path.isdir(path):
        return StoreUnavailable(f"cannot open {path}: it is a directory, not a file")
    if not os.access(folder, os.W_OK):
        return StoreReadOnly(f"{path} cannot be written: {_read_only_reason(path)}")
    return StoreUnavailable(f"cannot open {path}: check that this user may read and write it")


def _read_only_reason(path: str) -> str:
    folder = os.path.dirname(path) or "."
    if os.path.exists(path) and not os.access(path, os.W_OK):
        return "this user has no right to write the file"
    if not os.access(folder, os.W_OK):
        return f"this user has no right to write in {folder}, where its log is kept beside it"
    return "it, or the disk it is on, is read-only"
