import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.harness.servers.postgres import PostgresServer
from tests.stores.postgres.transactions.shop import Shop

from ackline import Queue, Queues
from ackline.core.clock import Clock
from ackline.core.job import QueueKey
from ackline.stores.postgres import PostgresStore, scan_position
from ackline.stores.postgres.engine import Engine
from ackline.stores.postgres.io.address import read_address
from ackline.stores.postgres.io.connection_pool import ConnectionPool
from ackline.stores.postgres.io.pipeline import Connection, Pipeline, Reply
from ackline.stores.postgres.notify import Notifier

OpenStore = Callable[..., PostgresStore]

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server(postgres_server: PostgresServer) -> PostgresServer:
    return postgres_server


@pytest.fixture
def schema(request: pytest.FixtureRequest) -> str:
    """A unique name with the name of the test in it."""
    name = "".join(char if char.isalnum() else "_" for char in request.node.name)
    return f"t{next(_numbers)}_{name}"[:63]


@pytest.fixture
def open_store(server: PostgresServer, schema: str) -> Iterator[OpenStore]:
    """Opens another store on the schema of this test; `more` is added to the URL."""
    handles: list[PostgresStore] = []

    def open_one(more: str = "", clock: Clock | None = None) -> PostgresStore:
        store = PostgresStore(read_address(f"{server.socket_url}&schema={schema}{more}"), clock)
        store.open()
        handles.append(store)
        return store

    yield open_one
    for store in handles:
        store.close()


@pytest.fixture
def store(open_store: OpenStore) -> PostgresStore:
    return open_store()


@pytest.fixture
def engine(server: PostgresServer, schema: str, store: PostgresStore) -> Iterator[Engine]:
    """Another engine on the schema of the store, for the test's own transactions."""
    engine = Engine(read_address(f"{server.socket_url}&schema={schema}"), None)
    engine.open()
    yield engine
    engine.close()


@pytest.fixture
def wakeups(engine: Engine) -> Iterator[Notifier]:
    """The notifier of that engine."""
    wakeups = Notifier(engine)
    engine.notify = wakeups.notify
    yield wakeups
    wakeups.close()


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[Connection]:
    """The connections that are opened from now on."""
    made: list[Connection] = []
    connect = ConnectionPool.connect

    def recorded(connections: ConnectionPool) -> Connection:
        made.append(connect(connections))
        return made[-1]

    monkeypatch.setattr(ConnectionPool, "connect", recorded)
    return made


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that are sent, with an arrow where they are sent and awaited."""
    names: list[str] = []
    latest = asked_for = 0
    send, rows, leave = Pipeline.send, Pipeline.rows, Pipeline.__exit__

    def recorded(pipeline: Pipeline, name: str, *values: Any) -> Reply:
        nonlocal latest
        names.append(name)
        reply = send(pipeline, name, *values)
        latest = reply.number
        return reply

    def woken(pipeline: Pipeline, reply: Reply) -> Any:
        nonlocal asked_for
        if reply.rows is None and reply.number > asked_for:
            names.append("→")
            asked_for = latest
        return rows(pipeline, reply)

    def left(pipeline: Pipeline, *error: Any) -> None:
        nonlocal asked_for
        names.append("→")
        leave(pipeline, *error)
        asked_for = 0

    monkeypatch.setattr(Pipeline, "send", recorded)
    monkeypatch.setattr(Pipeline, "rows", woken)
    monkeypatch.setattr(Pipeline, "__exit__", left)
    return names


@pytest.fixture
def queue() -> QueueKey:
    return QueueKey("default", "work")


@pytest.fixture
def work(store: PostgresStore, queue: QueueKey) -> Queue[Any, Any]:
    return Queues(store, queue.tenant)[queue.name]


@pytest.fixture
def shop(server: PostgresServer, schema: str, work: Queue[Any, Any]) -> Shop:
    """An application in the same database, whose transactions the store takes part in."""
    return Shop(server, schema[:58], work)


@pytest.fixture
def without_full_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if dead rows had made them costly: only one full scan an hour."""
    monkeypatch.setattr(scan_position, "FULL_SCAN_INTERVAL", 3600.0)
    monkeypatch.setattr(scan_position, "FULL_SCAN_SHARE", 1e9)
    monkeypatch.setattr(scan_position, "IDLE_SCAN_SHARE", 1e9)
    monkeypatch.setattr(scan_position, "CHEAP_SCAN", -1.0)
