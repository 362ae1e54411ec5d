"""The file: connections to it, its schema, and what SQLite's errors mean to a user."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import stat
import time
from collections.abc import Callable
from typing import Any, Literal

import apsw
import msgspec

from ackline.core.errors import (
    StoreError,
    StoreFull,
    StoreMismatch,
    StoreReadOnly,
    StoreUnavailable,
)
from ackline.stores.migrations import Migration, MigrationPlan, read_migrations

APPLICATION_ID = 0x41636B4C
"""`AckL`: marks a file as Ackline's."""

Durability = Literal["full", "normal"]

Execute = Callable[..., Any]
"""Runs a statement with its values, and returns a cursor of rows of any type."""

BUSY_TIMEOUT = 5.0
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
        connection.set_busy_timeout(int(BUSY_TIMEOUT * 1000))
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
    connection.set_busy_timeout(int(BUSY_TIMEOUT * 1000))
    connection.execute("PRAGMA query_only = on").fetchall()
    return connection


def translate_error(error: apsw.Error, path: str) -> StoreError:
    """What an error of SQLite means, and what to do about it."""
    match error:
        case apsw.BusyError() | apsw.LockedError() | apsw.ProtocolError():
            return StoreUnavailable(
                f"{path} is busy: another process has held its write lock for more than "
                f"{BUSY_TIMEOUT:.0f} s. Try again; if it lasts, look for a stopped process"
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
            return _translate_cannot_open(path)
        case _:
            return StoreError(f"{path}: {error}")


def translate_os_error(error: OSError, path: str) -> StoreError:
    """What an error of the operating system means."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return StoreUnavailable(
            f"cannot open {path}: too many files are open (this process may have {most}). "
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


# --- opening, and the schema ---


def first_connection(path: str, durability: Durability) -> apsw.Connection:
    """Connect to a file, made if need be, once it is known to be Ackline's."""
    end = time.monotonic() + BUSY_TIMEOUT
    while True:
        try:
            if os.path.exists(path) and os.path.getsize(path):
                _check_before_opening(path)
            return _connect_and_migrate(path, durability)
        except apsw.BusyError:
            # While another process makes the file, SQLite refuses some steps without waiting.
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


def file_identity(path: str) -> tuple[int, int] | None:
    """Which file has this name now, as device and inode."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def file_permissions(path: str) -> int:
    """The permission bits of a database; the files beside it are for the same users."""
    return stat.S_IMODE(os.stat(path).st_mode)


def _check_before_opening(path: str) -> None:
    # Before the journal mode is set: that would already change a file of another program.
    reader = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        reader.set_busy_timeout(int(BUSY_TIMEOUT * 1000))
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


def migrations() -> tuple[Migration, ...]:
    """All steps in order."""
    return read_migrations("ackline.stores.sqlite")


def newest_schema() -> int:
    """The schema that this release uses."""
    return migrations()[-1].number


def schema_of(execute: Execute) -> int:
    """The schema of a file."""
    return _number(execute, "PRAGMA user_version")


def check_owner(connection: apsw.Connection, path: str) -> None:
    """Refuse a file of another program or of a newer Ackline, before anything is changed."""
    owner, schema, empty = _read_owner(connection)
    newest = newest_schema()
    if owner == APPLICATION_ID and schema > newest:
        raise StoreMismatch(
            f"{path} was written by a newer Ackline (schema {schema}, this one knows {newest}): "
            "upgrade this installation, or give another path"
        )
    if owner != APPLICATION_ID and (owner or schema or not empty):
        raise StoreMismatch(
            f"{path} is a database of another program (application id {owner:#x}). "
            "Nothing was changed: give another path"
        )


def _read_owner(connection: apsw.Connection) -> tuple[int, int, bool]:
    """The file's application id, its schema, and whether it is empty, all in one snapshot.

    Another process may be turning the empty file into an Ackline store at this moment.
    """
    execute, alone = connection.execute, not connection.in_transaction
    if alone:
        execute("BEGIN").fetchall()
    try:
        tables = _number(execute, "SELECT count(*) FROM sqlite_schema")
        return _number(execute, "PRAGMA application_id"), schema_of(execute), tables == 0
    finally:
        if alone:
            execute("ROLLBACK").fetchall()


def migrate(connection: apsw.Connection, path: str) -> None:
    """Take the missing steps in one transaction; two processes may safely do so at once."""
    check_owner(connection, path)
    if schema_of(connection.execute) == newest_schema():
        return
    connection.execute("BEGIN IMMEDIATE").fetchall()
    try:
        check_owner(connection, path)
        for step in migrations()[schema_of(connection.execute) :]:
            connection.execute(_changes(step)).fetchall()
        connection.execute("COMMIT").fetchall()
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK").fetchall()
        raise


def _changes(step: Migration) -> str:
    return (
        f"{step.sql}\nPRAGMA application_id = {APPLICATION_ID};\n"
        f"PRAGMA user_version = {step.number};\n"
    )


def missing_migrations(path: str) -> MigrationPlan:
    """The steps that a file needs, each with all its SQL; the file need not exist yet."""
    schema = 0
    if os.path.exists(path) and os.path.getsize(path):
        with contextlib.closing(connect_reader(path)) as reader:
            check_owner(reader, path)
            schema = schema_of(reader.execute)
    steps = tuple(
        msgspec.structs.replace(step, sql=f"BEGIN IMMEDIATE;\n{_changes(step)}COMMIT;\n")
        for step in migrations()[schema:]
    )
    return MigrationPlan(location=path, schema=schema, newest=newest_schema(), steps=steps)


def _number(execute: Execute, query: str) -> int:
    return int(execute(query).fetchall()[0][0])
