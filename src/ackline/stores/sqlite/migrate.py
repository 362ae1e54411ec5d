"""Bring a file to the schema that this release uses, or say why it cannot be."""

from __future__ import annotations

from importlib import resources

import apsw

from ackline.errors import StoreMismatch
from ackline.stores.sqlite.connection import Execute

APPLICATION_ID = 0x41636B4C
"""`AckL`: how a file says that it is ours."""


def migrations() -> list[str]:
    """All migrations in order; the schema's version is how many of them were applied."""
    folder = resources.files("ackline.stores.sqlite") / "migrations"
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".sql")),
        key=lambda file: file.name,
    )
    return [file.read_text(encoding="utf-8") for file in files]


def newest_schema() -> int:
    """The schema that this release uses."""
    return len(migrations())


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
    """Whose it is, its schema, and whether it is empty, all at one moment.

    Another process may be about to make it ours just now.
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
    """Apply what is missing, in one transaction; two processes that start at once are safe."""
    check_owner(connection, path)
    if schema_of(connection.execute) == newest_schema():
        return
    connection.execute("BEGIN IMMEDIATE").fetchall()
    try:
        check_owner(connection, path)
        for text in migrations()[schema_of(connection.execute) :]:
            connection.execute(text).fetchall()
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", newest_schema())
        connection.execute("COMMIT").fetchall()
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK").fetchall()
        raise


def _number(execute: Execute, query: str) -> int:
    return int(execute(query).fetchall()[0][0])
