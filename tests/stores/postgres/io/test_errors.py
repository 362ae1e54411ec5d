"""What goes wrong is said in our words, with what to do."""

import psycopg
import pytest
from tests.harness.servers.ports import free_port
from tests.harness.servers.postgres import PostgresServer
from tests.stores.postgres.actions import put
from tests.stores.postgres.conftest import OpenStore

from ackline.core.errors import (
    StoreError,
    StoreFull,
    StoreMismatch,
    StoreReadOnly,
    StoreUnavailable,
)
from ackline.core.job import QueueKey
from ackline.stores.postgres import PostgresStore
from ackline.stores.postgres.engine import Engine
from ackline.stores.postgres.io.address import read_address
from ackline.stores.postgres.io.connection_pool import ConnectionPool
from ackline.stores.postgres.io.errors import translate_error
from ackline.stores.postgres.io.transaction import RetryTransaction, Transaction


def opening(url: str) -> None:
    store = PostgresStore(read_address(url))
    try:
        store.open()
    finally:
        store.close()


def test_no_server_is_running() -> None:
    with pytest.raises(StoreUnavailable, match="reached"):
        opening(f"postgresql://postgres@127.0.0.1:{free_port()}/postgres")


def test_no_such_database(server: PostgresServer) -> None:
    with pytest.raises(StoreError, match="no such database"):
        opening(server.url.removesuffix("postgres") + "nowhere")


def test_no_such_user(server: PostgresServer) -> None:
    with pytest.raises(StoreError, match="allow this user to connect"):
        opening(server.url.replace("postgres@", "nobody@"))


def test_a_user_who_may_not(server: PostgresServer, open_store: OpenStore, schema: str) -> None:
    open_store()
    with server.connect() as connection:
        connection.execute("CREATE ROLE visitor LOGIN")
    visitor = server.url.replace("postgres@", "visitor@")

    with pytest.raises(StoreError, match="ackline migrate"):
        opening(f"{visitor}?schema={schema}")
    with pytest.raises(StoreError, match="may not"):
        opening(f"{visitor}?schema=another")


def test_a_missing_schema(server: PostgresServer) -> None:
    with pytest.raises(StoreMismatch, match="ackline migrate"):
        opening(f"{server.url}?schema=unmade&migrate=no")


def test_a_server_that_only_reads(
    server: PostgresServer, open_store: OpenStore, queue: QueueKey
) -> None:
    open_store()
    reader = open_store("&options=-c%20default_transaction_read_only%3Don")

    with pytest.raises(StoreReadOnly, match="primary"):
        put(reader, queue, "a")


def test_all_connections_in_use(server: PostgresServer) -> None:
    address = read_address(f"{server.url}?connections=1&timeout=0.1")
    connections = ConnectionPool(address, lambda _: True)
    connections.open()
    connection = connections.acquire()

    with pytest.raises(StoreUnavailable, match="connections"):
        connections.acquire()

    connections.release(connection)
    assert connections.acquire() is connection
    connections.release(connection)
    connections.close()


def test_a_conflict_is_retried(engine: Engine) -> None:
    turns = []

    def work(tx: Transaction) -> str:
        turns.append(tx)
        if len(turns) < 3:
            raise RetryTransaction
        return "done"

    assert engine.write(work) == "done"


def test_a_conflict_that_persists_is_an_error(engine: Engine) -> None:
    def work(tx: Transaction) -> None:
        raise RetryTransaction

    with pytest.raises(StoreUnavailable):
        engine.write(work)


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (psycopg.errors.DiskFull("no space left"), StoreFull),
        (psycopg.errors.UndefinedTable("relation"), StoreMismatch),
        (psycopg.errors.InFailedSqlTransaction("aborted"), StoreError),
        (psycopg.errors.AdminShutdown("terminating"), StoreUnavailable),
        (psycopg.errors.TooManyConnections("sorry"), StoreUnavailable),
        (psycopg.OperationalError("server closed the connection"), StoreUnavailable),
        (psycopg.errors.CheckViolation("violated"), StoreError),
    ],
)
def test_each_error_has_its_meaning(error: psycopg.Error, ours: type[StoreError]) -> None:
    assert type(translate_error(error, "here")) is ours


@pytest.mark.parametrize(
    ("words", "ours", "said"),
    [
        ("FATAL:  the database system is starting up", StoreUnavailable, "shutting down or"),
        ("FATAL:  the database system is shutting down", StoreUnavailable, "shutting down or"),
        ("FATAL:  the database system is in recovery mode", StoreUnavailable, "shutting down or"),
        ("FATAL:  sorry, too many clients already", StoreUnavailable, "max_connections"),
        ('FATAL:  too many connections for role "me"', StoreUnavailable, "max_connections"),
        ("Connection refused", StoreUnavailable, "cannot be reached"),
        ('FATAL:  database "app" does not exist', StoreError, "no such database"),
        ('FATAL:  role "me" does not exist', StoreError, "allow this user to connect"),
        ('FATAL:  password authentication failed for user "me"', StoreError, "user and password"),
        ("fe_sendauth: no password supplied", StoreError, "requires a password"),
    ],
)
def test_a_refused_connection_is_retried_only_if_that_can_help(
    words: str, ours: type[StoreError], said: str
) -> None:
    text = f'connection failed: connection to server at "127.0.0.1", port 5432 failed: {words}'

    error = translate_error(psycopg.OperationalError(text), "here")

    assert type(error) is ours
    assert said in str(error)


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("postgresql://", "localhost:5432/, schema ackline"),
        ("postgresql:///shop", "localhost:5432/shop, schema ackline"),
        ("postgres://db/shop?schema=x", "db:5432/shop, schema x"),
        ("postgresql://me@db:6432/shop", "db:6432/shop, schema ackline"),
        ("postgresql://a:1,b:2/shop", "a,b:1,2/shop, schema ackline"),
        ("postgresql:///shop?host=%2Frun%2Fpg&port=7", "/run/pg:7/shop, schema ackline"),
    ],
)
def test_where_a_url_leads(url: str, location: str) -> None:
    assert read_address(url).location == location


def test_parameters_of_libpq_pass_through() -> None:
    address = read_address("postgresql://h1,h2/db?target_session_attrs=read-write&schema=x")

    assert address.schema == "x"
    assert "target_session_attrs=read-write" in address.conninfo
    assert "schema" not in address.conninfo
