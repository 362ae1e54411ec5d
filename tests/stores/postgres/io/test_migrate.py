"""The schema: made, brought forward, shared by two releases, or refused."""

import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.harness.servers.postgres import PostgresServer
from tests.stores.postgres.actions import finish, ids, put, take
from tests.stores.postgres.conftest import OpenStore

from ackline.core.clock import Clock
from ackline.core.errors import StoreError, StoreMismatch, StoreUnavailable
from ackline.core.job import QueueKey
from ackline.stores.contract import Store
from ackline.stores.migrations import Migration, read_migrations
from ackline.stores.postgres import PostgresStore
from ackline.stores.postgres.io import migrate
from ackline.stores.postgres.io.address import read_address
from ackline.testing.conformance import StoreConformance

LOCK = "SELECT pg_advisory_xact_lock(1097034572, hashtext(%s))"


def store_at(server: PostgresServer, schema: str, more: str = "") -> PostgresStore:
    return PostgresStore(read_address(f"{server.socket_url}&schema={schema}{more}"))


def numbers(steps: tuple[Migration, ...]) -> list[int]:
    return [step.number for step in steps]


@contextmanager
def migrating_elsewhere(server: PostgresServer, schema: str) -> Iterator[psycopg.Connection]:
    """As if another process were in the middle of it."""
    with server.connect() as connection, connection.transaction():
        connection.execute(LOCK, [schema])
        yield connection


# --- making ---


def test_a_schema_is_created_once(server: PostgresServer, schema: str) -> None:
    store = store_at(server, schema)

    assert numbers(store.migrate().steps) == numbers(read_migrations("ackline.stores.postgres"))
    assert store.migrate().steps == ()
    assert store.pending_migrations().steps == ()


def test_pending_migrations_changes_nothing(server: PostgresServer, schema: str) -> None:
    store = store_at(server, schema)

    assert store.pending_migrations().schema == 0
    assert numbers(store.pending_migrations().steps) == numbers(migrate.migrations())


def test_what_a_dry_run_shows_is_all_that_is_needed(
    server: PostgresServer, schema: str, queue: QueueKey
) -> None:
    """Somebody else, with other rights, may run it by hand."""
    with server.connect() as connection:
        for step in store_at(server, schema).pending_migrations().steps:
            connection.execute(step.sql.encode())

    store = store_at(server, schema, "&migrate=no")
    store.open()
    put(store, queue, "a")
    assert ids(take(store, queue)) == ["a"]
    store.close()


def test_an_empty_schema_is_used(server: PostgresServer, schema: str) -> None:
    with server.connect() as connection:
        connection.execute(f'CREATE SCHEMA "{schema}"')

    assert store_at(server, schema).migrate().steps


def test_concurrent_migrations_run_each_step_once(server: PostgresServer, schema: str) -> None:
    with ThreadPoolExecutor(6) as threads:
        taken = list(threads.map(lambda _: store_at(server, schema).migrate().steps, range(6)))

    assert sum(taken, ()) == migrate.migrations()


# --- locks ---


def test_a_migration_retries_while_a_table_is_locked(
    server: PostgresServer, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "LOCK_TIMEOUT", "20ms")
    monkeypatch.setattr(migrate, "FIRST_DELAY", 0.02)
    store = store_at(server, schema)
    with migrating_elsewhere(server, schema):
        waiting = threading.Thread(target=store.migrate)
        waiting.start()
        time.sleep(0.3)
        assert waiting.is_alive()
        assert store.pending_migrations().steps
    waiting.join(10)

    assert store.pending_migrations().steps == ()


def test_a_lock_that_is_never_released_is_an_error(
    server: PostgresServer, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "LOCK_TIMEOUT", "10ms")
    monkeypatch.setattr(migrate, "FIRST_DELAY", 0.001)
    monkeypatch.setattr(migrate, "MAX_DELAY", 0.01)
    store = store_at(server, schema)

    with (
        migrating_elsewhere(server, schema),
        pytest.raises(StoreUnavailable, match="lock"),
    ):
        store.migrate()
    assert numbers(store.pending_migrations().steps) == numbers(migrate.migrations())


def test_a_migration_that_waits_for_a_lock_does_not_block_others_for_long(
    server: PostgresServer, open_store: OpenStore, schema: str, queue: QueueKey,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A step wants a table that a long transaction reads: jobs go on meanwhile."""
    monkeypatch.setattr(migrate, "LOCK_TIMEOUT", "50ms")
    store = open_store()
    put(store, queue, "a")
    later = add_step(monkeypatch, "ALTER TABLE ackline.ready ADD COLUMN later text;")
    with server.connect() as connection, connection.transaction():
        connection.execute(f'SELECT count(*) FROM "{schema}".ready')
        migrating = threading.Thread(target=store_at(server, schema).migrate)
        migrating.start()
        time.sleep(0.1)
        began = time.monotonic()
        assert ids(take(store, queue)) == ["a"]
        took = time.monotonic() - began
    migrating.join(10)

    assert took < 1.0
    assert store_at(server, schema).pending_migrations().schema == later.number


# --- two releases, one schema ---

EXPANSION = "\n".join(
    [
        "-- compatible from: 1",
        *(
            f"ALTER TABLE ackline.{table} ADD COLUMN later text;"
            for table in (
                "attempt", "count_change", "epoch", "inactive", "job", "job_group", "journal",
                "key_value", "lease", "listener", "parked", "progress", "queue", "queue_kind",
                "ready", "trimmed", "worker",
            )
        ),
        "CREATE TABLE ackline.novelty (job bigint PRIMARY KEY, what text NOT NULL);",
        "CREATE INDEX job_created ON ackline.job (created);",
    ]
)  # fmt: skip
"""What a later release may bring first: all that its predecessor need not know of."""


def add_step(monkeypatch: pytest.MonkeyPatch, sql: str, compatible_from: int = 1) -> Migration:
    """A later release: it knows one step more."""
    known = migrate.migrations()
    number = known[-1].number + 1
    step = Migration(
        number=number, name=f"{number:04}_later.sql", sql=sql, compatible_from=compatible_from
    )
    monkeypatch.setattr(migrate, "migrations", lambda: (*known, step))
    return step


def expand(store: PostgresStore) -> None:
    with pytest.MonkeyPatch.context() as later:
        add_step(later, EXPANSION)
        store.migrate()


def test_a_release_works_on_the_next_ones_schema(
    server: PostgresServer, open_store: OpenStore, schema: str, queue: QueueKey
) -> None:
    running = open_store()
    put(running, queue, "a", "b")
    [job] = take(running, queue, 1)

    expand(store_at(server, schema))

    assert finish(running, queue, job)[0].applied
    started_later = open_store()
    assert ids(take(started_later, queue)) == ["b"]
    assert started_later.info().schema == migrate.migrations()[-1].number + 1


@pytest.mark.slow
class TestOnTheNextSchema(StoreConformance):
    """Every rule, on tables that a later release has expanded."""

    @pytest.fixture(autouse=True)
    def _server(self, server: PostgresServer) -> None:
        self.server = server

    def make_store(self, clock: Clock, place: Path) -> Store:
        address = read_address(f"{self.server.socket_url}&schema=expanded_{place.name}")
        store = PostgresStore(address, clock)
        if not store.pending_migrations().schema:
            expand(store)
        return store

    def make_connection(self, path: Path) -> psycopg.Connection[Any]:
        return self.server.connect(autocommit=False)


def test_a_schema_of_a_newer_release_is_refused(
    server: PostgresServer, open_store: OpenStore, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store()
    with monkeypatch.context() as later:
        step = add_step(later, "ALTER TABLE ackline.worker DROP COLUMN last_heartbeat;", 2)
        store_at(server, schema).migrate()

    with pytest.raises(StoreMismatch, match=rf"schema {step.number}"):
        open_store()
    with pytest.raises(StoreMismatch, match="upgrade"):
        store_at(server, schema).migrate()


def test_a_process_that_missed_a_migration_gets_an_error(
    server: PostgresServer, open_store: OpenStore, schema: str, queue: QueueKey
) -> None:
    running = open_store()
    put(running, queue, "a")
    with server.connect() as connection:
        connection.execute(f'ALTER TABLE "{schema}".lease DROP COLUMN ranks')

    with pytest.raises(StoreMismatch, match="column"):
        take(running, queue)


def test_an_older_schema_is_brought_forward_or_refused(
    server: PostgresServer, open_store: OpenStore, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store().close()
    step = add_step(monkeypatch, EXPANSION)

    with pytest.raises(StoreMismatch, match="ackline migrate"):
        open_store("&migrate=no")
    assert open_store().info().schema == step.number


def test_a_failed_migration_changes_nothing(
    server: PostgresServer, open_store: OpenStore, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store().close()
    add_step(monkeypatch, f"{EXPANSION}\nSELECT 1 / 0;")

    with pytest.raises(StoreError, match="division by zero"):
        store_at(server, schema).migrate()
    with server.connect() as connection:
        row = connection.execute(f"SELECT to_regclass('\"{schema}\".novelty')").fetchone()
    assert row == (None,)


# --- roles ---

GUIDE = Path(__file__).parents[4] / "docs" / "guides" / "postgres.md"


def documented_grants(schema: str) -> list[str]:
    """What the guide grants to `app`, for another schema."""
    lines = re.findall(r"^GRANT .* SCHEMA ackline TO app;$", GUIDE.read_text(), re.MULTILINE)
    return [line.replace("SCHEMA ackline", f'SCHEMA "{schema}"') for line in lines]


def test_the_documented_grants_are_enough_and_needed(
    server: PostgresServer, open_store: OpenStore, schema: str, queue: QueueKey
) -> None:
    open_store()
    with server.connect() as connection:
        connection.execute("CREATE ROLE app LOGIN")
    url = f"{server.url.replace('postgres@', 'app@')}?schema={schema}&migrate=no"
    store = PostgresStore(read_address(url))
    with pytest.raises(StoreError, match="may not"):
        store.open()

    with server.connect() as connection:
        for grant in documented_grants(schema):
            connection.execute(grant.encode())
    store.open()
    put(store, queue, "a", "b")
    with store.listen([queue], "ready"):
        finish(store, queue, *take(store, queue))
    assert store.prune(queue, 10) == 0
    assert "not visible to this user" in store.info().details["open transactions"]
    store.close()


def test_a_read_only_user_can_read(
    server: PostgresServer, open_store: OpenStore, schema: str, queue: QueueKey
) -> None:
    put(open_store(), queue, "a")
    with server.connect() as connection:
        connection.execute("CREATE ROLE onlooker LOGIN")
        connection.execute(f'GRANT USAGE ON SCHEMA "{schema}" TO onlooker')
        connection.execute(f'GRANT SELECT ON ALL TABLES IN SCHEMA "{schema}" TO onlooker')
    url = f"{server.url.replace('postgres@', 'onlooker@')}?schema={schema}"
    store = PostgresStore(read_address(url))
    store.open()

    assert [job.id for job in store.get(queue, ["a"]) if job] == ["a"]
    with pytest.raises(StoreError, match="only read"):
        put(store, queue, "b")
    store.close()
