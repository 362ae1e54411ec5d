"""Open a file for the first time: check that it is Ackline's, create or migrate its schema."""

from __future__ import annotations

import contextlib
import os
import time

import apsw
import msgspec

from ackline.core.errors import StoreMismatch
from ackline.stores.migrations import Migration, MigrationPlan, read_migrations
from ackline.stores.sqlite.io.connection import (
    BUSY_TIMEOUT,
    Durability,
    Execute,
    connect,
    connect_reader,
)

APPLICATION_ID = 0x41636B4C
"""`AckL`: marks a file as Ackline's."""


def first_connection(path: str, durability: Durability) -> apsw.Connection:
    """Connect to a file, created if necessary, after a check that it is Ackline's."""
    end = time.monotonic() + BUSY_TIMEOUT
    while True:
        try:
            if os.path.exists(path) and os.path.getsize(path):
                _check_before_opening(path)
            return _connect_and_migrate(path, durability)
        except apsw.BusyError:
            # While another process creates the file, SQLite refuses some steps without waiting.
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


def _check_before_opening(path: str) -> None:
    # Before the journal mode is set, which would already change a file of another program.
    reader = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        reader.set_busy_timeout(int(BUSY_TIMEOUT * 1000))
        check_owner(reader, path)
    finally:
        reader.close()


def _connect_and_migrate(path: str, durability: Durability) -> apsw.Connection:
    writer = connect(path, durability, create=True)
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
    """All migrations in order."""
    return read_migrations("ackline.stores.sqlite")


def newest_schema() -> int:
    """The schema of this release."""
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
            "upgrade this installation, or use another path"
        )
    if owner != APPLICATION_ID and (owner or schema or not empty):
        raise StoreMismatch(
            f"{path} is a database of another program (application id {owner:#x}). "
            "Nothing was changed: use another path"
        )


def _read_owner(connection: apsw.Connection) -> tuple[int, int, bool]:
    """The application id of the file, its schema, and whether it is empty, in one snapshot.

    Another process may be turning the empty file into an Ackline store at this moment.
    """
    execute, own_transaction = connection.execute, not connection.in_transaction
    if own_transaction:
        execute("BEGIN").fetchall()
    try:
        tables = _number(execute, "SELECT count(*) FROM sqlite_schema")
        return _number(execute, "PRAGMA application_id"), schema_of(execute), tables == 0
    finally:
        if own_transaction:
            execute("ROLLBACK").fetchall()


def migrate(connection: apsw.Connection, path: str) -> None:
    """Run the missing migrations in one transaction; safe in several processes."""
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
    """The migrations that a file needs, each with all its SQL; the file need not exist yet."""
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
