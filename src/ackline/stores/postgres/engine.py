"""Transactions: run on a pooled connection, retried after conflicts, and followed by wake-ups."""

from __future__ import annotations

import contextlib
import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from ackline.core.clock import Clock
from ackline.core.errors import StoreError, StoreUnavailable
from ackline.stores.postgres.io.address import Address
from ackline.stores.postgres.io.connection_pool import ConnectionPool, session_settings
from ackline.stores.postgres.io.errors import RETRYABLE, translate_error, translate_errors
from ackline.stores.postgres.io.migrate import Migrator, require_server
from ackline.stores.postgres.io.pipeline import (
    NO_VALUES,
    Connection,
    Pipeline,
    Row,
    compile_statement,
)
from ackline.stores.postgres.io.transaction import RetryTransaction, Transaction
from ackline.stores.postgres.queue_cache import QueueCache
from ackline.stores.postgres.sql import statements

logger = logging.getLogger("ackline")

TRANSACTION_ATTEMPTS = 20
"""How many times to try a transaction that keeps conflicting with others."""

T = TypeVar("T")

Work = Callable[[Transaction], T]


class Engine:
    """Runs the transactions of one store."""

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
        """Whether a connection pooler stands between this process and the server."""

    def open(self) -> None:
        """Check the server and migrate the schema."""
        with self.migrator() as migrator:
            migrator.require_usable()
            self.pooled = migrator.pooled()
        self.connections.open()

    def close(self) -> None:
        """Close all connections."""
        self.connections.close()

    @contextlib.contextmanager
    def migrator(self) -> Iterator[Migrator]:
        """A migrator, on a connection of its own."""
        with (
            translate_errors(self.where),
            contextlib.closing(self.connections.connect()) as connection,
        ):
            require_server(connection, self.address)
            yield Migrator(connection, self.address)

    def _prepare_connection(self, connection: Connection) -> bool:
        """Prepare a new connection; returns whether it may write.

        It may lead to another copy of the data, so the cache of queues is cleared. A standby may
        not write until it is promoted, and its tokens must be raised before it issues one.
        """
        self.queues.clear()
        with Pipeline(connection, self._compiled) as pipeline:
            [(writes,)] = pipeline.send("may_write").fetchall()
        if writes:
            self._execute(connection, "raise_epoch", NO_VALUES)
        return bool(writes)

    def clock_time(self) -> float | None:
        """The time of the clock given for tests; None if the server's clock is used."""
        return None if self._clock is None else self._clock.now()

    def database_identity(self, *, refresh: bool = False) -> Row:
        """Which server, database and schema this is; `refresh` reads it from the server again."""
        if self._identity is None or refresh:
            self._identity = self.read(lambda tx: tx.rows("database_identity"))[0]
        return self._identity

    def write(self, work: Work[T], *, may_block: bool = False) -> T:
        """Run a transaction, again after a conflict; it takes effect as a whole or not at all.

        With `may_block`, it may have to wait for a user's open transaction.
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
            f"{self.where}: the transaction conflicted with others {TRANSACTION_ATTEMPTS} times; "
            "nothing was changed"
        )

    def write_once(self, work: Work[T]) -> T:
        """Run a transaction once; it may have to wait for a user's open transaction.

        Raises `RetryTransaction` after a conflict: then nothing was changed.
        """
        try:
            return self._run(work, "begin_write", may_block=True)
        except psycopg.Error as error:
            if error.sqlstate in RETRYABLE:
                raise RetryTransaction from error
            raise translate_error(error, self.where) from error

    def read(self, work: Work[T]) -> T:
        """Run a read-only transaction, which sees one snapshot."""
        with translate_errors(self.where):
            return self._run(work, "begin_read")

    def statement(self, name: str, values: dict[str, Any]) -> None:
        """Run one statement in a transaction of its own."""
        with translate_errors(self.where):
            self._using(
                self.connections.acquire(),
                lambda connection: self._execute(connection, name, values),
            )

    def _execute(self, connection: Connection, name: str, values: Mapping[str, Any]) -> None:
        """Run one statement as READ COMMITTED, whatever the user's default is."""
        with Pipeline(connection, self._compiled) as pipeline:
            pipeline.send("begin_write")
            pipeline.send(name, values)
            pipeline.send("commit")

    def compact_counts(self, queue: int) -> None:
        """Merge the changes of a queue's counts into one row; a failure does no harm."""
        with contextlib.suppress(StoreError):
            self.statement("compact_counts", {"queue": queue})

    def _run(self, work: Work[T], begin: str, *, may_block: bool = False) -> T:
        with translate_errors(self.where):
            connection = self.connections.acquire(may_block=may_block)
        return self._using(connection, lambda connection: self._transact(connection, work, begin))

    def _transact(self, connection: Connection, work: Work[T], begin: str) -> T:
        with Pipeline(connection, self._compiled) as pipeline:
            tx = Transaction(pipeline, self.clock_time())
            tx.send(begin if self.connections.may_write(connection) else "begin_read")
            if not self.address.keeps_sessions:
                tx.send("settings", self._settings)
            result = work(tx)
            tx.flush()
            tx.send("commit")
            if tx.wakeups:
                pipeline.ignore_later_errors()
                self.notify(tx)
        self._warn_not_notified(pipeline.ignored_error)
        for callback in tx.on_commit:
            callback()
        return result

    def _warn_not_notified(self, error: psycopg.Error | None) -> None:
        """Warn once that notifying failed; the transaction is committed all the same."""
        if error is not None and not self._warned_not_notified:
            logger.warning(
                "%s: the change is committed, but waiting processes could not be notified and see "
                "it later: may this user SELECT from the table listener? (%s)", self.where, error,
            )  # fmt: skip
        self._warned_not_notified = error is not None

    def _using(self, connection: Connection, use: Callable[[Connection], T]) -> T:
        """Use a connection, then release it."""
        try:
            return use(connection)
        except BaseException:
            self._reset_connection(connection)
            raise
        finally:
            self.connections.release(connection)

    def _reset_connection(self, connection: Connection) -> None:
        """Roll back after an error; if that fails, close the connection."""
        try:
            if connection.pgconn.transaction_status != TransactionStatus.IDLE:
                # psycopg's own rollback would drop all prepared statements.
                with Pipeline(connection, self._compiled) as pipeline:
                    pipeline.send("rollback")
        except psycopg.Error:
            connection.close()


def _notify_nobody(_tx: Transaction) -> None:
    """The default of `notify` and `notify_at_commit`."""
