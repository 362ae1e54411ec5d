"""Notifications reach all listeners, whatever else the connection does."""

import logging
import threading
import time

import pytest
from tests.harness.servers.postgres import PostgresServer
from tests.stores.postgres.actions import put, take
from tests.stores.postgres.io.test_server_restarts import settle

from ackline.core.job import QueueKey
from ackline.stores.contract import Topic
from ackline.stores.postgres import PostgresStore
from ackline.stores.postgres.io.address import read_address
from ackline.stores.postgres.notify import (
    WAIT_AGAIN_WITHIN,
    Notifier,
    PostgresListener,
    subject_key,
)

SOON = 3.0
QUIET = 0.3


def message(queue: QueueKey, topic: Topic) -> str:
    tag, number = subject_key(queue, topic)
    return f"{number} {tag.hex()}"


def notify(server: PostgresServer, wakeups: Notifier, *messages: str) -> None:
    """Send all of them with one commit, in this order."""
    with server.connect(autocommit=False) as connection:
        for text in messages:
            connection.execute("SELECT pg_notify(%s, %s)", [wakeups.channel, text])


def registered_but_away(wakeups: Notifier, queue: QueueKey, topic: Topic) -> PostgresListener:
    listener = wakeups.listen([queue], topic)
    settle(listener)
    time.sleep(2 * WAIT_AGAIN_WITHIN)
    assert listener.registered
    return listener


def test_notifications_during_an_unregistration_are_not_lost(
    wakeups: Notifier, server: PostgresServer, queue: QueueKey
) -> None:
    waiting = wakeups.listen([queue], "finished")
    settle(waiting)
    away = registered_but_away(wakeups, queue, "changes")
    woken: list[bool] = []
    thread = threading.Thread(target=lambda: woken.append(waiting.wait(SOON)))
    thread.start()
    time.sleep(0.1)

    # The first makes the connection write; the second arrives together with it.
    notify(server, wakeups, message(queue, "changes"), message(queue, "finished"))

    thread.join()
    assert woken == [True]
    assert not away.registered


def test_a_listener_that_waits_while_it_is_unregistered_is_registered_again(
    store: PostgresStore,
    wakeups: Notifier,
    server: PostgresServer,
    queue: QueueKey,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listener = registered_but_away(wakeups, queue, "changes")
    unregister_all, came_back = listener.unregister_all, threading.Event()

    def and_register_again() -> None:
        unregister_all()
        listener.register()
        came_back.set()

    monkeypatch.setattr(listener, "unregister_all", and_register_again)
    notify(server, wakeups, message(queue, "changes"))
    assert came_back.wait(SOON)
    monkeypatch.undo()
    settle(listener)

    put(store, queue, "a")

    assert listener.wait(SOON)


def test_unknown_notifications_are_skipped(
    wakeups: Notifier, server: PostgresServer, queue: QueueKey, caplog: pytest.LogCaptureFixture
) -> None:
    with wakeups.listen([queue], "ready") as listener, caplog.at_level(logging.WARNING, "ackline"):
        settle(listener)
        notify(server, wakeups, "", "hello", "1", "position 1 2", "0 zz", message(queue, "ready"))

        assert listener.wait(SOON)
        assert wakeups.connected
    assert "unknown notification: 'hello'" in caplog.text


# --- a wake-up that fails ---


@pytest.fixture
def unprivileged(server: PostgresServer, store: PostgresStore, schema: str) -> PostgresStore:
    """A store of a user who may do everything but read the table of listeners."""
    del store  # creates the schema
    with server.connect() as connection:
        connection.execute("DROP ROLE IF EXISTS unprivileged")
        connection.execute("CREATE ROLE unprivileged LOGIN")
        connection.execute(f'GRANT USAGE ON SCHEMA "{schema}" TO unprivileged')
        every = f'IN SCHEMA "{schema}" TO unprivileged'
        connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES {every}")
        connection.execute(f"GRANT USAGE ON ALL SEQUENCES {every}")
        connection.execute(f'REVOKE ALL ON "{schema}".listener FROM unprivileged')
    url = server.url.replace("postgres@", "unprivileged@")
    return PostgresStore(read_address(f"{url}?schema={schema}&migrate=no"))


def test_a_failed_notification_does_not_fail_the_write(
    unprivileged: PostgresStore,
    server: PostgresServer,
    schema: str,
    queue: QueueKey,
    caplog: pytest.LogCaptureFixture,
) -> None:
    unprivileged.open()
    with caplog.at_level(logging.WARNING, "ackline"):
        put(unprivileged, queue, "a")
        put(unprivileged, queue, "b", assume_new=True)
        assert len(take(unprivileged, queue)) == 2
    unprivileged.close()

    [said] = [record.getMessage() for record in caplog.records]
    assert "could not be notified" in said
    assert "permission denied for table listener" in said
    with server.connect() as connection:
        connection.execute("DROP OWNED BY unprivileged")
        connection.execute("DROP ROLE unprivileged")


def test_control_what_comes_before_the_commit_must_succeed(
    unprivileged: PostgresStore, server: PostgresServer, schema: str, queue: QueueKey
) -> None:
    with server.connect() as connection:
        connection.execute(f'REVOKE INSERT ON "{schema}".count_change FROM unprivileged')
    unprivileged.open()
    with pytest.raises(Exception, match="count_change"):
        put(unprivileged, queue, "a")
    unprivileged.close()
    with server.connect() as connection:
        assert connection.execute(f'SELECT count(*) FROM "{schema}".job').fetchone() == (0,)
        connection.execute("DROP OWNED BY unprivileged")
        connection.execute("DROP ROLE unprivileged")
