"""The store's connections to the server: how they are opened, shared by threads and reused."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from ackline.core.errors import StoreClosed, StoreUnavailable
from ackline.stores.postgres.io.address import Address
from ackline.stores.postgres.io.pipeline import Connection, register_adapters


class _SlotWaiter:
    """A thread that waits for a slot."""

    __slots__ = ("granted", "may_block")

    def __init__(self, may_block: bool) -> None:
        self.may_block = may_block
        self.granted = threading.Lock()
        self.granted.acquire()


class ConnectionSlots:
    """A limited number of slots, granted in the order in which threads asked for them.

    Threads that may block on a lock while they have a slot never get all of them.
    """

    def __init__(self, slots: int, max_blocking: int) -> None:
        self._slots = slots
        self._max_blocking = max_blocking
        self._lock = threading.Lock()
        self._waiting: deque[_SlotWaiter] = deque()
        self._used = 0
        self._blocking = 0

    def acquire(self, timeout: float, *, may_block: bool = False) -> bool:
        """Wait for a slot; returns whether one was granted in time."""
        with self._lock:
            # No waiting thread is overtaken: if a slot were free for it, it would not wait.
            if self._fits(may_block):
                self._enter(may_block)
                return True
            waiter = _SlotWaiter(may_block)
            self._waiting.append(waiter)
        try:
            granted = waiter.granted.acquire(timeout=timeout)
        except BaseException:
            if not self._withdraw(waiter):
                self.release(may_block=may_block)
            raise
        return granted or not self._withdraw(waiter)

    def release(self, *, may_block: bool = False) -> None:
        """Pass the slot on to the next waiting thread."""
        with self._lock:
            self._used -= 1
            self._blocking -= may_block
            first = next((waiter for waiter in self._waiting if self._fits(waiter.may_block)), None)
            if first is not None:
                self._waiting.remove(first)
                self._enter(first.may_block)
                first.granted.release()

    def _fits(self, may_block: bool) -> bool:
        free = self._used < self._slots
        return free and (not may_block or self._blocking < self._max_blocking)

    def _enter(self, may_block: bool) -> None:
        self._used += 1
        self._blocking += may_block

    def _withdraw(self, waiter: _SlotWaiter) -> bool:
        """Stop waiting; False if the slot has just been granted."""
        with self._lock:
            if waiter not in self._waiting:
                return False
            self._waiting.remove(waiter)
            return True


MAX_CONNECTION_AGE = 1800.0
"""Seconds after which a connection is replaced, because server processes grow over time."""

RESERVED_CONNECTIONS = 2
"""How many connections stay free for calls that cannot block on a user's open transaction."""

# Without these, a plan cached while the tables were empty would go on scanning them.
PLANNER_SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}

KEEPALIVE_SETTINGS = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""How soon a dead connection is detected, unless the URL says otherwise."""


def session_settings(address: Address) -> dict[str, str]:
    """The settings of the store's sessions, with a limit for waits on locks."""
    return {"lock_timeout": str(max(1, round(address.timeout * 1000))), **PLANNER_SETTINGS}


class ConnectionPool:
    """Lends each caller a connection, up to a limit.

    The calling thread opens the connection itself, so it gets the original error if that fails.
    """

    def __init__(self, address: Address, prepare: Callable[[Connection], bool]) -> None:
        """`prepare` is called with each new connection, and returns whether it may write."""
        self._address = address
        self._prepare = prepare
        self._lock = threading.Lock()
        self._slots = self._new_slots()
        self._idle: list[Connection] = []
        self._read_only: set[Connection] = set()
        self._open = False
        self._process = 0
        self._inherited: list[object] = []

    def _new_slots(self) -> ConnectionSlots:
        slots = self._address.connections
        return ConnectionSlots(slots, max(1, slots - RESERVED_CONNECTIONS))

    def open(self) -> None:
        """Allow connections; none is opened yet."""
        self._reset_after_fork()
        self._open = True

    def close(self) -> None:
        """Close the idle connections; no others are lent."""
        self._reset_after_fork()
        with self._lock:
            self._open = False
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _reset_after_fork(self) -> None:
        """In a forked child, start empty; the connections are still the parent's."""
        if self._process != os.getpid():
            self._inherited.append(self._idle)
            self._lock, self._slots = threading.Lock(), self._new_slots()
            self._idle, self._process = [], os.getpid()

    def acquire(self, *, may_block: bool = False) -> Connection:
        """Lend a connection; the caller must release it.

        With `may_block`, the caller may have to wait for a user's open transaction. Such callers
        never get all connections.
        """
        if self._process != os.getpid():
            self._reset_after_fork()
        self._require_open()
        if not self._slots.acquire(self._address.timeout, may_block=may_block):
            raise StoreUnavailable(
                f"{self._address}: all {self._address.connections} connections of this process "
                f"were in use for {self._address.timeout:g} s: raise ?connections=…"
            )
        try:
            self._require_open()
            connection = self._idle_connection() or self._new_connection()
        except BaseException:
            self._slots.release(may_block=may_block)
            raise
        connection.may_block = may_block
        return connection

    def _require_open(self) -> None:
        if not self._open:
            raise StoreClosed(f"the store at {self._address} is closed: open() it")

    def _idle_connection(self) -> Connection | None:
        """An idle connection that is still usable; unusable ones are closed."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if connection.age() <= MAX_CONNECTION_AGE and connection.is_alive():
                return connection
            connection.close()

    def _new_connection(self) -> Connection:
        connection = self.connect()
        try:
            if not self._prepare(connection):
                self._read_only.add(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def may_write(self, connection: Connection) -> bool:
        """Whether this connection may write."""
        return connection not in self._read_only

    def release(self, connection: Connection) -> None:
        """Take a connection back; if it broke, close the idle ones, too."""
        broken = connection.broken or connection.closed
        with self._lock:
            to_close = []
            if broken:
                # The server has most likely closed the others as well.
                to_close, self._idle = self._idle, []
            elif self._open and self.may_write(connection):
                self._idle.append(connection)
            else:
                to_close.append(connection)
            self._read_only.discard(connection)
        for connection_to_close in to_close:
            connection_to_close.close()
        self._slots.release(may_block=connection.may_block)

    def connect(self) -> Connection:
        """Open a connection that does not count towards the limit."""
        address = self._address
        given = conninfo_to_dict(address.conninfo)
        options: dict[str, Any] = {"autocommit": True, "prepare_threshold": None}
        options |= {name: value for name, value in KEEPALIVE_SETTINGS.items() if name not in given}
        if address.keeps_sessions:
            options |= {"prepare_threshold": 0, "options": _options(address, given.get("options"))}
        connection = Connection.connect(
            address.conninfo,
            connect_timeout=max(1, int(address.timeout)),
            application_name="ackline",
            client_encoding="UTF8",
            **options,
        )
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        register_adapters(connection)
        if not address.uses_prepared:
            connection.prepared = None
        return connection


def _options(address: Address, given: object) -> str:
    """Session settings as connection options; of duplicates, the last value counts."""
    settings = session_settings(address)
    parts = [f"-c lock_timeout={settings.pop('lock_timeout')}", *([str(given)] if given else [])]
    parts += [f"-c {name}={value}" for name, value in settings.items()]
    # A statement that waited for a lock must see what its holder committed, whatever the user's
    # default isolation level is.
    return " ".join([*parts, r"-c default_transaction_isolation=read\ committed"])
