"""Connections, a limited number of them, and the transactions that run on them."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from ackline.core.clock import Clock
from ackline.core.errors import StoreClosed, StoreError, StoreUnavailable
from ackline.stores.postgres.io.address import Address
from ackline.stores.postgres.io.errors import RETRYABLE, translate_error, translate_errors
from ackline.stores.postgres.io.migrate import Migrator, require_server
from ackline.stores.postgres.io.pipeline import (
    NO_VALUES,
    Connection,
    Pipeline,
    Row,
    compile_statement,
    register_adapters,
)
from ackline.stores.postgres.io.transaction import RetryTransaction, Transaction
from ackline.stores.postgres.queue_cache import QueueCache
from ackline.stores.postgres.sql import statements


class _SlotWaiter:
    """A thread that waits for a place."""

    __slots__ = ("granted", "may_block")

    def __init__(self, may_block: bool) -> None:
        self.may_block = may_block
        self.granted = threading.Lock()
        self.granted.acquire()


class ConnectionSlots:
    """A limited number of places, each given to the thread that has waited longest.

    Threads that may linger, because they wait for others while they have a place, never get all.
    """

    def __init__(self, slots: int, max_blocking: int) -> None:
        self._slots = slots
        self._max_blocking = max_blocking
        self._lock = threading.Lock()
        self._waiting: deque[_SlotWaiter] = deque()
        self._used = 0
        self._blocking = 0

    def acquire(self, timeout: float, *, may_block: bool = False) -> bool:
        """Wait for a place; returns whether there was one in time."""
        with self._lock:
            # This overtakes nobody: if one of the waiting threads fitted, it would not wait.
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
        """Leave a place to the next thread in line."""
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
        """Leave the line; False if the thread has been given a place all the same."""
        with self._lock:
            if waiter not in self._waiting:
                return False
            self._waiting.remove(waiter)
            return True


MAX_CONNECTION_AGE = 1800.0
"""Seconds after which a connection is made anew, so that none grows for ever."""

RESERVED_CONNECTIONS = 2
"""How many connections are kept free of calls that may wait for somebody's open transaction."""

# Without these, a plan made while the tables were empty would scan them whole for ever.
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
"""How soon a server that vanished silently is given up, unless the URL says otherwise."""


def session_settings(address: Address) -> dict[str, str]:
    """The settings of the store's sessions; none of them waits for ever for a lock."""
    return {"lock_timeout": str(max(1, round(address.timeout * 1000))), **PLANNER_SETTINGS}


class ConnectionPool:
    """Hands each caller a connection of its own, up to a limit.

    The calling thread itself connects, so that it learns at once and in full if that fails.
    """

    def __init__(self, address: Address, prepare: Callable[[Connection], bool]) -> None:
        """`prepare` is called with each new connection, and returns whether that may write."""
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
            self._lock, self._slots = threading.Lock(), self._new_slots()
            self._idle, self._process = [], os.getpid()

    def acquire(self, *, may_block: bool = False) -> Connection:
        """A connection for the caller alone, who must give it back.

        A caller that may have to wait for somebody's open transaction `may_block`. Such callers
        never get all connections.
        """
        if self._process != os.getpid():
            self._leave_to_parent()
        self._require_open()
        if not self._slots.acquire(self._address.timeout, may_block=may_block):
            raise StoreUnavailable(
                f"{self._address}: all {self._address.connections} connections of this "
                "process were in use for too long: raise ?connections=…"
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
        """An idle connection that is still usable; others are closed."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if connection.age() <= MAX_CONNECTION_AGE and connection.is_quiet():
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
        """Whether a connection that was taken may do more than read."""
        return connection not in self._read_only

    def release(self, connection: Connection) -> None:
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
            self._read_only.discard(connection)
        for unusable in dropped:
            unusable.close()
        self._slots.release(may_block=connection.may_block)

    def connect(self) -> Connection:
        """A new connection that does not count towards the limit."""
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
    """Session settings as the server takes them; if one is given twice, the last value counts."""
    ours = session_settings(address)
    parts = [f"-c lock_timeout={ours.pop('lock_timeout')}", *([str(given)] if given else [])]
    parts += [f"-c {name}={value}" for name, value in ours.items()]
    # A user's default may differ; but a statement that waited for others must see their changes.
    return " ".join([*parts, r"-c default_transaction_isolation=read\ committed"])


logger = logging.getLogger("ackline")

TRANSACTION_ATTEMPTS = 20
"""How often a transaction is tried that others keep getting in the way of."""

T = TypeVar("T")

Work = Callable[[Transaction], T]


class Engine:
    """The database of one store."""

    def __init__(self, address: Address, clock: Clock | None) -> None:
        self.address = address
        self.where = str(address)
        self.statements: Mapping[str, str] = statements(address.schema)
        self._compiled = {name: compile_statement(text) for name, text in self.statements.items()}
        self.queues = QueueCache()
        self.connections = ConnectionPool(address, self._prepare_connection)
        settings = session_settings(address)
        self._settings = {"names": list(settings), "values": list(settings.values())}
        self.notify: Callable[[Transaction], None] = _notify_nobody
        self.notify_at_commit: Callable[[Transaction], None] = _notify_nobody
        self._clock = clock
        self._identity: Row | None = None
        self._warned_not_notified = False
        self.pooled = False
        """Whether there is a pooler between this process and the server."""

    def open(self) -> None:
        """Connect, check and migrate."""
        with self.migrator() as migrator:
            migrator.require_usable()
            self.pooled = migrator.pooled()
        self.connections.open()

    def close(self) -> None:
        """Close all connections."""
        self.connections.close()

    @contextlib.contextmanager
    def migrator(self) -> Iterator[Migrator]:
        """A migrator of the schema, on a connection of its own."""
        with (
            translate_errors(self.where),
            contextlib.closing(self.connections.connect()) as connection,
        ):
            require_server(connection, self.address)
            yield Migrator(connection, self.address)

    def _prepare_connection(self, connection: Connection) -> bool:
        """Prepare a new connection, which may lead to another copy of the data.

        Returns whether it may write. A standby may not until it becomes the primary, and then
        its tokens must be raised before it hands one out.
        """
        self.queues.forget()
        with Pipeline(connection, self._compiled) as pipeline:
            [(writes,)] = pipeline.send("may_write").fetchall()
        if writes:
            self._execute(connection, "raise_epoch", NO_VALUES)
        return bool(writes)

    def clock_time(self) -> float | None:
        """The time of the store's own clock; None if the server's counts."""
        return None if self._clock is None else self._clock.now()

    def database_identity(self, *, refresh: bool = False) -> Row:
        """Which server, database and schema this is; read `anew` if it may have been replaced."""
        if self._identity is None or refresh:
            self._identity = self.read(lambda tx: tx.rows("database_identity"))[0]
        return self._identity

    def write(self, work: Work[T], *, may_block: bool = False) -> T:
        """Run a transaction, several times if need be; it is done as a whole or not at all.

        A transaction that may have to wait for somebody's open one `may_block`.
        """
        for attempt in range(TRANSACTION_ATTEMPTS):
            try:
                return self._run(work, "begin_write", may_block=may_block)
            except RetryTransaction:
                pass
            except psycopg.Error as error:
                if error.sqlstate not in RETRYABLE:
                    raise translate_error(error, self.where) from error
            if attempt:
                time.sleep(random.uniform(0, 0.002 * attempt))
        raise StoreUnavailable(
            f"{self.where}: others kept changing the same jobs, {TRANSACTION_ATTEMPTS} times; "
            f"nothing was changed"
        )

    def write_once(self, work: Work[T]) -> T:
        """Run a transaction that may have to wait for somebody's open one, only once.

        Raises `Again` if others got in its way: then nothing was done.
        """
        try:
            return self._run(work, "begin_write", may_block=True)
        except psycopg.Error as error:
            if error.sqlstate in RETRYABLE:
                raise RetryTransaction from error
            raise translate_error(error, self.where) from error

    def read(self, work: Work[T]) -> T:
        """Read the data in one snapshot."""
        with translate_errors(self.where):
            return self._run(work, "begin_read")

    def statement(self, name: str, values: dict[str, Any]) -> None:
        """Run one statement by itself."""
        with translate_errors(self.where):
            self._using(
                self.connections.acquire(), lambda using: self._execute(using, name, values)
            )

    def _execute(self, connection: Connection, name: str, values: Mapping[str, Any]) -> None:
        """Run one statement in a transaction of our kind, whatever the user's defaults are."""
        with Pipeline(connection, self._compiled) as pipeline:
            pipeline.send("begin_write")
            pipeline.send(name, values)
            pipeline.send("commit")

    def compact_counts(self, queue: int) -> None:
        """Add up the changes of a queue's counts; it is optional, so a failure does no harm."""
        with contextlib.suppress(StoreError):
            self.statement("compact_counts", {"queue": queue})

    def _run(self, work: Work[T], begin: str, *, may_block: bool = False) -> T:
        with translate_errors(self.where):
            connection = self.connections.acquire(may_block=may_block)
        return self._using(connection, lambda using: self._transact(using, work, begin))

    def _transact(self, connection: Connection, work: Work[T], begin: str) -> T:
        with Pipeline(connection, self._compiled) as pipeline:
            tx = Transaction(pipeline, self.clock_time())
            tx.send(begin if self.connections.may_write(connection) else "begin_read")
            if not self.address.keeps_sessions:
                tx.send("settings", self._settings)
            answer = work(tx)
            tx.flush()
            tx.send("commit")
            if tx.wakeups:
                pipeline.ignore_later_errors()
                self.notify(tx)
        self._warn_not_notified(pipeline.ignored_error)
        for callback in tx.on_commit:
            callback()
        return answer

    def _warn_not_notified(self, error: psycopg.Error | None) -> None:
        """Warn once that nobody can be woken; what was written is committed all the same."""
        if error is not None and not self._warned_not_notified:
            logger.warning(
                "%s: what was done is done, but nobody was woken for it, so those who wait see it "
                "later: may this user SELECT from the table listener? (%s)", self.where, error,
            )  # fmt: skip
        self._warned_not_notified = error is not None

    def _using(self, connection: Connection, use: Callable[[Connection], T]) -> T:
        """Use a connection that was taken, then give it back."""
        try:
            return use(connection)
        except BaseException:
            self._reset_connection(connection)
            raise
        finally:
            self.connections.release(connection)

    def _reset_connection(self, connection: Connection) -> None:
        """Roll back a connection after an error; if that fails, close it."""
        try:
            if connection.pgconn.transaction_status != TransactionStatus.IDLE:
                # Not by the client's own method: it would drop all prepared statements.
                with Pipeline(connection, self._compiled) as pipeline:
                    pipeline.send("rollback")
        except psycopg.Error:
            connection.close()


def _notify_nobody(_tx: Transaction) -> None:
    """Used where nobody listens."""
