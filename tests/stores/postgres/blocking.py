"""Wait until a session waits for another."""

import time

import psycopg

from ackline.testing.servers.postgres import PostgresServer

_WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE application_name = 'ackline' AND wait_event_type = 'Lock'
"""


def until_blocked(server: PostgresServer, sessions: int = 1, seconds: float = 10.0) -> None:
    """Return when so many sessions of stores wait for locks."""
    until = time.monotonic() + seconds
    with server.connect() as connection:
        while _blocked(connection) < sessions:
            assert time.monotonic() < until, "nobody waits for a lock"
            time.sleep(0.01)


def _blocked(connection: psycopg.Connection[tuple[int]]) -> int:
    [(number,)] = connection.execute(_WAITING).fetchall()
    return number
