"""Make sessions wait in the middle of what they do, so that they can be ended right there.

A trigger on a table takes an advisory lock, shared. While the harness holds that lock for itself,
each session that comes to that table waits, with its transaction open, and can be found in
`pg_locks`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import psycopg

from tests.harness.faults.processes import ConditionTimeout
from tests.harness.servers.postgres import PostgresServer

PATIENCE = 30.0


class PausePoint(msgspec.Struct, frozen=True):
    """When a session waits: what it has just done to which table."""

    name: str
    event: str
    table: str
    condition: str = ""
    """Of the new row."""
    deferred: bool = False
    """Whether it waits in its COMMIT."""


PAUSE_POINTS = {
    moment.name: moment
    for moment in (
        PausePoint("enqueue", "INSERT", "job"),
        PausePoint("claim", "INSERT", "lease"),
        PausePoint("settle", "INSERT", "inactive", "NEW.state = 4"),
        PausePoint("dead-letter", "INSERT", "inactive", "NEW.state = 5"),
        PausePoint("retry", "INSERT", "inactive", "NEW.state = 3"),
        PausePoint("promote", "INSERT", "ready", "NEW.lane BETWEEN 10 AND 19"),
        PausePoint("extend", "UPDATE", "lease"),
        PausePoint("commit", "INSERT", "journal", deferred=True),
    )
}

_FUNCTION = """
CREATE FUNCTION {schema}.hold() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(TG_ARGV[0]::bigint);
    RETURN NULL;
END $$
"""
_TRIGGER = """
CREATE {constraint} TRIGGER {name} AFTER {event} ON {schema}.{table} {deferred}
FOR EACH ROW {condition} EXECUTE FUNCTION {schema}.hold({key})
"""
_WAITING = """
SELECT pid FROM pg_locks
WHERE locktype = 'advisory' AND NOT granted AND objid = %s ORDER BY waitstart LIMIT 1
"""


class PausePoints:
    """The triggers of one schema, and the locks that make sessions wait there."""

    def __init__(self, server: PostgresServer, schema: str = "ackline") -> None:
        self._server = server
        self._schema = f'"{schema}"'
        self._keys = {name: key for key, name in enumerate(PAUSE_POINTS, 4711)}

    def install(self) -> None:
        """Put the triggers in place; the schema must exist."""
        with self._server.connect() as connection:
            _run(connection, _FUNCTION.format(schema=self._schema))
            for name, moment in PAUSE_POINTS.items():
                _run(connection, self._trigger(moment, self._keys[name]))

    def _trigger(self, moment: PausePoint, key: int) -> str:
        return _TRIGGER.format(
            constraint="CONSTRAINT" if moment.deferred else "",
            name=f'"hold {moment.name}"',
            event=moment.event,
            schema=self._schema,
            table=moment.table,
            deferred="DEFERRABLE INITIALLY DEFERRED" if moment.deferred else "",
            condition=f"WHEN ({moment.condition})" if moment.condition else "",
            key=key,
        )

    @contextlib.contextmanager
    def caught(self, name: str) -> Iterator[int]:
        """The process id of a session that waits there, for as long as the block lasts."""
        key = self._keys[name]
        with self._server.connect() as connection:
            connection.execute("SELECT pg_advisory_lock(%s)", (key,))
            # The lock goes with the connection.
            yield _first_waiting(connection, key, name)

    def terminate(self, name: str) -> None:
        """End a session in the middle of this moment, and wait for its end."""
        with self.caught(name) as victim, self._server.connect() as connection:
            connection.execute("SELECT pg_terminate_backend(%s, 5000)", (victim,))


def _first_waiting(connection: psycopg.Connection[Any], key: int, name: str) -> int:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        row = connection.execute(_WAITING, (key,)).fetchone()
        if row is not None:
            return int(row[0])
        time.sleep(0.002)
    raise ConditionTimeout(f"nobody came to {name} within {PATIENCE:g} s")


def _run(connection: psycopg.Connection[Any], statement: str) -> None:
    connection.execute(statement.encode())
