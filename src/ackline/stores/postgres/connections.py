"""The connections of one store: made when needed, kept for the next call."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from ackline.errors import StoreClosed, StoreUnavailable
from ackline.stores.postgres.address import Address
from ackline.stores.postgres.arrays import register
from ackline.stores.postgres.exchange import Connection
from ackline.stores.postgres.turns import Turns

OLDEST = 1800.0
"""Seconds after which a connection is made anew, so that none grows for ever."""

KEPT = 2
"""How many connections are kept free of calls that may wait for somebody's open transaction."""

# Without these, a plan made while the tables were empty would scan them whole for ever.
SESSION = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}

ALIVE = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""How soon a server that vanished silently is given up, unless the URL says otherwise."""


def session_settings(address: Address) -> dict[str, str]:
    """The settings of the store's sessions; none of them waits for ever for a lock."""
    return {"lock_timeout": str(max(1, round(address.timeout * 1000))), **SESSION}


class Connections:
    """Hands each caller a connection of its own, up to a limit.

    The calling thread itself connects, so that it learns at once and in full if that fails.
    """

    def __init__(self, address: Address, greet: Callable[[Connection], bool]) -> None:
        """`greet` is called with each new connection, and returns whether that may write."""
        self._address = address
        self._greet = greet
        self._lock = threading.Lock()
        self._turns = self._new_turns()
        self._idle: list[Connection] = []
        self._readers: set[Connection] = set()
        self._open = False
        self._process = 0
        self._inherited: list[object] = []

    def _new_turns(self) -> Turns:
        places = self._address.connections
        return Turns(places, max(1, places - KEPT))

    def open(self) -> None:
        """Take calls; nothing is connected yet."""
        self._leave_to_parent()
        self._open = True

    def close(self) -> None:
        """Take no more calls, and close all idle connections."""
        self._leave_to_parent()
        with self._lock:
            self._open = False
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _leave_to_parent(self) -> None:
        """In a forked child, keep the parent's connections: closing them would end the parent's."""
        if self._process != os.getpid():
            self._inherited.append(self._idle)
            self._lock, self._turns = threading.Lock(), self._new_turns()
            self._idle, self._process = [], os.getpid()

    def take(self, *, lingers: bool = False) -> Connection:
        """A connection for the caller alone, who must give it back.

        A caller that may have to wait for somebody's open transaction `lingers`. Such callers
        never get all connections.
        """
        if self._process != os.getpid():
            self._leave_to_parent()
        self._require_open()
        if not self._turns.take(self._address.timeout, lingers=lingers):
            raise StoreUnavailable(
                f"{self._address}: all {self._address.connections} connections of this "
                "process were in use for too long: raise ?connections=…"
            )
        try:
            self._require_open()
            connection = self._rested() or self._make()
        except BaseException:
            self._turns.give(lingers=lingers)
            raise
        connection.lingers = lingers
        return connection

    def _require_open(self) -> None:
        if not self._open:
            raise StoreClosed(f"the store at {self._address} is closed: open() it")

    def _rested(self) -> Connection | None:
        """An idle connection that is still usable; others are closed."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if connection.age() <= OLDEST and connection.is_quiet():
                return connection
            connection.close()

    def _make(self) -> Connection:
        connection = self.connect()
        try:
            if not self._greet(connection):
                self._readers.add(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def may_write(self, connection: Connection) -> bool:
        """Whether a connection that was taken may do more than read."""
        return connection not in self._readers

    def give(self, connection: Connection) -> None:
        """Take back a connection; if it broke, the idle ones are closed, too."""
        broken = connection.broken or connection.closed
        with self._lock:
            dropped = []
            if broken:
                # The server is gone, and most likely for all connections.
                dropped, self._idle = self._idle, []
            elif self._open and self.may_write(connection):
                self._idle.append(connection)
            else:
                dropped.append(connection)
            self._readers.discard(connection)
        for unusable in dropped:
            unusable.close()
        self._turns.give(lingers=connection.lingers)

    def connect(self) -> Connection:
        """A new connection that does not count towards the limit."""
        address = self._address
        given = conninfo_to_dict(address.conninfo)
        options: dict[str, Any] = {"autocommit": True, "prepare_threshold": None}
        options |= {name: value for name, value in ALIVE.items() if name not in given}
        if address.lasting:
            options |= {"prepare_threshold": 0, "options": _options(address, given.get("options"))}
        connection = Connection.connect(
            address.conninfo,
            connect_timeout=max(1, int(address.timeout)),
            application_name="ackline",
            client_encoding="UTF8",
            **options,
        )
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        register(connection)
        if not address.prepares:
            connection.prepared = None
        return connection


def _options(address: Address, given: object) -> str:
    """Session settings as the server takes them; if one is given twice, the last value counts."""
    ours = session_settings(address)
    parts = [f"-c lock_timeout={ours.pop('lock_timeout')}", *([str(given)] if given else [])]
    parts += [f"-c {name}={value}" for name, value in ours.items()]
    # A user's default may differ; but a statement that waited for others must see their changes.
    return " ".join([*parts, r"-c default_transaction_isolation=read\ committed"])
