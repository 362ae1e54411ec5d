"""Wait until sessions wait for locks."""

import psycopg
from tests.harness.servers.postgres import PostgresServer
from tests.waiting import until

_WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE application_name = 'ackline' AND wait_event_type = 'Lock'
"""


def until_blocked(server: PostgresServer, sessions: int = 1, seconds: float = 10.0) -> None:
    """Return when this many sessions of stores wait for locks."""
    with server.connect() as connection:
        until(lambda: _blocked(connection) >= sessions, seconds, "nobody waits for a lock")


def _blocked(connection: psycopg.Connection[tuple[int]]) -> int:
    [(number,)] = connection.execute(_WAITING).fetchall()
    return number
