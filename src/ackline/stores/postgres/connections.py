"""The connections of one store: made when needed, kept for the next call."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg

from ackline.errors import StoreClosed, StoreUnavailable
from ackline.stores.postgres.address import Address
from ackline.stores.postgres.arrays import register
from ackline.stores.postgres.exchange import Connection

OLDEST = 1800.0
"""Seconds after which a connection is made anew, so that none grows for ever."""

# Made while the tables were empty, a plan would read them from end to end for ever.
SESSION = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}


class Connections:
    """Hands each caller a connection of its own, up to a number.

    Connecting happens in the thread that asks, so that it hears at once and in full why it
    cannot have one.
    """

    def __init__(self, address: Address, greet: Callable[[Connection], bool]) -> None:
        """`greet` is shown each new connection, and answers whether it may write."""
        self._address = address
        self._greet = greet
        self._changed = threading.Condition()
        self._idle: list[tuple[float, Connection]] = []
        self._readers: set[Connection] = set()
        self._used = 0
        self._open = False
        self._process = 0
        self._inherited: list[object] = []

    def open(self) -> None:
        """Take calls; nothing is connected yet."""
        self._leave_to_parent()
        self._open = True

    def close(self) -> None:
        """Take no more calls, and let go of all connections that nobody uses."""
        self._leave_to_parent()
        with self._changed:
            self._open = False
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def _leave_to_parent(self) -> None:
        """In a forked child, what was connected is the parent's; closing it would end it there."""
        if self._process != os.getpid():
            self._inherited.append(self._idle)
            self._changed = threading.Condition()
            self._idle, self._used, self._process = [], 0, os.getpid()

    def take(self) -> Connection:
        """A connection that nobody else has; give it back."""
        if self._process != os.getpid():
            self._leave_to_parent()
        with self._changed:
            self._wait_for_one()
            self._used += 1
            since, connection = self._idle.pop() if self._idle else (0.0, None)
        if connection is not None and time.monotonic() - since > OLDEST:
            connection.close()
            connection = None
        return connection if connection is not None else self._make()

    def _wait_for_one(self) -> None:
        until = time.monotonic() + self._address.timeout
        while True:
            if not self._open:
                raise StoreClosed(f"the store at {self._address} is closed: open() it")
            if self._used < self._address.connections:
                return
            if not self._changed.wait(until - time.monotonic()) and time.monotonic() >= until:
                raise StoreUnavailable(
                    f"{self._address}: all {self._address.connections} connections of this "
                    "process were in use for too long: raise ?connections=…"
                )

    def _make(self) -> Connection:
        try:
            connection = self.connect()
            try:
                if not self._greet(connection):
                    self._readers.add(connection)
            except BaseException:
                connection.close()
                raise
            return connection
        except BaseException:
            with self._changed:
                self._used -= 1
                self._changed.notify()
            raise

    def may_write(self, connection: Connection) -> bool:
        """Whether a connection that was taken is for more than looking."""
        return connection not in self._readers

    def give(self, connection: Connection) -> None:
        """Take back a connection; one that broke takes the idle ones along."""
        broken = connection.broken or connection.closed
        with self._changed:
            self._used -= 1
            dropped = []
            if broken:
                # The server has gone, and most likely from all of them.
                dropped, self._idle = self._idle, []
            elif self._open and self.may_write(connection):
                self._idle.append((time.monotonic(), connection))
            else:
                dropped.append((0.0, connection))
            self._readers.discard(connection)
            self._changed.notify()
        for _, one in dropped:
            one.close()

    def connect(self) -> Connection:
        """A new connection that is not counted among the others."""
        address = self._address
        options: dict[str, Any] = {"autocommit": True, "prepare_threshold": None}
        if address.lasting:
            settings = " ".join(f"-c {name}={value}" for name, value in SESSION.items())
            given = psycopg.conninfo.conninfo_to_dict(address.conninfo).get("options")
            options |= {
                "prepare_threshold": 0,
                "options": f"{given} {settings}" if given else settings,
            }
        connection = Connection.connect(
            address.conninfo,
            connect_timeout=max(1, int(address.timeout)),
            application_name="ackline",
            client_encoding="UTF8",
            **options,
        )
        register(connection)
        if not address.prepares:
            connection.prepared = None
        return connection
