"""Behind PgBouncer, where each transaction meets another session."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from tests.harness.servers.errors import NoServerProgram
from tests.harness.servers.pgbouncer import PgBouncer, pgbouncer_version
from tests.harness.servers.postgres import PostgresServer
from tests.stores.postgres.actions import finish, ids, put, take
from tests.stores.postgres.conftest import OpenStore

from ackline.core.errors import StoreError
from ackline.core.job import Draft, QueueKey
from ackline.stores.postgres import PostgresStore
from ackline.stores.postgres.io.address import read_address

KEEPS_PREPARED = (1, 21)

LEFT_BEHIND = """
SELECT current_setting('enable_seqscan'), current_setting('jit'),
       (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_listening_channels())
"""


@pytest.fixture(scope="module")
def pooler(server: PostgresServer) -> Iterator[PgBouncer]:
    try:
        version = pgbouncer_version()
    except NoServerProgram as error:
        pytest.skip(str(error))
    kept = {"max_prepared_statements": "100"} if version >= KEEPS_PREPARED else {}
    with PgBouncer(server, default_pool_size="2", **kept) as pooler:
        yield pooler


@pytest.fixture
def pooled(pooler: PgBouncer, schema: str) -> Iterator[PostgresStore]:
    store = PostgresStore(read_address(f"{pooler.url}?schema={schema}&pooler=transaction"))
    store.open()
    yield store
    store.close()


def drain(store: PostgresStore, queue: QueueKey, jobs: int) -> list[str]:
    """Several threads that claim and settle until all is done."""
    done: list[str] = []

    def work(_: int) -> None:
        while len(done) < jobs:
            claimed = take(store, queue, 5)
            assert all(verdict.applied for verdict in finish(store, queue, *claimed))
            done.extend(ids(claimed))

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(work, range(6)))
    return done


def test_more_threads_than_sessions_work(pooled: PostgresStore, queue: QueueKey) -> None:
    put(pooled, queue, *map(str, range(120)))

    assert sorted(drain(pooled, queue, 120), key=int) == [str(n) for n in range(120)]


def test_nothing_is_left_in_the_sessions(
    pooled: PostgresStore, pooler: PgBouncer, queue: QueueKey
) -> None:
    """Others who share them would find our settings, statements and channels."""
    with pooled.listen([queue], "ready"):
        put(pooled, queue, *map(str, range(20)))
        drain(pooled, queue, 20)

    # Both at once, in transactions, so that each has a session of its own.
    with psycopg.connect(pooler.url) as one, psycopg.connect(pooler.url) as other:
        left = {connection.execute(LEFT_BEHIND).fetchone() for connection in (one, other)}
    assert left == {("on", "on", 0, 0)}


def test_a_pooled_store_wakes_one_that_is_not(
    pooled: PostgresStore, open_store: OpenStore, queue: QueueKey
) -> None:
    """Producers behind the pooler, workers in front of it."""
    direct = open_store()
    with direct.listen([queue], "ready") as news:
        while news.wait(0.3):
            pass
        teller = threading.Timer(0.1, put, (pooled, queue, "a"))
        teller.start()
        assert news.wait(10.0)
        teller.join()


def test_a_listener_behind_it_polls(pooled: PostgresStore, queue: QueueKey) -> None:
    with pooled.listen([queue], "ready") as news:
        put(pooled, queue, "a")
        assert news.wait(2.0)
    assert pooled.info().details["wake-ups"] == "polling every 0.25 s"


def test_a_pooler_is_detected(pooled: PostgresStore) -> None:
    info = pooled.info()

    assert info.details["pooler"] == "detected, pooler=transaction"
    assert "pooler" not in {trouble.code for trouble in info.issues}


def test_without_pooler_transaction_the_error_names_it(pooler: PgBouncer) -> None:
    store = PostgresStore(read_address(pooler.url))

    with pytest.raises(StoreError, match=r"\?pooler=transaction"):
        store.open()


def test_prepared_statements_where_the_pooler_supports_them(
    pooler: PgBouncer, schema: str, queue: QueueKey
) -> None:
    if pgbouncer_version() < KEEPS_PREPARED:
        pytest.skip("PgBouncer keeps prepared statements from 1.21 on")
    address = read_address(f"{pooler.url}?schema={schema}&pooler=transaction&prepare=yes")
    store = PostgresStore(address)
    store.open()
    store.enqueue(queue, [Draft(str(n), "mail", b"") for n in range(120)])

    assert len(drain(store, queue, 120)) == 120
    store.close()
