"""Migrate a schema to the version that this release uses."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import msgspec
import psycopg

from ackline.core.errors import StoreMismatch
from ackline.stores.migrations import Migration, MigrationPlan, read_migrations
from ackline.stores.postgres.io.address import Address
from ackline.stores.postgres.io.pipeline import Connection
from ackline.stores.postgres.sql import in_schema, statements

MIN_SERVER_VERSION = 130000

LOCK_TIMEOUT = "2s"
"""How long a migration waits for a lock on a table; meanwhile, others wait behind it."""

LOCK_ATTEMPTS, FIRST_DELAY, MAX_DELAY = 15, 0.5, 5.0
"""How many times to try a migration while a table is locked; the first and the longest delay."""

COLUMNS = {"num", "name", "at", "compatible_from"}
"""The columns of the table `migration`, which mark a schema as Ackline's."""


class SchemaState(NamedTuple):
    """How far a schema has been migrated."""

    exists: bool
    number: int
    compatible_from: int


def migrations() -> tuple[Migration, ...]:
    """All migrations in order."""
    return read_migrations("ackline.stores.postgres")


class Migrator:
    """Migrates the schema of one store."""

    def __init__(self, connection: Connection, address: Address) -> None:
        self._connection = connection
        self._address = address
        self._statements = statements(address.schema)

    def found(self) -> SchemaState:
        """How far the schema has been migrated; raises if this release cannot use it."""
        [(exists, relations, columns)] = self._rows("schema_state", schema=self._address.schema)
        if set(columns) >= COLUMNS:
            found = SchemaState(exists, *self._rows("last_migration")[0])
            self._require_compatible(found)
            return found
        if relations:
            raise StoreMismatch(
                f"{self._address}: this schema has tables of another program. Nothing was "
                "changed: choose another ?schema=…"
            )
        return SchemaState(exists, 0, 0)

    def _require_compatible(self, found: SchemaState) -> None:
        newest = migrations()[-1].number
        if found.compatible_from > newest:
            raise StoreMismatch(
                f"{self._address} was migrated by a newer Ackline (schema {found.number}, for "
                f"releases that know {found.compatible_from} or later; this one knows {newest}): "
                "upgrade this installation, or choose another ?schema=…"
            )

    def require_usable(self) -> None:
        """Migrate an older schema, or refuse it if `?migrate=no`."""
        found, newest = self.found(), migrations()[-1].number
        if found.number >= newest:
            return
        if self._address.migrate:
            self.migrate()
            return
        state = f"is at {found.number}, and this release needs {newest}"
        state = state if found.number else "does not exist"
        raise StoreMismatch(f"{self._address}: its schema {state}: run `ackline migrate`")

    def pooled(self) -> bool:
        """Whether there is a connection pooler: a pooler has process ids of its own."""
        return bool(self._connection.info.backend_pid != self._rows("session_number")[0][0])

    def pending(self) -> MigrationPlan:
        """The missing migrations, each with all its SQL."""
        found = self.found()
        scripts: list[Migration] = []
        for step in self._missing(found):
            sql = self._script(step, add_schema=not found.exists and not scripts)
            scripts.append(msgspec.structs.replace(step, sql=sql))
        return self._migrated(found, scripts)

    def migrate(self) -> MigrationPlan:
        """Run the missing migrations, each in a transaction of its own."""
        found, done = self.found(), list[Migration]()
        while steps := self._missing(self.found()):
            if self._run_with_retries(steps[0]):
                done.append(steps[0])
        return self._migrated(found, done)

    def _missing(self, found: SchemaState) -> list[Migration]:
        return [step for step in migrations() if step.number > found.number]

    def _migrated(self, found: SchemaState, steps: list[Migration]) -> MigrationPlan:
        return MigrationPlan(
            location=self._address.location,
            schema=found.number,
            newest=migrations()[-1].number,
            steps=tuple(steps),
        )

    def _run_with_retries(self, step: Migration) -> bool:
        """Run a migration unless another process has; retry while a table is locked."""
        delay = FIRST_DELAY
        for _ in range(LOCK_ATTEMPTS - 1):
            try:
                return self._run(step)
            except psycopg.errors.LockNotAvailable:
                time.sleep(delay)
                delay = min(MAX_DELAY, 2 * delay)
        return self._run(step)

    def _run(self, step: Migration) -> bool:
        with self._connection.transaction():
            self._connection.execute(self._guards().encode(), prepare=False)
            found = self.found()
            if found.number >= step.number:
                return False
            changes = self._changes(step, add_schema=not found.exists)
            self._connection.execute(changes.encode(), prepare=False)
            return True

    # --- SQL ---

    def _script(self, step: Migration, *, add_schema: bool) -> str:
        changes = self._changes(step, add_schema=add_schema)
        return f"BEGIN;\n{self._guards()}\n{changes}\nCOMMIT;\n"

    def _guards(self) -> str:
        limit = self._render("set_lock_timeout", wait=LOCK_TIMEOUT)
        return f"{limit}\n{self._render('lock_migrations', schema=self._address.schema)}"

    def _changes(self, step: Migration, *, add_schema: bool) -> str:
        parts = [self._render("add_schema")] if add_schema else []
        parts.append(in_schema(step.sql, self._address.schema))
        values = {"number": step.number, "name": step.name, "compatible_from": step.compatible_from}
        return "\n".join([*parts, self._render("add_migration", **values)])

    def _render(self, statement: str, **values: Any) -> str:
        cursor = psycopg.ClientCursor(self._connection)
        return cursor.mogrify(self._statements[statement], values) + ";"

    def _rows(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(
            self._statements[statement], values, prepare=False
        ).fetchall()


def require_server(connection: Connection, address: Address) -> None:
    """Raise if the store cannot use this server or database."""
    version = connection.info.server_version
    if version < MIN_SERVER_VERSION:
        raise StoreMismatch(f"{address} is PostgreSQL {version // 10000}: it must be 13 or newer")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreMismatch(
            f"{address}: the database has the encoding {encoding}: it must be UTF8, so that names "
            "can be read in it. CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
        )
