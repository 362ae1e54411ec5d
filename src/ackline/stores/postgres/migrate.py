"""Bring a schema to the one that this release uses, or say why it cannot be."""

from __future__ import annotations

from importlib import resources
from typing import Any, NamedTuple

from ackline.errors import StoreMismatch
from ackline.stores.postgres.connections import Connection
from ackline.stores.postgres.queries import in_schema, statements

LOCK_SECONDS = 5
"""How long a migration waits for a table that others use, before it gives up."""

OLDEST_SERVER = 130000


class Migration(NamedTuple):
    """One numbered step."""

    number: int
    name: str
    text: str


def migrations() -> list[Migration]:
    """All steps in order."""
    folder = resources.files("ackline.stores.postgres") / "migrations"
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    return [
        Migration(int(name[:4]), name, (folder / name).read_text(encoding="utf-8"))
        for name in names
    ]


def newest_schema() -> int:
    """The schema that this release uses."""
    return migrations()[-1].number


class Migrator:
    """The schema of one store, and how to bring it forward."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self._connection = connection
        self._schema = schema
        self._statements = statements(schema)

    def _execute(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(self._statements[statement], values, prepare=False)
        return cursor.fetchall() if cursor.description is not None else []

    def found(self) -> int:
        """How far the schema has been migrated; 0 if it is not there."""
        [(there,)] = self._execute("has_migrations", schema=self._schema)
        return int(self._execute("last_migration")[0][0]) if there else 0

    def pending(self) -> list[Migration]:
        """The steps that are still to be taken."""
        done = self.found()
        return [step for step in migrations() if step.number > done]

    def migrate(self) -> list[Migration]:
        """Take the missing steps, each in a transaction of its own; two at once are safe."""
        taken = []
        while steps := self.pending():
            with self._connection.transaction():
                self._execute("limit_waiting", seconds=f"{LOCK_SECONDS}s")
                self._execute("lock_migrations", schema=self._schema)
                # Somebody else may have taken it while we waited.
                if self.pending()[:1] == steps[:1]:
                    self._take(steps[0])
                    taken.append(steps[0])
        return taken

    def _take(self, step: Migration) -> None:
        [(there,)] = self._execute("has_schema", schema=self._schema)
        if not there:
            self._execute("add_schema")
        self._connection.execute(in_schema(step.text, self._schema).encode(), prepare=False)
        self._execute("add_migration", number=step.number, name=step.name)


def check(connection: Connection, schema: str, where: str, *, may_migrate: bool) -> None:
    """Migrate if that is needed and wanted; refuse what this release cannot use."""
    version = connection.info.server_version
    if version < OLDEST_SERVER:
        raise StoreMismatch(f"{where} is PostgreSQL {version // 10000}: it must be 13 or newer")
    migrator = Migrator(connection, schema)
    found, newest = migrator.found(), newest_schema()
    if found < newest and may_migrate:
        migrator.migrate()
    elif found < newest:
        state = f"is at {found}, and this release needs {newest}" if found else "is not there"
        raise StoreMismatch(f"{where}: its schema {state}: run `ackline migrate`")
    if found > newest:
        raise StoreMismatch(
            f"{where} was migrated by a newer Ackline (schema {found}, this one knows {newest}): "
            "upgrade this installation, or give another ?schema=…"
        )
