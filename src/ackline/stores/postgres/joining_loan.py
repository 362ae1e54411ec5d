"""A caller's connection, borrowed for steps in its transaction, and left as it was."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import psycopg
from psycopg.errors import SerializationFailure
from psycopg.pq import TransactionStatus

from ackline.errors import CannotJoin, StoreMismatch, StoreReadOnly, StoreUnavailable
from ackline.stores.postgres.arrays import register
from ackline.stores.postgres.connections import SESSION
from ackline.stores.postgres.engine import TRIES, Engine, Work
from ackline.stores.postgres.errors import translate
from ackline.stores.postgres.joining_callers import Async, Blocking
from ackline.stores.postgres.transaction import Again, Sent, Transaction

T = TypeVar("T")

_NAMES = [name for name, value in SESSION.items() if value == "off"]
"""Settings of what the planner must not use; the others are for the store's own sessions."""

_OURS = {"names": _NAMES, "values": [SESSION[name] for name in _NAMES]}


class Borrowed(psycopg.Connection[tuple[Any, ...]]):
    """A caller's session as a connection without the caller's adapters and row factories."""

    def __del__(self, *_warn: object) -> None:
        """The session is not ours to close."""


class Cursors:
    """Sends statements by the client's cursors: the session's prepared ones are its owner's."""

    def __init__(self, connection: Borrowed, statements: Mapping[str, str]) -> None:
        self.connection = connection
        self._statements = statements

    def send(self, name: str, values: Mapping[str, Any]) -> Sent:
        """Send a statement; its rows are read from the cursor."""
        return self.connection.cursor(binary=True).execute(self._statements[name], values)

    def push(self) -> None:
        """Nothing to do: the client sends each statement at once."""


class CallersTransaction(Transaction):
    """A transaction that may stay open for long.

    So it locks nothing that others need, and what it sees of queues is not remembered.
    """

    callers = True

    def __init__(self, connection: Borrowed, engine: Engine) -> None:
        super().__init__(Cursors(connection, engine.statements), engine.moment())
        self.made = True
        self._engine = engine

    def next_token(self, above: int) -> int:
        """A token taken in another transaction: here its counter's row would stay locked."""
        return self._engine.write(lambda tx: tx.next_token(above))


class Loan:
    """A connection that a caller has lent, while nobody else uses it."""

    def __init__(self, engine: Engine, owner: Blocking | Async) -> None:
        self._engine = engine
        self._owner = owner
        self._connection = _borrow(owner)
        self.looks_afresh = True
        """Whether each statement sees what others have committed meanwhile."""
        self._stopped = False
        self._busy = threading.Lock()

    def run(self, work: Work[T]) -> T:
        """Take one step in the caller's transaction, as a whole or, if it raises, not at all."""
        with self._busy:
            for turn in range(TRIES):
                try:
                    return self._step(work)
                except (Again, SerializationFailure) as error:
                    self.require_fresh_look(error)
                except psycopg.Error as error:
                    # Also a deadlock: an earlier step may hold one of its locks.
                    raise translate(error, self._engine.where) from error
                time.sleep(random.uniform(0, 0.002 * turn))
        raise StoreUnavailable(
            f"{self._engine.where}: others kept changing the same jobs, {TRIES} times; nothing was "
            "done, and the transaction can go on"
        )

    def require_fresh_look(self, error: Exception) -> None:
        """Refuse to go on if the transaction cannot see what others have changed meanwhile."""
        if not self.looks_afresh:
            raise StoreUnavailable(
                f"{self._engine.where}: others have changed these jobs since the transaction took "
                "its snapshot: run it again, or as READ COMMITTED; nothing was done"
            ) from error

    def stop(self) -> None:
        """Undo the step under way, because its caller has left, and wait until it is undone."""
        self._stopped = True
        while not self._busy.acquire(timeout=0.1):
            # Again and again, because the step may be between two statements.
            with contextlib.suppress(psycopg.Error):
                self._connection.cancel_safe()
        self._busy.release()

    def _step(self, work: Work[T]) -> T:
        self._require_wanted()
        try:
            with _pipeline(self._connection):
                tx = CallersTransaction(self._connection, self._engine)
                tx.send("savepoint")
                theirs = self._settle_in(tx)
                answer = work(tx)
                tx.flush()
                if tx.news:
                    self._engine.tell_at_commit(tx)
                tx.send("settings", {"names": _NAMES, "values": theirs})
                self._require_wanted()
                tx.send("keep_step")
            return answer
        except BaseException:
            self._undo()
            raise

    def _require_wanted(self) -> None:
        if self._stopped:
            raise CannotJoin("whoever asked for it has left; nothing was done")

    def _undo(self) -> None:
        # If this fails too, the caller gets the first error.
        with contextlib.suppress(psycopg.Error):
            for statement in ("undo_step", "keep_step"):
                self._connection.execute(self._engine.statements[statement])

    def _settle_in(self, tx: Transaction) -> list[str]:
        """Check which database this is, and set what our statements need; returns the old ones."""
        here, manners = tx.send("whereabouts"), tx.send("manners", {"names": _NAMES})
        self._require_home(here.fetchall()[0])
        [(read_only, self.looks_afresh, theirs)] = manners.fetchall()
        if read_only:
            raise StoreReadOnly(
                "the transaction is read-only, or on a standby: begin one that may write; "
                "nothing was done"
            )
        tx.send("settings", _OURS)
        return ["on" if on else "off" for on in theirs]

    def _require_home(self, here: Any) -> None:
        if here == self._engine.home():
            return
        if here == self._engine.home(anew=True):
            return
        why = "has no such schema" if here[2] is None else "is another server or database"
        raise StoreMismatch(
            f"the connection does not lead to {self._engine.where}: what it leads to {why}. Open "
            "the store by the URL of the database that your transactions are in; nothing was done"
        )


@contextlib.contextmanager
def _pipeline(connection: Borrowed) -> Iterator[None]:
    """Send without waiting; of several errors that follow from one another, the first is raised."""
    failure: BaseException | None = None
    try:
        with connection.pipeline():
            try:
                yield
            except BaseException as error:
                failure = error
    except psycopg.Error as error:
        failure = failure or error
    if failure is not None:
        raise failure


def _borrow(owner: Blocking | Async) -> Borrowed:
    pgconn = owner.pgconn
    handlers = pgconn.notice_handler, pgconn.notify_handler
    borrowed = Borrowed(pgconn)
    # Its constructor has replaced the handlers, but notices of this session are for its owner.
    pgconn.notice_handler, pgconn.notify_handler = handlers
    # The names of prepared statements are the owner's, too.
    borrowed.prepare_threshold = None
    register(borrowed)
    if pgconn.transaction_status == TransactionStatus.IDLE:
        # Nothing was sent yet: our first statement begins the transaction as the owner's would.
        borrowed.isolation_level = owner.isolation_level
        borrowed.read_only = owner.read_only
        borrowed.deferrable = owner.deferrable
    return borrowed


@contextlib.contextmanager
def notifications_kept(owner: Async) -> Iterator[None]:
    """Pass notifications that arrive in another thread to their owner once back in this thread."""
    pgconn = owner.pgconn
    handler, received = pgconn.notify_handler, list[Any]()
    pgconn.notify_handler = received.append
    try:
        yield
    finally:
        pgconn.notify_handler = handler
        for notification in received:
            if handler is not None:
                handler(notification)
