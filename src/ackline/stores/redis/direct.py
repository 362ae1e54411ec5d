"""Commands straight through connections: the client would take as long again for each."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

from hiredis import pack_command
from redis.exceptions import ConnectionError, ResponseError, TimeoutError

FRESH = 0.02
"""Seconds for which a connection counts as alive: to look costs a busy worker its turn."""


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
            # An answer may still come: nobody else must read it. The next call connects again.
            connection.disconnect()
            raise
        finally:
            self._idle.append((connection, time.monotonic()))

    def close(self) -> None:
        """Let go of the connections that nobody uses."""
        with contextlib.suppress(IndexError):
            while True:
                connection, _ = self._idle.pop()
                connection.disconnect()

    def _take(self) -> Any:
        if self._pid != os.getpid():
            # In a forked child they are the parent's.
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
    """Whether the server has closed it, or has said something that nobody asked for."""
    try:
        return bool(connection.can_read())
    except (ConnectionError, TimeoutError, OSError):
        return True
