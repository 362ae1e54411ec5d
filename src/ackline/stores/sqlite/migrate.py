"""Bring a file to the schema that this release uses, or say why that is not possible."""

from __future__ import annotations

import contextlib
import os

import apsw
import msgspec

from ackline.errors import StoreMismatch
from ackline.stores.migrations import Migrated, Migration, read_migrations
from ackline.stores.sqlite.connection import Execute, connect_reader

APPLICATION_ID = 0x41636B4C
"""`AckL`: marks a file as Ackline's."""


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
    owner, schema, empty = _look(connection)
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


def _look(connection: apsw.Connection) -> tuple[int, int, bool]:
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


def pending(path: str) -> Migrated:
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
    return Migrated(location=path, schema=schema, newest=newest_schema(), steps=steps)


def _number(execute: Execute, query: str) -> int:
    return int(execute(query).fetchall()[0][0])
