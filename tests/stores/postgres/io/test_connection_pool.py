"""The connections of a store: good when they are handed out, and to each in its turn."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.harness.servers.postgres import PostgresServer
from tests.stores.postgres.actions import ids, put, take
from tests.stores.postgres.conftest import OpenStore
from tests.waiting import until

from ackline.core.errors import StoreError
from ackline.core.job import QueueKey
from ackline.stores.postgres import PostgresStore
from ackline.stores.postgres.io import connection_pool
from ackline.stores.postgres.io.address import read_address
from ackline.stores.postgres.io.connection_pool import (
    KEEPALIVE_SETTINGS,
    ConnectionPool,
    ConnectionSlots,
)
from ackline.stores.postgres.io.pipeline import Connection

TCP_USER_TIMEOUT = 18


# --- idle connections ---


def test_a_session_that_ended_while_idle_is_not_lent(
    open_store: OpenStore, queue: QueueKey
) -> None:
    store = open_store("&options=-c%20idle_session_timeout%3D200ms")
    put(store, queue, "a")
    time.sleep(0.5)

    assert ids(take(store, queue)) == ["a"]


def test_control_a_session_that_has_not_ended_is_used_again(
    store: PostgresStore, queue: QueueKey, connected: list[Connection]
) -> None:
    put(store, queue, "a")

    take(store, queue)

    assert len(connected) == 1


def test_a_busy_connection_is_replaced_in_the_end(
    store: PostgresStore,
    queue: QueueKey,
    connected: list[Connection],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_pool, "MAX_CONNECTION_AGE", 0.3)

    def a_second_one() -> bool:
        store.describe("default")
        return len(connected) == 2

    until(a_second_one)
    assert connected[0].closed


# --- turns ---


class Patience:
    """A time to wait that tells when the wait begins, as a lock reads it only then."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds
        self.waits = threading.Event()

    def __index__(self) -> int:
        self.waits.set()
        return self.seconds


class SlotRequests:
    """Threads that asked for a slot, in the order in which they got one."""

    def __init__(self, slots: ConnectionSlots, threads: ThreadPoolExecutor) -> None:
        self.slots = slots
        self.got: list[str] = []
        self._threads = threads

    def add(self, name: str, *, may_block: bool = False) -> None:
        """Ask for a slot in another thread, and return once it waits."""
        patience: Any = Patience(10)

        def acquire() -> None:
            assert self.slots.acquire(patience, may_block=may_block)
            self.got.append(name)

        self._threads.submit(acquire)
        assert patience.waits.wait(10)

    def granted(self, count: int) -> list[str]:
        """The names of those that got a slot, once `count` of them have."""
        until(lambda: len(self.got) >= count)
        return self.got


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as threads:
        yield threads


def test_the_thread_that_has_waited_longest_is_next(threads: ThreadPoolExecutor) -> None:
    requests = SlotRequests(ConnectionSlots(1, 1), threads)
    assert requests.slots.acquire(0)
    for name in "abc":
        requests.add(name)

    for number in range(1, 4):
        requests.slots.release()
        # A later request does not overtake.
        assert not requests.slots.acquire(0)
        assert requests.granted(number) == list("abc")[:number]


def test_threads_that_may_block_never_get_all_slots(threads: ThreadPoolExecutor) -> None:
    requests = SlotRequests(ConnectionSlots(3, 2), threads)
    assert requests.slots.acquire(0, may_block=True)
    assert requests.slots.acquire(0, may_block=True)
    requests.add("blocking", may_block=True)

    assert requests.slots.acquire(0)
    requests.slots.release()
    assert requests.got == []

    requests.slots.release(may_block=True)
    assert requests.granted(1) == ["blocking"]


def test_a_thread_that_gives_up_is_no_longer_waiting(threads: ThreadPoolExecutor) -> None:
    requests = SlotRequests(ConnectionSlots(1, 1), threads)
    assert requests.slots.acquire(0)
    assert not requests.slots.acquire(0.01)
    requests.add("a")

    requests.slots.release()

    assert requests.granted(1) == ["a"]


def test_a_failed_connection_releases_its_slot(
    open_store: OpenStore, queue: QueueKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store("&connections=1&timeout=1")

    def refuse(_: object) -> Connection:
        raise OSError("no route")

    with monkeypatch.context() as patched:
        patched.setattr(ConnectionPool, "connect", refuse)
        for _ in range(3):
            with pytest.raises(StoreError, match="no route"):
                take(store, queue)

    assert take(store, queue) == []


# --- servers that go without a word ---


def options_of(url: str) -> dict[str, int]:
    connection = ConnectionPool(read_address(url), lambda _: True).connect()
    with connection, socket.socket(fileno=socket.dup(connection.fileno())) as wire:
        tcp = {
            "keepalives_idle": socket.TCP_KEEPIDLE,
            "keepalives_interval": socket.TCP_KEEPINTVL,
            "keepalives_count": socket.TCP_KEEPCNT,
            "tcp_user_timeout": TCP_USER_TIMEOUT,
        }
        return {name: wire.getsockopt(socket.IPPROTO_TCP, it) for name, it in tcp.items()}


def test_a_dead_peer_is_noticed(server: PostgresServer) -> None:
    assert options_of(server.url) == KEEPALIVE_SETTINGS


def test_keepalives_are_configurable(server: PostgresServer) -> None:
    found = options_of(f"{server.url}?keepalives_idle=77&tcp_user_timeout=9000")

    assert found == KEEPALIVE_SETTINGS | {"keepalives_idle": 77, "tcp_user_timeout": 9000}


# --- what a user has set by default ---


@pytest.mark.parametrize("pooler", ["none", "transaction"])
@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_another_isolation_by_default_changes_nothing(
    server: PostgresServer, queue: QueueKey, level: str, pooler: str
) -> None:
    role = f"{level[:6]}_{pooler}"
    with server.connect() as connection:
        connection.execute(f"CREATE ROLE {role} SUPERUSER LOGIN")
        connection.execute(f"ALTER ROLE {role} SET default_transaction_isolation = '{level}'")
    url = f"{server.url.replace('postgres@', role + '@')}?schema={role}&pooler={pooler}"
    stores = [PostgresStore(read_address(url)) for _ in range(5)]
    ready = threading.Barrier(len(stores))

    def run(number: int) -> None:
        store = stores[number]
        ready.wait(10)
        store.open()
        for turn in range(3):
            put(store, queue, f"{number} {turn}")
            # A new session raises the epoch, as do those of the others at the same moment.
            store.close()
            store.open()

    with ThreadPoolExecutor(len(stores)) as threads:
        for done in [threads.submit(run, number) for number in range(len(stores))]:
            done.result()

    assert len(take(stores[0], queue)) == 15
    for store in stores:
        store.close()
