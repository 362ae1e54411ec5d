"""Transactions that commit late: their jobs come before those that were claimed meanwhile."""

import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import pytest
from tests.stores.postgres.conftest import OpenStore
from tests.stores.postgres.io.test_server_restarts import settle
from tests.stores.postgres.transactions.shop import Shop

from ackline import Job, Queue, Queues, Worker
from ackline.stores.postgres import scan_position
from ackline.stores.postgres.engine import Engine
from ackline.stores.postgres.io.pipeline import Connection
from ackline.stores.postgres.notify import Notifier
from ackline.stores.postgres.queue_cache import QueueCache as Remembered

Start = Callable[..., Worker]

CONTROL_TIMEOUT = 2.0
"""Seconds that the control waits for a job."""

SOON = 20.0
"""Far more than a notification takes on a busy machine; full scans are less frequent."""

MOST_TRIES = 3


@contextmanager
def traffic(work: Queue[Any, Any]) -> Iterator[None]:
    """Others keep enqueueing, so that a worker always finds jobs after its positions."""
    over = threading.Event()

    def enqueue() -> None:
        while not over.is_set():
            work.enqueue_many([None] * 20)
            over.wait(0.02)

    thread = threading.Thread(target=enqueue)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def found(
    shop: Shop, start: Start, open_store: OpenStore, within: float
) -> Generator[bool, None, None]:
    """Whether the jobs of transactions that were open for three seconds start once they commit.

    The first is left out: a process that has just connected makes a full scan.
    """
    elsewhere = Queues(open_store())["work"]
    started: queue.SimpleQueue[str] = queue.SimpleQueue()

    @elsewhere.handler
    def run(job: Job[Any]) -> None:
        if job.id.startswith("late"):
            started.put(job.id)

    start(elsewhere, concurrency=8, maintenance=False)
    with traffic(shop.queue):
        for n in range(1 + MOST_TRIES):
            with shop.connect() as tx:
                shop.queue.enqueue({}, id=f"late {n}", connection=tx)
                time.sleep(3.0)
                tx.commit()
                committed = time.monotonic()
            came = comes(f"late {n}", committed + within, started)
            if n > 0:
                yield came


def comes(id: str, until: float, started: queue.SimpleQueue[str]) -> bool:
    """Whether this job starts; an earlier one, no longer waited for, may start first."""
    while (left := until - time.monotonic()) > 0:
        with suppress(queue.Empty):
            if started.get(timeout=left) == id:
                return True
    return False


@pytest.mark.usefixtures("without_full_scans")
def test_a_job_committed_late_starts_at_once(
    shop: Shop, start: Start, open_store: OpenStore
) -> None:
    with closing(found(shop, start, open_store, SOON)) as late:
        assert next(late)


@pytest.mark.slow
@pytest.mark.usefixtures("without_full_scans")
def test_control_without_positions_late_jobs_are_not_found_at_once(
    shop: Shop, start: Start, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control. A full scan may find a job all the same, but not each time."""
    monkeypatch.setattr(Remembered, "step_back_to", lambda *_: None)

    with closing(found(shop, start, open_store, CONTROL_TIMEOUT)) as late:
        assert not all(late)


@pytest.mark.slow
def test_without_a_notification_the_next_full_scan_finds_it(
    shop: Shop, start: Start, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a pooler, or when the connection for notifications has just broken."""
    monkeypatch.setattr(Remembered, "step_back_to", lambda *_: None)

    with closing(found(shop, start, open_store, scan_position.FULL_SCAN_INTERVAL + SOON)) as late:
        assert next(late)


def test_notifications_of_a_commit_start_with_positions(
    shop: Shop, wakeups: Notifier, schema: str
) -> None:
    with shop.connect(autocommit=True) as listener:
        listener.execute(f"LISTEN {wakeups.channel}")
        with shop.connect() as tx:
            shop.queue.enqueue({}, priority=7, connection=tx)
            assert list(listener.notifies(timeout=0.2)) == []
        messages = [notify.payload for notify in listener.notifies(timeout=5, stop_after=3)]

    with shop.connect() as tx:
        [(line,)] = tx.execute(f'SELECT num FROM "{schema}".queue_kind')
    assert messages[0].startswith(f"position {line} 7 ")
    assert sorted(message[0] for message in messages[1:]) == ["0", "1"]


def test_a_rolled_back_transaction_notifies_nobody(shop: Shop, wakeups: Notifier) -> None:
    with shop.connect(autocommit=True) as listener:
        listener.execute(f"LISTEN {wakeups.channel}")
        with shop.connect() as tx:
            shop.queue.enqueue({}, connection=tx)
            tx.rollback()

        assert list(listener.notifies(timeout=0.5)) == []


def test_with_notify_no_commits_send_nothing_and_listeners_poll(
    shop: Shop, wakeups: Notifier, open_store: OpenStore
) -> None:
    quiet = Queues(open_store("&notify=no"), shop.queue.key.tenant)[shop.queue.name]
    with shop.connect(autocommit=True) as listener, quiet.store.listen([quiet.key], "ready") as own:
        listener.execute(f"LISTEN {wakeups.channel}")
        while own.wait(0.0):
            pass
        with shop.connect() as tx:
            quiet.enqueue({}, connection=tx)

        assert own.wait(1.0)
        assert list(listener.notifies(timeout=0.5)) == []
    assert len(quiet.claim()) == 1


def test_wake_ups_without_listeners_write_nothing(
    shop: Shop, engine: Engine, wakeups: Notifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Borrowed transactions notify every process, also those without registered listeners."""
    executed: list[Any] = []
    execute = Connection.execute

    def note(connection: Connection, statement: Any, *more: Any, **how: Any) -> Any:
        executed.append(statement)
        return execute(connection, statement, *more, **how)

    monkeypatch.setattr(Connection, "execute", note)
    with wakeups.listen([shop.queue.key], "ready") as listener:
        settle(listener)
        listener.unregister_all()
        executed.clear()
        with shop.connect() as tx:
            shop.queue.enqueue({}, connection=tx)
        time.sleep(0.3)

    assert engine.statements["remove_listeners"] not in executed
