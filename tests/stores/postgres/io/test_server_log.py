"""What the store does in the normal course of things is no error to the server."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from tests.harness.servers.postgres import PostgresServer
from tests.stores.postgres.blocked_sessions import until_blocked
from tests.stores.postgres.conftest import OpenStore

from ackline import Queue, Queues
from ackline.core.config import QueueSettings
from ackline.core.errors import AcklineError, StoreFull
from ackline.core.job import Draft, State
from ackline.stores.postgres import PostgresStore
from ackline.stores.postgres.io.address import read_address

Errors = Callable[[], list[str]]


@pytest.fixture
def errors(server: PostgresServer) -> Errors:
    """Reads the errors that the server has logged since the test began."""
    begin = server.log.stat().st_size

    def errors() -> list[str]:
        lines = server.log.read_bytes()[begin:].decode(errors="replace").splitlines()
        return [line for line in lines if "ERROR:" in line]

    return errors


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as threads:
        yield threads


def drafts(*ids: str, delay: float = 0.0) -> list[Draft]:
    """What is believed to be new."""
    return [Draft(id, "mail", b"{}", delay=delay, assume_new=True) for id in ids]


def journal(work: Queue[Any, Any]) -> list[str]:
    return [event.id for event in work.events() if event.id]


def test_control_an_error_is_found(server: PostgresServer, errors: Errors) -> None:
    with server.connect() as connection, pytest.raises(psycopg.errors.DivisionByZero):
        connection.execute("SELECT 1 / 0")

    assert errors() == [line for line in errors() if "division by zero" in line] != []


@pytest.mark.parametrize("delay", [0.0, 60.0])
@pytest.mark.parametrize("ids", [["a"], ["a", "b"], ["b", "a"], ["b", "b"]])
def test_a_known_id(
    store: PostgresStore, work: Queue[Any, Any], errors: Errors, ids: list[str], delay: float
) -> None:
    store.enqueue(work.key, drafts("a"))

    receipts = store.enqueue(work.key, drafts(*ids, delay=delay))

    assert [receipt.accepted for receipt in receipts] == [
        id != "a" and ids.index(id) == place for place, id in enumerate(ids)
    ]
    assert sorted(journal(work)) == sorted({"a", *ids})
    assert sum(work.counts().values()) == len({"a", *ids})
    assert errors() == []


@pytest.mark.parametrize("ids", [["a"], ["a", "b"]])
def test_a_queue_that_has_changed(
    open_store: OpenStore,
    store: PostgresStore,
    work: Queue[Any, Any],
    errors: Errors,
    ids: list[str],
) -> None:
    for id in ("y", "z"):  # a queue is remembered from its second use on
        store.enqueue(work.key, drafts(id))
    elsewhere = open_store()
    elsewhere.configure(work.key, QueueSettings(max_jobs=1))

    with pytest.raises(StoreFull):
        store.enqueue(work.key, drafts(*ids))

    elsewhere.configure(work.key, QueueSettings())
    assert all(receipt.accepted for receipt in store.enqueue(work.key, drafts(*ids)))
    assert sorted(journal(work)) == sorted(["y", "z", *ids])
    assert errors() == []


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("ids", [["a"], ["b", "a"]])
def test_an_id_that_another_transaction_is_inserting(
    store: PostgresStore,
    work: Queue[Any, Any],
    server: PostgresServer,
    threads: ThreadPoolExecutor,
    errors: Errors,
    ids: list[str],
    commits: bool,
) -> None:
    with server.connect(autocommit=False) as tx:
        work.enqueue({}, id="a", kind="mail", connection=tx)
        brought = threads.submit(store.enqueue, work.key, drafts(*ids))
        until_blocked(server)
        if commits:
            tx.commit()
        else:
            tx.rollback()

    assert [receipt.accepted for receipt in brought.result(20)] == [
        id != "a" or not commits for id in ids
    ]
    assert sorted(journal(work)) == sorted(set(ids) | {"a"} if commits else ids)
    assert errors() == []


def test_many_producers_of_the_same_ids(
    store: PostgresStore, work: Queue[Any, Any], threads: ThreadPoolExecutor, errors: Errors
) -> None:
    ids = [f"id-{number:03}" for number in range(120)]
    brought = [
        threads.submit(store.enqueue, work.key, drafts(*ids[start : start + size]))
        for start in range(0, len(ids), 4)
        for size in (1, 3, 4, 4)
    ]

    accepted = [
        receipt.id for future in brought for receipt in future.result(30) if receipt.accepted
    ]

    assert sorted(accepted) == ids
    assert sorted(journal(work)) == ids
    assert errors() == []


def test_a_move_to_where_another_transaction_is_inserting_the_same_id(
    store: PostgresStore,
    work: Queue[Any, Any],
    server: PostgresServer,
    threads: ThreadPoolExecutor,
    errors: Errors,
) -> None:
    other = Queues(store, work.key.tenant)["other"]
    store.enqueue(work.key, drafts("a"))
    store.enqueue(other.key, drafts("z"))
    with server.connect(autocommit=False) as tx:
        other.enqueue({}, id="a", kind="mail", connection=tx)
        moved = threads.submit(work.move, "a", other.name)
        until_blocked(server)
        tx.commit()

    with pytest.raises(AcklineError):
        moved.result(20)
    assert work.counts()[State.QUEUED] == other.counts()[State.QUEUED] - 1 == 1
    assert errors() == []


def test_connections_that_may_only_read(
    server: PostgresServer, store: PostgresStore, work: Queue[Any, Any], schema: str, errors: Errors
) -> None:
    store.enqueue(work.key, drafts("a"))
    url = f"{server.socket_url}&schema={schema}&options=-c%20default_transaction_read_only%3Don"
    reader = PostgresStore(read_address(url))
    reader.open()

    assert [job.id for job in reader.get(work.key, ["a"]) if job] == ["a"]
    reader.close()
    assert errors() == []
