"""Make sessions wait in the middle of a transaction, so that they can be terminated there.

A trigger on a table takes a shared advisory lock. While the harness has that lock exclusively,
each session that writes to the table waits with its transaction open, and can be found in
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

WAIT_TIMEOUT = 30.0


class PausePoint(msgspec.Struct, frozen=True):
    """A place where sessions wait: after writing to a table."""

    name: str
    event: str
    table: str
    condition: str = ""
    """A condition on the new row."""
    deferred: bool = False
    """Whether it waits in its COMMIT."""


PAUSE_POINTS = {
    point.name: point
    for point in (
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
CREATE FUNCTION {schema}.wait_at_pause_point() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(TG_ARGV[0]::bigint);
    RETURN NULL;
END $$
"""
_TRIGGER = """
CREATE {constraint} TRIGGER {name} AFTER {event} ON {schema}.{table} {deferred}
FOR EACH ROW {condition} EXECUTE FUNCTION {schema}.wait_at_pause_point({key})
"""
_WAITING = """
SELECT pid FROM pg_locks
WHERE locktype = 'advisory' AND NOT granted AND objid = %s ORDER BY waitstart LIMIT 1
"""


class PausePoints:
    """The triggers of one schema, and the locks that make sessions wait."""

    def __init__(self, server: PostgresServer, schema: str = "ackline") -> None:
        self._server = server
        self._schema = f'"{schema}"'
        self._keys = {name: key for key, name in enumerate(PAUSE_POINTS, 4711)}

    def install(self) -> None:
        """Create the triggers; the schema must exist."""
        with self._server.connect() as connection:
            _run(connection, _FUNCTION.format(schema=self._schema))
            for name, point in PAUSE_POINTS.items():
                _run(connection, self._trigger(point, self._keys[name]))

    def _trigger(self, point: PausePoint, key: int) -> str:
        return _TRIGGER.format(
            constraint="CONSTRAINT" if point.deferred else "",
            name=f'"pause {point.name}"',
            event=point.event,
            schema=self._schema,
            table=point.table,
            deferred="DEFERRABLE INITIALLY DEFERRED" if point.deferred else "",
            condition=f"WHEN ({point.condition})" if point.condition else "",
            key=key,
        )

    @contextlib.contextmanager
    def paused_session(self, name: str) -> Iterator[int]:
        """The process id of a session that waits there until the block is left."""
        key = self._keys[name]
        with self._server.connect() as connection:
            connection.execute("SELECT pg_advisory_lock(%s)", (key,))
            # The lock is released with the connection.
            yield _first_waiting(connection, key, name)

    def terminate(self, name: str) -> None:
        """Terminate a session that waits there."""
        with self.paused_session(name) as victim, self._server.connect() as connection:
            connection.execute("SELECT pg_terminate_backend(%s, 5000)", (victim,))


def _first_waiting(connection: psycopg.Connection[Any], key: int, name: str) -> int:
    deadline = time.monotonic() + WAIT_TIMEOUT
    while time.monotonic() < deadline:
        row = connection.execute(_WAITING, (key,)).fetchone()
        if row is not None:
            return int(row[0])
        time.sleep(0.002)
    raise ConditionTimeout(f"no session reached {name} within {WAIT_TIMEOUT:g} s")


def _run(connection: psycopg.Connection[Any], statement: str) -> None:
    connection.execute(statement.encode())
