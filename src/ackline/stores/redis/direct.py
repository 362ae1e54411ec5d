"""Commands sent straight through connections: by way of the client, each takes twice as long."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

from hiredis import pack_command
from redis.exceptions import ConnectionError, ResponseError, TimeoutError

FRESH = 0.02
"""Seconds for which a used connection counts as alive: checking it makes a busy worker lose its
turn at the interpreter."""


class Direct:
    """The idle connections to one server; each call has one for itself."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._idle: list[tuple[Any, float]] = []
        self._pid = os.getpid()

    def execute_command(self, *command: Any) -> Any:
        """Send a command, once, and read its answer."""
        connection = self._take()
        try:
            connection.send_packed_command([pack_command(command)], check_health=False)
            return connection.read_response()
        except ResponseError:
            raise
        except BaseException:
            # The answer may still come, and no other call must read it. The next one reconnects.
            connection.disconnect()
            raise
        finally:
            self._idle.append((connection, time.monotonic()))

    def close(self) -> None:
        """Close the idle connections."""
        with contextlib.suppress(IndexError):
            while True:
                connection, _ = self._idle.pop()
                connection.disconnect()

    def _take(self) -> Any:
        if self._pid != os.getpid():
            # In a forked child, these connections are the parent's.
            self._idle, self._pid = [], os.getpid()
        try:
            connection, used = self._idle.pop()
        except IndexError:
            return self._pool.make_connection()
        stale = time.monotonic() - used > FRESH
        if stale and connection.is_connected and _has_ended(connection):
            connection.disconnect()
        return connection


def _has_ended(connection: Any) -> bool:
    """Whether the server has closed it, or has sent something that nobody asked for."""
    try:
        return bool(connection.can_read())
    except (ConnectionError, TimeoutError, OSError):
        return True
