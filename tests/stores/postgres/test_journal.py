"""No reader skips a late commit; the journal of another server comes first."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.harness.servers.postgres import PostgresServer
from tests.stores.postgres.actions import put
from tests.stores.postgres.conftest import OpenStore

from ackline import Queues
from ackline.core.job import QueueKey
from ackline.stores.postgres import PostgresStore
from ackline.stores.postgres.io.transaction import Transaction


@contextmanager
def enqueued_late(
    server: PostgresServer, store: PostgresStore, queue: QueueKey, id: str
) -> Iterator[None]:
    """An enqueue in a caller's transaction, which is committed at the end of the block."""
    with server.connect(autocommit=False) as tx:
        Queues(store, queue.tenant)[queue.name].enqueue({}, id=id, kind="mail", connection=tx)
        yield


def test_a_reader_waits_for_the_older_of_two_open_transactions(
    store: PostgresStore, server: PostgresServer, queue: QueueKey
) -> None:
    put(store, queue, "first")
    [first] = store.events(queue, None, 10)

    with enqueued_late(server, store, queue, "late"):
        put(store, queue, "early")
        assert store.events(queue, first.cursor, 10) == []
        assert store.events(None, first.cursor, 10) == []

    assert [e.id for e in store.events(queue, first.cursor, 10)] == ["late", "early"]
    assert [e.id for e in store.events(None, first.cursor, 10)] == ["late", "early"]


def test_the_end_of_the_journal_is_before_what_is_not_committed(
    store: PostgresStore, server: PostgresServer, queue: QueueKey
) -> None:
    put(store, queue, "first")

    with enqueued_late(server, store, queue, "late"):
        put(store, queue, "early")
        end = store.info().cursor

    assert [event.id for event in store.events(queue, end, 10)] == ["late", "early"]


def test_no_batch_is_trimmed_after_a_running_transaction(
    store: PostgresStore, server: PostgresServer, queue: QueueKey
) -> None:
    put(store, queue, "first")
    [first] = store.events(queue, None, 10)

    with enqueued_late(server, store, queue, "late"):
        put(store, queue, "early")
        store.capabilities = type(store.capabilities)(
            name="postgresql", persistent=True, shared=True, batch_size=1, max_journal=0
        )
        store.prune(queue, 10)

    assert [e.id for e in store.events(queue, first.cursor, 10)] == ["late", "early"]


def test_the_journal_of_another_server_comes_before_ours(
    open_store: OpenStore, server: PostgresServer, schema: str, queue: QueueKey
) -> None:
    """Transactions of a restored dump may have higher numbers than the next ones here."""
    before = open_store()
    put(before, queue, "a", "b")
    cursor = before.events(queue, None, 1)[0].cursor
    with server.connect() as connection:
        connection.execute(
            f'UPDATE "{schema}".journal SET moment = (moment::text::bigint + 1000000)::text::xid8'
        )
    batch, _, used = cursor.partition(".")
    moved = f"{int(batch) + (1000000 << 40)}.{used}"

    after = open_store()
    put(after, queue, "c")

    assert [event.id for event in after.events(queue, None, 10)] == ["a", "b", "c"]
    assert [event.id for event in after.events(queue, moved, 10)] == ["b", "c"]


@pytest.mark.parametrize("one_queue", [True, False])
def test_a_page_takes_no_more_batches_from_the_server_than_its_own(
    store: PostgresStore, queue: QueueKey, monkeypatch: pytest.MonkeyPatch, one_queue: bool
) -> None:
    for batch in range(20):
        put(store, queue, *(f"{batch}-{number}" for number in range(10)))
    read: list[int] = []
    rows = Transaction.rows

    def counted(tx: Transaction, name: str, *values: Any) -> list[Any]:
        found = rows(tx, name, *values)
        if name in ("read_queue_events", "read_all_events"):
            read.append(len(found))
        return found

    monkeypatch.setattr(Transaction, "rows", counted)

    assert len(store.events(queue if one_queue else None, None, 100)) == 100
    assert sum(read) == 10
