"""Find the psycopg connection in the object that a user passes, and run statements on it.

SQLAlchemy and Django are not imported here: a user who passes their objects has imported them.
"""

from __future__ import annotations

import contextlib
import random
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import psycopg
from psycopg.errors import SerializationFailure
from psycopg.pq import PipelineStatus, TransactionStatus

from ackline.core.errors import CannotJoin, StoreMismatch, StoreReadOnly, StoreUnavailable
from ackline.stores.postgres.engine import TRANSACTION_ATTEMPTS, Engine, Work
from ackline.stores.postgres.io.connection_pool import PLANNER_SETTINGS
from ackline.stores.postgres.io.errors import translate_error
from ackline.stores.postgres.io.pipeline import register_adapters
from ackline.stores.postgres.io.transaction import PendingRows, RetryTransaction, Transaction

Blocking = psycopg.Connection[Any]
Async = psycopg.AsyncConnection[Any]

_SUPPORTED = (
    "a psycopg Connection, a SQLAlchemy Connection or Session on postgresql+psycopg, or a Django "
    "connection, or the async ones of psycopg and SQLAlchemy in ackline.aio"
)

_REFUSED = {
    TransactionStatus.INERROR: "its transaction has already failed: roll it back, then try again",
    TransactionStatus.ACTIVE: "it is busy with another command: finish that first",
    TransactionStatus.UNKNOWN: "it is closed or broken: open another one",
}


def blocking_connection(given: object) -> Blocking:
    """The psycopg connection in an object passed to a blocking queue."""
    if _is_async(given):
        raise CannotJoin(
            f"{_type_name(given)} belongs to asyncio: pass it to a queue of ackline.aio"
        )
    if isinstance(given, psycopg.Connection):
        return given
    with _sqlalchemy_errors():
        if _is_instance(given, "sqlalchemy.orm", "Session", "scoped_session"):
            given = given.connection()  # type: ignore[attr-defined]
        if _is_instance(given, "sqlalchemy.engine", "Connection"):
            return _begin_sqlalchemy(given)
    if hasattr(given, "ensure_connection"):
        return _django_connection(given)
    raise CannotJoin(f"cannot join {_type_name(given)}: pass {_SUPPORTED}")


async def async_connection(given: object) -> Async:
    """The psycopg connection in an object passed to an async queue."""
    if isinstance(given, psycopg.AsyncConnection):
        return given
    if not _is_async(given):
        raise CannotJoin(
            f"{_type_name(given)} would block the event loop: pass an async connection, "
            "or use the blocking queue (`queue.sync`) in a thread"
        )
    with _sqlalchemy_errors():
        if not _is_instance(given, "sqlalchemy.ext.asyncio", "AsyncConnection"):
            given = await given.connection()  # type: ignore[attr-defined]
        raw = await given.get_raw_connection()  # type: ignore[attr-defined]
        inner: Async = _driver_connection(given, raw.driver_connection, psycopg.AsyncConnection)
        if not given.in_transaction():  # type: ignore[attr-defined]
            await given.begin()  # type: ignore[attr-defined]
        return inner


def require_transaction(connection: Blocking | Async) -> None:
    """Raise if the connection has no transaction to take part in."""
    status = connection.info.transaction_status
    piped = connection.pgconn.pipeline_status != PipelineStatus.OFF
    if piped and status != TransactionStatus.UNKNOWN:
        raise CannotJoin(
            "the connection is in pipeline mode: leave its pipeline() block first; nothing was "
            "changed"
        )
    if status in _REFUSED:
        raise CannotJoin(
            f"the connection cannot be joined: {_REFUSED[status]}; nothing was changed"
        )
    if status == TransactionStatus.IDLE and connection.autocommit:
        raise CannotJoin(
            "the connection is in autocommit mode and in no transaction: open one, by "
            "connection.transaction(), engine.begin() or transaction.atomic(); nothing was changed"
        )


def _is_instance(given: object, module: str, *names: str) -> bool:
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(given, tuple(getattr(loaded, name) for name in names))


def _is_async(given: object) -> bool:
    names = ("AsyncConnection", "AsyncSession", "async_scoped_session")
    return isinstance(given, psycopg.AsyncConnection) or _is_instance(
        given, "sqlalchemy.ext.asyncio", *names
    )


def _type_name(given: object) -> str:
    return f"{type(given).__module__}.{type(given).__qualname__}"


@contextlib.contextmanager
def _sqlalchemy_errors() -> Iterator[None]:
    """Raise SQLAlchemy's errors, for example about a closed transaction, as `CannotJoin`."""
    errors = sys.modules.get("sqlalchemy.exc")
    try:
        yield
    except Exception as error:
        if errors is None or not isinstance(error, errors.SQLAlchemyError):
            raise
        raise CannotJoin(f"SQLAlchemy raised an error; nothing was changed: {error}") from error


def _driver_connection(given: Any, inner: Any, wanted: type[Any]) -> Any:
    if not isinstance(inner, wanted):
        dialect = given.dialect
        raise CannotJoin(
            f"the engine uses {dialect.name}+{dialect.driver}: create it with "
            "postgresql+psycopg://…, because jobs are written with psycopg 3; nothing was changed"
        )
    # In autocommit mode, SQLAlchemy's begin would not open a transaction.
    require_transaction(inner)
    return inner


def _begin_sqlalchemy(given: Any) -> Blocking:
    """Begin SQLAlchemy's transaction; without it, its commit would do nothing."""
    inner: Blocking = _driver_connection(
        given, given.connection.driver_connection, psycopg.Connection
    )
    if not given.in_transaction():
        given.begin()
    return inner


def _django_connection(wrapper: Any) -> Blocking:
    wrapper.ensure_connection()
    inner = wrapper.connection
    if not isinstance(inner, psycopg.Connection):
        raise CannotJoin(
            f"this Django connection uses {wrapper.vendor} with {_type_name(inner)}: it must be "
            "PostgreSQL with psycopg 3; nothing was changed"
        )
    if wrapper.needs_rollback:
        raise CannotJoin(
            "the atomic block has already failed and will be rolled back; nothing was changed"
        )
    return inner


T = TypeVar("T")

_SETTING_NAMES = [name for name, value in PLANNER_SETTINGS.items() if value == "off"]
"""The plans that are switched off; other settings are for the store's own sessions only."""

_SESSION_SETTINGS = {
    "names": _SETTING_NAMES,
    "values": [PLANNER_SETTINGS[name] for name in _SETTING_NAMES],
}


class BorrowedSession(psycopg.Connection[tuple[Any, ...]]):
    """A user's session, without the user's adapters and row factories."""

    def __del__(self, *_warn: object) -> None:
        """Leave the session open: it belongs to the user."""


class CursorSender:
    """Sends statements with psycopg's cursors, which leaves prepared statements to the user."""

    def __init__(self, connection: BorrowedSession, statements: Mapping[str, str]) -> None:
        self.connection = connection
        self._statements = statements

    def send(self, name: str, values: Mapping[str, Any]) -> PendingRows:
        """Send a statement; its rows are read from the cursor."""
        return self.connection.cursor(binary=True).execute(self._statements[name], values)

    def send_early(self) -> None:
        """Nothing to do: psycopg sends each statement at once."""


class BorrowedTransaction(Transaction):
    """A user's transaction, which may stay open for long.

    So it locks nothing that others need, and the queues that it reads are not cached.
    """

    is_borrowed = True

    def __init__(self, connection: BorrowedSession, engine: Engine) -> None:
        super().__init__(CursorSender(connection, engine.statements), engine.clock_time())
        self.created_queue = True
        self._engine = engine

    def next_token(self, above: int) -> int:
        """Get a token in another transaction: here, the row of its counter would stay locked."""
        return self._engine.write(lambda tx: tx.next_token(above))


class BorrowedConnection:
    """A user's connection, while only the store uses it."""

    def __init__(self, engine: Engine, owner: Blocking | Async) -> None:
        self._engine = engine
        self._owner = owner
        self._connection = _borrow(owner)
        self.sees_new_commits = True
        """Whether each statement sees what others have committed meanwhile."""
        self._stopped = False
        self._busy = threading.Lock()

    def run(self, work: Work[T]) -> T:
        """Run work in the user's transaction; if it raises, none of it is done."""
        with self._busy:
            for turn in range(TRANSACTION_ATTEMPTS):
                try:
                    return self._run_once(work)
                except (RetryTransaction, SerializationFailure) as error:
                    self.require_sees_new_commits(error)
                except psycopg.Error as error:
                    # Also a deadlock: the lock may be one of an earlier call.
                    raise translate_error(error, self._engine.where) from error
                time.sleep(random.uniform(0, 0.002 * turn))
        raise StoreUnavailable(
            f"{self._engine.where}: the call conflicted with other transactions "
            f"{TRANSACTION_ATTEMPTS} times; nothing was changed, and the transaction can go on"
        )

    def require_sees_new_commits(self, error: Exception) -> None:
        """Raise if the transaction cannot see what others have changed meanwhile."""
        if not self.sees_new_commits:
            raise StoreUnavailable(
                f"{self._engine.where}: others have changed these jobs since the transaction took "
                "its snapshot: run it again, or as READ COMMITTED; nothing was changed"
            ) from error

    def stop(self) -> None:
        """Roll back the running call, because its caller has left, and wait for that."""
        self._stopped = True
        while not self._busy.acquire(timeout=0.1):
            # Repeatedly, because the call may be between two statements.
            with contextlib.suppress(psycopg.Error):
                self._connection.cancel_safe()
        self._busy.release()

    def _run_once(self, work: Work[T]) -> T:
        self._require_not_stopped()
        try:
            with _pipeline(self._connection):
                tx = BorrowedTransaction(self._connection, self._engine)
                tx.send("savepoint")
                old_settings = self._prepare_session(tx)
                result = work(tx)
                tx.flush()
                if tx.wakeups:
                    self._engine.notify_at_commit(tx)
                tx.send("settings", {"names": _SETTING_NAMES, "values": old_settings})
                self._require_not_stopped()
                tx.send("release_savepoint")
            return result
        except BaseException:
            self._undo()
            raise

    def _require_not_stopped(self) -> None:
        if self._stopped:
            raise CannotJoin("the calling task was cancelled; nothing was changed")

    def _undo(self) -> None:
        # If this fails, too, the caller gets the first error.
        with contextlib.suppress(psycopg.Error):
            for statement in ("rollback_to_savepoint", "release_savepoint"):
                self._connection.execute(self._engine.statements[statement])

    def _prepare_session(self, tx: Transaction) -> list[str]:
        """Check the database, and change session settings; returns the previous ones."""
        identity, settings = (
            tx.send("database_identity"),
            tx.send("transaction_settings", {"names": _SETTING_NAMES}),
        )
        self._require_same_database(identity.fetchall()[0])
        [(read_only, self.sees_new_commits, old_settings)] = settings.fetchall()
        if read_only:
            raise StoreReadOnly(
                "the transaction is read-only, or on a standby: begin one that may write; "
                "nothing was changed"
            )
        tx.send("settings", _SESSION_SETTINGS)
        return ["on" if on else "off" for on in old_settings]

    def _require_same_database(self, identity: Any) -> None:
        if identity == self._engine.database_identity():
            return
        if identity == self._engine.database_identity(refresh=True):
            return
        why = "has no such schema" if identity[2] is None else "leads to another server or database"
        raise StoreMismatch(
            f"the connection is not one to {self._engine.where}: it {why}. Open the store with "
            "the URL of the database that your transactions are in; nothing was changed"
        )


@contextlib.contextmanager
def _pipeline(connection: BorrowedSession) -> Iterator[None]:
    """Send without waiting; of several errors, the first is raised."""
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


def _borrow(owner: Blocking | Async) -> BorrowedSession:
    pgconn = owner.pgconn
    handlers = pgconn.notice_handler, pgconn.notify_handler
    borrowed = BorrowedSession(pgconn)
    # Its constructor has replaced the handlers, but notices are for the owner.
    pgconn.notice_handler, pgconn.notify_handler = handlers
    # The names of prepared statements also belong to the owner.
    borrowed.prepare_threshold = None
    register_adapters(borrowed)
    if pgconn.transaction_status == TransactionStatus.IDLE:
        # Nothing was sent yet: the first statement begins the transaction as the owner's would.
        borrowed.isolation_level = owner.isolation_level
        borrowed.read_only = owner.read_only
        borrowed.deferrable = owner.deferrable
    return borrowed


@contextlib.contextmanager
def defer_notifications(owner: Async) -> Iterator[None]:
    """Keep notifications that arrive in another thread, and deliver them in this one."""
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
