"""The client's connection inside the object that a caller hands in as its connection.

The frameworks are not imported here: a caller that hands in their object has imported them.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus

from ackline.errors import CannotJoin

Blocking = psycopg.Connection[Any]
Async = psycopg.AsyncConnection[Any]

_KNOWN = (
    "a psycopg Connection, a SQLAlchemy Connection or Session on postgresql+psycopg, or a Django "
    "connection, or the async ones of psycopg and SQLAlchemy in ackline.aio"
)

_REFUSED = {
    TransactionStatus.INERROR: "its transaction has failed already: roll it back, then try again",
    TransactionStatus.ACTIVE: "it is busy with another command: finish that first",
    TransactionStatus.UNKNOWN: "it is closed, or broken: connect anew",
}


def blocking_connection(given: object) -> Blocking:
    """The client's connection in the object that a caller of the blocking queue has handed in."""
    if _is_async(given):
        raise CannotJoin(f"{_named(given)} belongs to asyncio: hand it to a queue of ackline.aio")
    if isinstance(given, psycopg.Connection):
        return given
    with _sqlalchemy_errors():
        if _is(given, "sqlalchemy.orm", "Session", "scoped_session"):
            given = given.connection()  # type: ignore[attr-defined]
        if _is(given, "sqlalchemy.engine", "Connection"):
            return _begun(given)
    if hasattr(given, "ensure_connection"):
        return _of_django(given)
    raise CannotJoin(f"cannot join {_named(given)}: hand in {_KNOWN}")


async def async_connection(given: object) -> Async:
    """The client's connection in the object that a caller of the async queue has handed in."""
    if isinstance(given, psycopg.AsyncConnection):
        return given
    if not _is_async(given):
        raise CannotJoin(
            f"{_named(given)} blocks, and an event loop must not: hand in an async connection, "
            "or use the blocking queue (`queue.sync`) in a thread"
        )
    with _sqlalchemy_errors():
        if not _is(given, "sqlalchemy.ext.asyncio", "AsyncConnection"):
            given = await given.connection()  # type: ignore[attr-defined]
        raw = await given.get_raw_connection()  # type: ignore[attr-defined]
        inner: Async = _of_driver(given, raw.driver_connection, psycopg.AsyncConnection)
        if not given.in_transaction():  # type: ignore[attr-defined]
            await given.begin()  # type: ignore[attr-defined]
        return inner


def require_transaction(connection: Blocking | Async) -> None:
    """Refuse a connection that has no transaction to take part in, and say what to do."""
    status = connection.info.transaction_status
    piped = connection.pgconn.pipeline_status != PipelineStatus.OFF
    if piped and status != TransactionStatus.UNKNOWN:
        raise CannotJoin(
            "the connection is in pipeline mode: leave its pipeline() block first; nothing was done"
        )
    if status in _REFUSED:
        raise CannotJoin(f"the connection cannot be joined: {_REFUSED[status]}; nothing was done")
    if status == TransactionStatus.IDLE and connection.autocommit:
        raise CannotJoin(
            "the connection is in autocommit mode and in no transaction: open one, by "
            "connection.transaction(), engine.begin() or transaction.atomic(); nothing was done"
        )


def _is(given: object, module: str, *names: str) -> bool:
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(given, tuple(getattr(loaded, name) for name in names))


def _is_async(given: object) -> bool:
    names = ("AsyncConnection", "AsyncSession", "async_scoped_session")
    return isinstance(given, psycopg.AsyncConnection) or _is(
        given, "sqlalchemy.ext.asyncio", *names
    )


def _named(given: object) -> str:
    return f"{type(given).__module__}.{type(given).__qualname__}"


@contextlib.contextmanager
def _sqlalchemy_errors() -> Iterator[None]:
    """Raise SQLAlchemy's errors, such as of a closed or failed transaction, as `CannotJoin`."""
    errors = sys.modules.get("sqlalchemy.exc")
    try:
        yield
    except Exception as error:
        if errors is None or not isinstance(error, errors.SQLAlchemyError):
            raise
        raise CannotJoin(f"SQLAlchemy refused; nothing was done: {error}") from error


def _of_driver(given: Any, inner: Any, wanted: type[Any]) -> Any:
    if not isinstance(inner, wanted):
        dialect = given.dialect
        raise CannotJoin(
            f"the engine speaks {dialect.name}+{dialect.driver}: make it with "
            "postgresql+psycopg://…, for jobs are written with psycopg 3; nothing was done"
        )
    # In autocommit mode, a transaction begun by SQLAlchemy would be one in name only.
    require_transaction(inner)
    return inner


def _begun(given: Any) -> Blocking:
    """SQLAlchemy must know that a transaction has begun, else its commit would do nothing."""
    inner: Blocking = _of_driver(given, given.connection.driver_connection, psycopg.Connection)
    if not given.in_transaction():
        given.begin()
    return inner


def _of_django(wrapper: Any) -> Blocking:
    wrapper.ensure_connection()
    inner = wrapper.connection
    if not isinstance(inner, psycopg.Connection):
        raise CannotJoin(
            f"this Django connection speaks {wrapper.vendor} by {_named(inner)}: it must be "
            "PostgreSQL with psycopg 3; nothing was done"
        )
    if wrapper.needs_rollback:
        raise CannotJoin(
            "the atomic block has failed already and will be rolled back; nothing was done"
        )
    return inner
