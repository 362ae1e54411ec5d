"""Runs transactions: each on a connection of its own, and again if others got in its way."""

from __future__ import annotations

import contextlib
import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from ackline.clock import Clock
from ackline.errors import StoreError, StoreUnavailable
from ackline.stores.postgres.address import Address
from ackline.stores.postgres.connections import Connections, session_settings
from ackline.stores.postgres.errors import AGAIN, translate, translated
from ackline.stores.postgres.exchange import NO_VALUES, Connection, Exchange, Row, compiled
from ackline.stores.postgres.migrate import Migrator, require_server
from ackline.stores.postgres.queries import statements
from ackline.stores.postgres.queues import Queues
from ackline.stores.postgres.transaction import Again, Transaction

logger = logging.getLogger("ackline")

TRIES = 20
"""How often a transaction is tried that others keep getting in the way of."""

T = TypeVar("T")

Work = Callable[[Transaction], T]


class Engine:
    """The database of one store."""

    def __init__(self, address: Address, clock: Clock | None) -> None:
        self.address = address
        self.where = str(address)
        self.statements: Mapping[str, str] = statements(address.schema)
        self._compiled = {name: compiled(text) for name, text in self.statements.items()}
        self.queues = Queues()
        self.connections = Connections(address, self._greet)
        settings = session_settings(address)
        self._settings = {"names": list(settings), "values": list(settings.values())}
        self.tell: Callable[[Transaction], None] = _tell_nobody
        self.tell_at_commit: Callable[[Transaction], None] = _tell_nobody
        self._clock = clock
        self._home: Row | None = None
        self._muted = False
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
        with translated(self.where), contextlib.closing(self.connections.connect()) as connection:
            require_server(connection, self.address)
            yield Migrator(connection, self.address)

    def _greet(self, connection: Connection) -> bool:
        """Prepare a new connection, which may lead to another copy of the data.

        Returns whether it may write. A standby may not until it becomes the primary, and then
        its tokens must be raised before it hands one out.
        """
        self.queues.forget()
        with Exchange(connection, self._compiled) as exchange:
            [(writes,)] = exchange.send("may_write").fetchall()
        if writes:
            self._execute(connection, "raise_epoch", NO_VALUES)
        return bool(writes)

    def moment(self) -> float | None:
        """The time of the store's own clock; None if the server's counts."""
        return None if self._clock is None else self._clock.now()

    def home(self, *, anew: bool = False) -> Row:
        """Which server, database and schema this is; read `anew` if it may have been replaced."""
        if self._home is None or anew:
            self._home = self.read(lambda tx: tx.rows("whereabouts"))[0]
        return self._home

    def write(self, work: Work[T], *, lingers: bool = False) -> T:
        """Run a transaction, several times if need be; it is done as a whole or not at all.

        A transaction that may have to wait for somebody's open one `lingers`.
        """
        for turn in range(TRIES):
            try:
                return self._run(work, "begin_write", lingers=lingers)
            except Again:
                pass
            except psycopg.Error as error:
                if error.sqlstate not in AGAIN:
                    raise translate(error, self.where) from error
            if turn:
                time.sleep(random.uniform(0, 0.002 * turn))
        raise StoreUnavailable(
            f"{self.where}: others kept changing the same jobs, {TRIES} times; nothing was changed"
        )

    def once(self, work: Work[T]) -> T:
        """Run a transaction that may have to wait for somebody's open one, only once.

        Raises `Again` if others got in its way: then nothing was done.
        """
        try:
            return self._run(work, "begin_write", lingers=True)
        except psycopg.Error as error:
            if error.sqlstate in AGAIN:
                raise Again from error
            raise translate(error, self.where) from error

    def read(self, work: Work[T]) -> T:
        """Read the data in one snapshot."""
        with translated(self.where):
            return self._run(work, "begin_read")

    def statement(self, name: str, values: dict[str, Any]) -> None:
        """Run one statement by itself."""
        with translated(self.where), self._connection() as connection:
            self._execute(connection, name, values)

    def _execute(self, connection: Connection, name: str, values: Mapping[str, Any]) -> None:
        """Run one statement in a transaction of our kind, whatever the user's defaults are."""
        with Exchange(connection, self._compiled) as exchange:
            exchange.send("begin_write")
            exchange.send(name, values)
            exchange.send("commit")

    def fold(self, queue: int) -> None:
        """Add up the changes of a queue's counts; it is optional, so a failure does no harm."""
        with contextlib.suppress(StoreError):
            self.statement("fold", {"queue": queue})

    def _run(self, work: Work[T], begin: str, *, lingers: bool = False) -> T:
        with self._connection(lingers=lingers) as connection:
            with Exchange(connection, self._compiled) as exchange:
                tx = Transaction(exchange, self.moment())
                tx.send(begin if self.connections.may_write(connection) else "begin_read")
                if not self.address.lasting:
                    tx.send("settings", self._settings)
                answer = work(tx)
                tx.flush()
                tx.send("commit")
                if tx.news:
                    exchange.conclude()
                    self.tell(tx)
            self._mind_missed(exchange.missed)
            for done in tx.committed:
                done()
            return answer

    def _mind_missed(self, error: psycopg.Error | None) -> None:
        """Warn once that nobody can be woken; what was written is committed all the same."""
        if error is not None and not self._muted:
            logger.warning(
                "%s: what was done is done, but nobody was woken for it, so those who wait see it "
                "later: may this user SELECT from the table waiting? (%s)", self.where, error,
            )  # fmt: skip
        self._muted = error is not None

    @contextlib.contextmanager
    def _connection(self, *, lingers: bool = False) -> Iterator[Connection]:
        with translated(self.where):
            connection = self.connections.take(lingers=lingers)
        try:
            yield connection
        except BaseException:
            self._calm(connection)
            raise
        finally:
            self.connections.give(connection)

    def _calm(self, connection: Connection) -> None:
        """Roll back a connection after an error; if that fails, close it."""
        try:
            if connection.pgconn.transaction_status != TransactionStatus.IDLE:
                # Not by the client's own method: it would drop all prepared statements.
                with Exchange(connection, self._compiled) as exchange:
                    exchange.send("rollback")
        except psycopg.Error:
            connection.close()


def _tell_nobody(_tx: Transaction) -> None:
    """Used where nobody listens."""
