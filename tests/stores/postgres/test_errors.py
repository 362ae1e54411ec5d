"""What goes wrong is said in our words, with what to do."""

import psycopg
import pytest
from tests.stores.postgres.conftest import OpenStore
from tests.stores.postgres.words import put, take

from ackline.errors import (
    ConfigError,
    StoreError,
    StoreFull,
    StoreMismatch,
    StoreReadOnly,
    StoreUnavailable,
)
from ackline.job import QueueKey
from ackline.stores.postgres import PostgresStore
from ackline.stores.postgres.address import read_address
from ackline.stores.postgres.errors import translate
from ackline.stores.postgres.facts import in_words
from ackline.stores.postgres.transaction import Again, Transaction
from ackline.testing.servers.ports import free_port
from ackline.testing.servers.postgres import PostgresServer


def opening(url: str) -> None:
    store = PostgresStore(read_address(url))
    try:
        store.open()
    finally:
        store.close()


def test_nobody_is_there() -> None:
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        opening(f"postgresql://postgres@127.0.0.1:{free_port()}/postgres")


def test_no_such_database(server: PostgresServer) -> None:
    with pytest.raises(StoreError, match="no such database"):
        opening(server.url.removesuffix("postgres") + "nowhere")


def test_no_such_user(server: PostgresServer) -> None:
    with pytest.raises(StoreError, match="let this user in"):
        opening(server.url.replace("postgres@", "nobody@"))


def test_a_user_who_may_not(server: PostgresServer, open_store: OpenStore, schema: str) -> None:
    open_store()
    with server.connect() as connection:
        connection.execute("CREATE ROLE visitor LOGIN")
    visitor = server.url.replace("postgres@", "visitor@")

    with pytest.raises(StoreError, match=r"may not do that.*ackline migrate"):
        opening(f"{visitor}?schema={schema}")
    with pytest.raises(StoreError, match="may not do that"):
        opening(f"{visitor}?schema=another")


def test_a_schema_that_is_not_there(server: PostgresServer) -> None:
    with pytest.raises(StoreMismatch, match=r"is not there: run `ackline migrate`"):
        opening(f"{server.url}?schema=unmade&migrate=no")


def test_a_schema_of_a_newer_release(
    server: PostgresServer, open_store: OpenStore, schema: str
) -> None:
    open_store().close()
    with server.connect() as connection:
        connection.execute(f"INSERT INTO \"{schema}\".migration VALUES (9999, 'later')")

    with pytest.raises(StoreMismatch, match="newer Ackline"):
        open_store()


def test_a_server_that_only_reads(
    server: PostgresServer, open_store: OpenStore, queue: QueueKey
) -> None:
    open_store()
    reader = open_store("&options=-c%20default_transaction_read_only%3Don")

    with pytest.raises(StoreReadOnly, match="name the primary"):
        put(reader, queue, "a")


def test_all_connections_in_use(open_store: OpenStore, queue: QueueKey) -> None:
    store = open_store("&connections=1&timeout=0.1")
    connection = store._engine.connections.take()

    with pytest.raises(StoreUnavailable, match="connections"):
        take(store, queue)

    store._engine.connections.give(connection)
    assert take(store, queue) == []


def test_who_stands_in_the_way_is_tried_again(store: PostgresStore, queue: QueueKey) -> None:
    turns = []

    def work(tx: Transaction) -> str:
        turns.append(tx)
        if len(turns) < 3:
            raise Again
        return "done"

    assert store._engine.write(work) == "done"


def test_who_always_stands_in_the_way_is_told_of(store: PostgresStore) -> None:
    def work(tx: Transaction) -> None:
        raise Again

    with pytest.raises(StoreUnavailable, match="nothing was changed"):
        store._engine.write(work)


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
    assert type(translate(error, "here")) is ours


def test_the_password_is_never_told() -> None:
    address = read_address("postgresql://me:secret@127.0.0.1/db")

    assert "secret" not in f"{address} {address.location}"


@pytest.mark.parametrize(
    "options",
    ["schema=", "schema=pg_x", 'schema=a"b', "migrate=maybe", "notify=1", "connections=0",
     "timeout=never", "unheard=of"],
)  # fmt: skip
def test_a_url_with_a_mistake(options: str) -> None:
    with pytest.raises(ConfigError):
        read_address(f"postgresql://localhost/db?{options}")


def test_parameters_of_libpq_pass_through() -> None:
    address = read_address("postgresql://h1,h2/db?target_session_attrs=read-write&schema=x")

    assert address.schema == "x"
    assert "target_session_attrs=read-write" in address.conninfo
    assert "schema" not in address.conninfo


def test_durability_in_words() -> None:
    assert in_words("on", "off", "on", False).startswith("none")
    assert "may lose the last moments" in in_words("off", "on", "on", False)
    assert "standbys" in in_words("on", "on", "on", True)
