"""Concurrent producers of the same ids wait for each other, without deadlocks or endless waits."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from tests.harness.servers.postgres import PostgresServer
from tests.stores.postgres.actions import finish, put, take
from tests.stores.postgres.blocked_sessions import until_blocked
from tests.stores.postgres.conftest import OpenStore

from ackline import Queue
from ackline.core.errors import StoreUnavailable
from ackline.core.job import Draft, QueueKey
from ackline.stores.contract import Heartbeat, LeaseExtension, Receipt
from ackline.stores.postgres import PostgresStore

BEAT = Heartbeat(id="w", host="h", pid=1, started_at=0.0, concurrency=1, kinds=None, ttl=9.0)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(12) as threads:
        yield threads


@pytest.fixture
def tx(server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    """Another transaction, open for long. As the last fixture, it ends before the threads."""
    with server.connect(autocommit=False) as connection:
        yield connection


def bring(
    threads: ThreadPoolExecutor, store: PostgresStore, queue: QueueKey, *ids: str
) -> Future[list[Receipt]]:
    """Enqueue jobs that are believed to be new."""
    drafts = [Draft(id, "mail", b"{}", assume_new=True) for id in ids]
    return threads.submit(store.enqueue, queue, drafts)


def accepted(receipts: Future[list[Receipt]]) -> list[bool]:
    return [receipt.accepted for receipt in receipts.result(20)]


def test_ids_are_inserted_in_one_order_whatever_order_they_come_in(
    store: PostgresStore,
    work: Queue[Any, Any],
    server: PostgresServer,
    threads: ThreadPoolExecutor,
    tx: psycopg.Connection[Any],
) -> None:
    tx.execute("SET lock_timeout = '500ms'")
    work.enqueue({}, id="a", kind="mail", connection=tx)
    brought = bring(threads, store, work.key, "z", "a")
    until_blocked(server)

    # If z were inserted already, this would wait for a transaction that waits for this one.
    work.enqueue({}, id="z", kind="mail", connection=tx)
    tx.commit()

    assert accepted(brought) == [False, False]


def test_a_producer_in_a_deadlock_looks_existing_jobs_up(
    store: PostgresStore,
    work: Queue[Any, Any],
    server: PostgresServer,
    threads: ThreadPoolExecutor,
    tx: psycopg.Connection[Any],
) -> None:
    # A session checks for a deadlock once in each wait. The store waits last, and the caller never
    # checks, so that however slow the machine is, the store is the one that the server ends.
    tx.execute("SET deadlock_timeout = '1h'; SET application_name = 'ackline'")
    work.enqueue({}, id="m", kind="mail", connection=tx)
    with server.connect(autocommit=False) as gate:
        work.enqueue({}, id="g", kind="mail", connection=gate)
        brought = bring(threads, store, work.key, "a", "g", "m")
        until_blocked(server)
        caller = threads.submit(work.enqueue, {}, id="a", kind="mail", connection=tx)
        until_blocked(server, 2)
        gate.rollback()

    caller.result(20)
    tx.commit()

    assert accepted(brought) == [False, True, False]


def test_waits_for_an_id_time_out(
    open_store: OpenStore,
    work: Queue[Any, Any],
    threads: ThreadPoolExecutor,
    tx: psycopg.Connection[Any],
) -> None:
    store = open_store("&timeout=0.2")
    work.enqueue({}, id="order", kind="mail", connection=tx)

    with pytest.raises(StoreUnavailable, match="lock"):
        bring(threads, store, work.key, "order").result(5)

    tx.commit()
    [receipt] = store.enqueue(work.key, [Draft("order", "mail", b"{}")])
    assert not receipt.accepted


def test_producers_that_wait_for_an_id_leave_connections_for_heartbeats(
    open_store: OpenStore,
    work: Queue[Any, Any],
    server: PostgresServer,
    threads: ThreadPoolExecutor,
    tx: psycopg.Connection[Any],
) -> None:
    store, queue = open_store("&connections=4"), work.key
    put(store, queue, "mine")
    [job] = take(store, queue)
    work.enqueue({}, id="order", kind="mail", connection=tx)
    brought = [bring(threads, store, queue, "order") for _ in range(8)]
    until_blocked(server, 2)

    beat = store.heartbeat(queue, BEAT, [LeaseExtension(job.id, job.token, 30.0)])
    [verdict] = finish(store, queue, job)

    assert not beat.lost
    assert verdict.applied
    tx.commit()
    assert [accepted(one) for one in brought] == [[False]] * 8
