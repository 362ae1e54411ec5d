"""The server stops and comes back; sessions end; the schema is made by many at once."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.harness.servers.postgres import PostgresServer
from tests.stores.postgres.actions import finish, ids, put, take
from tests.stores.postgres.conftest import OpenStore
from tests.waiting import until

from ackline.core.errors import StoreUnavailable
from ackline.core.job import Draft, QueueKey, State
from ackline.stores.contract import Listener
from ackline.stores.postgres import PostgresStore
from ackline.stores.postgres.io.address import read_address
from ackline.stores.postgres.io.pipeline import Connection


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


def settle(listener: Listener) -> None:
    while listener.wait(0.2):
        pass


def heard(listener: Listener, store: PostgresStore, queue: QueueKey) -> bool:
    """Whether news arrive, within a few seconds."""
    for turn in range(20):
        settle(listener)
        put(store, queue, f"news {time.monotonic()} {turn}")
        if listener.wait(0.5):
            return True
    return False


def test_a_store_survives_a_crash_and_restart_of_its_server(
    own_server: PostgresServer, queue: QueueKey
) -> None:
    store = PostgresStore(read_address(own_server.url))
    store.open()
    put(store, queue, "a", "b")
    [job] = take(store, queue, 1)
    with store.listen([queue], "ready") as listener:
        own_server.stop_immediately()
        with pytest.raises(StoreUnavailable):
            put(store, queue, "c")
        own_server.restart()

        assert finish(store, queue, job)[0].applied
        assert ids(take(store, queue)) == ["b"]
        assert heard(listener, store, queue)
    store.close()


def test_a_session_that_was_ended_is_replaced(
    store: PostgresStore, server: PostgresServer, queue: QueueKey
) -> None:
    put(store, queue, "a")
    with store.listen([queue], "ready") as listener:
        settle(listener)
        with server.connect() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'ackline'"
            )
        # It is told to end, and does so a moment later.
        time.sleep(0.5)

        assert ids(take(store, queue)) == ["a"]
        assert heard(listener, store, queue)


def test_many_processes_create_the_schema_at_once(open_store: OpenStore, queue: QueueKey) -> None:
    with ThreadPoolExecutor(6) as threads:
        stores = list(threads.map(lambda _: open_store(), range(6)))

    put(stores[0], queue, "a")
    assert ids(take(stores[5], queue)) == ["a"]


def test_several_instances_share_a_database(server: PostgresServer, queue: QueueKey) -> None:
    one, two = (
        PostgresStore(read_address(f"{server.socket_url}&schema={name}"))
        for name in ("instance-one", "instance.two")
    )
    one.open()
    two.open()
    put(one, queue, "a")

    assert take(two, queue) == []
    assert ids(take(one, queue)) == ["a"]
    one.close()
    two.close()


def test_behind_a_pooler_listeners_poll_and_nothing_is_prepared(
    open_store: OpenStore, queue: QueueKey, connected: list[Connection]
) -> None:
    store = open_store("&pooler=transaction")
    with store.listen([queue], "ready") as listener:
        put(store, queue, "a", "b")
        assert listener.wait(2.0)
        for job in take(store, queue):
            finish(store, queue, job)

    [session] = [one for one in connected if not one.closed]
    assert session.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)


def test_busy_workers_are_not_notified_of_each_job(
    open_store: OpenStore, queue: QueueKey, server: PostgresServer, schema: str
) -> None:
    """A notification makes commits wait for each other: only who waits is told."""
    store = open_store()
    with store.listen([queue], "ready") as listener, server.connect() as connection:
        settle(listener)
        time.sleep(0.1)
        put(store, queue, "a")
        until(lambda: not connection.execute(f'SELECT FROM "{schema}".listener').fetchall())

        put(store, queue, "b")
        # Back again, it is told to look, for what happened while it was away.
        assert listener.wait(0)


def test_counts_are_compacted(
    store: PostgresStore, server: PostgresServer, schema: str, queue: QueueKey
) -> None:
    for n in range(600):
        store.enqueue(queue, [Draft(str(n), "mail", b"", assume_new=True)])
    store.describe("default")

    with server.connect() as connection:
        rows = connection.execute(f'SELECT count(*) FROM "{schema}".count_change').fetchone()

    assert rows == (1,)
    assert store.describe("default")[0].counts[State.QUEUED] == 600


def test_no_transaction_waits_for_a_counter(store: PostgresStore, queue: QueueKey) -> None:
    """Eight claimers that settle and claim: no lock of one makes another wait for its commit."""
    put(store, queue, *map(str, range(400)), assume_new=True)
    done: list[str] = []

    def work() -> None:
        while jobs := take(store, queue, 10):
            finish(store, queue, *jobs)
            done.extend(ids(jobs))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(done, key=int) == [str(n) for n in range(400)]
