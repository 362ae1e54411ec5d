"""A subscription whose connection or server fails misses nothing."""

from __future__ import annotations

import time

import pytest
from tests.harness.servers.postgres import PostgresServer
from tests.stores.postgres.actions import put

from ackline.core.job import QueueKey
from ackline.stores.contract import Subject, Subscription
from ackline.stores.postgres import PostgresStore
from ackline.stores.postgres.io.address import read_address
from ackline.stores.postgres.notify import PostgresSubscription

SOON = 10.0
MANY = [QueueKey("default", f"queue {n}") for n in range(2500)]


def is_notified_of(subscription: Subscription, *subjects: Subject) -> bool:
    missing, until = set(subjects), time.monotonic() + SOON
    while missing and time.monotonic() < until:
        notified = subscription.wait(until - time.monotonic())
        missing = set() if notified is None else missing.difference(notified)
    return not missing


def until_lost(subscription: Subscription) -> bool:
    """Wait until it reports that it may have missed something."""
    until = time.monotonic() + SOON
    while time.monotonic() < until:
        if subscription.wait(0.1) is None:
            return True
    return False


def connections(server: PostgresServer) -> int:
    with server.connect() as connection:
        row = connection.execute("SELECT count(*) FROM pg_stat_activity").fetchone()
    assert row is not None
    return int(row[0])


def waiting(server: PostgresServer, schema: str) -> int:
    with server.connect() as connection:
        row = connection.execute(f'SELECT count(*) FROM "{schema}".listener').fetchone()
    assert row is not None
    return int(row[0])


def test_a_cut_connection_is_opened_again(store: PostgresStore, server: PostgresServer) -> None:
    with store.subscribe() as subscription:
        subscription.add((queue, "ready") for queue in MANY)
        assert is_notified_of(subscription, *((queue, "ready") for queue in MANY))
        while subscription.wait(0.3) is None:
            pass
        with server.connect() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND query LIKE '%%listener%%'"
            )

        assert until_lost(subscription)
        put(store, MANY[-1], "a")
        assert is_notified_of(subscription, (MANY[-1], "ready"))


def test_subjects_added_while_the_server_is_down_wake_when_it_is_back(schema: str) -> None:
    with PostgresServer() as server:
        store = PostgresStore(read_address(f"{server.socket_url}&schema={schema}"))
        store.open()
        with store.subscribe() as subscription:
            subscription.add([(MANY[0], "changes")])
            assert is_notified_of(subscription, (MANY[0], "changes"))
            server.stop_immediately()
            subscription.add([(MANY[1], "changes")])
            subscription.wait(0.2)
            server.restart()

            assert is_notified_of(subscription, (MANY[1], "changes"))
            put(store, MANY[0], "a")
            assert is_notified_of(subscription, (MANY[0], "changes"))
        store.close()


def test_it_does_not_spin_while_the_server_is_down(schema: str) -> None:
    with PostgresServer() as server:
        store = PostgresStore(read_address(f"{server.socket_url}&schema={schema}"))
        store.open()
        with store.subscribe() as subscription:
            subscription.add([(MANY[0], "changes")])
            assert is_notified_of(subscription, (MANY[0], "changes"))
            server.stop_immediately()
            subscription.add([(MANY[1], "changes")])
            until, waits = time.monotonic() + 1.0, 0
            while time.monotonic() < until:
                subscription.wait(until - time.monotonic())
                waits += 1

            assert waits < 20
        store.close()


def test_a_notification_does_not_cost_more_the_more_subjects_there_are(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.subscribe() as subscription:
        subscription.add((queue, "ready") for queue in MANY)
        assert is_notified_of(subscription, *((queue, "ready") for queue in MANY))
        while subscription.wait(0.3) is None:
            pass
        reads: list[object] = []

        def registered(subscription_read: PostgresSubscription) -> tuple[()]:
            reads.append(subscription_read)
            return ()

        monkeypatch.setattr(PostgresSubscription, "registered", property(registered))
        put(store, MANY[-1], "a")
        assert is_notified_of(subscription, (MANY[-1], "ready"))

    assert not reads


def test_any_number_of_subjects_takes_one_connection(
    store: PostgresStore, server: PostgresServer, schema: str
) -> None:
    before = connections(server)
    with store.subscribe() as subscription:
        subscription.add((queue, "ready") for queue in MANY)
        assert is_notified_of(subscription, *((queue, "ready") for queue in MANY))
        assert connections(server) - before <= 2, "one for notifications, and one for statements"
        assert waiting(server, schema) == len(MANY)
        subscription.remove((queue, "ready") for queue in MANY)
        subscription.wait(0.01)

        assert waiting(server, schema) == 0


def test_without_notifications_everything_may_have_changed(
    open_store: object, server: PostgresServer, schema: str
) -> None:
    address = read_address(f"{server.socket_url}&schema={schema}&notify=no")
    assert not address.uses_listen
    store = PostgresStore(address)
    store.open()
    with store.subscribe() as subscription:
        subscription.add([(MANY[0], "ready")])
        assert is_notified_of(subscription, (MANY[0], "ready"))

        assert until_lost(subscription)
    store.close()
