from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
import redis
from tests.harness.servers.redis import RedisServer

from ackline.core.clock import Clock, ManualClock
from ackline.core.config import DEFAULTS
from ackline.core.job import Draft, Failure, QueueKey, Record
from ackline.core.lifecycle import Transition, complete, expire
from ackline.stores.contract import ClaimRequest, Heartbeat
from ackline.stores.redis import RedisStore
from ackline.stores.redis.io.address import read_address
from ackline.stores.redis.io.client import Subscriber
from ackline.stores.redis.lua import script

QUEUE = QueueKey("default", "mail")
REQUEST = ClaimRequest(worker="w", limit=100, lease=30.0)
BEAT = Heartbeat(id="w", host="h", pid=1, started_at=0.0, concurrency=1, kinds=None, ttl=15.0)
BOOM = Failure(act="fail", attempt=1, type="ValueError", message="boom")

SOON = 10.0
"""Far longer than a wake-up takes; only a missed one takes so long."""

OpenStore = Callable[..., RedisStore]

_prefixes = map("t{}".format, itertools.count())


def drafts(count: int, start: int = 0, size: int = 10) -> list[Draft]:
    return [Draft(f"id{n}", "mail", b"x" * size) for n in range(start, start + count)]


def wants(
    limit: int, worker: str = "w", kinds: frozenset[str] | None = None, lease: float = 30.0
) -> ClaimRequest:
    return ClaimRequest(worker=worker, limit=limit, lease=lease, kinds=kinds)


def done(job: Record, result: bytes | None = b"1") -> Transition:
    return complete(job, result, DEFAULTS)


def lapse(job: Record) -> Transition:
    return expire(job, DEFAULTS)


@pytest.fixture(scope="session")
def server(redis_server: RedisServer) -> RedisServer:
    return redis_server


@pytest.fixture
def client(server: RedisServer) -> Iterator[redis.Redis]:
    """A plain client, for what other programs may do."""
    with server.client() as client:
        yield client


@pytest.fixture
def prefix() -> str:
    """A name that no other test uses."""
    return next(_prefixes)


@pytest.fixture
def url(server: RedisServer, prefix: str) -> str:
    return f"{server.url}?prefix={prefix}"


@pytest.fixture
def open_store(url: str) -> Iterator[OpenStore]:
    """Opens another store, by default at the test's own prefix."""
    stores: list[RedisStore] = []

    def open_one(at: str = url, clock: Clock | None = None) -> RedisStore:
        store = RedisStore(read_address(at), clock)
        stores.append(store)
        store.open()
        return store

    yield open_one
    for store in stores:
        store.close()


@pytest.fixture
def store(open_store: OpenStore) -> RedisStore:
    """A store that uses the server's clock."""
    return open_store()


@pytest.fixture
def timed(open_store: OpenStore, clock: ManualClock) -> RedisStore:
    """A store that uses the test's clock."""
    return open_store(clock=clock)


def lose_deliveries(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """From now on, lose every message with a delivered job."""
    lost: list[bytes] = []
    read = Subscriber.read

    def lossy(subscriber: Subscriber) -> list[tuple[bytes, bytes]]:
        messages = read(subscriber)
        lost.extend(message for _, message in messages if message)
        return [(channel, message) for channel, message in messages if not message]

    monkeypatch.setattr(Subscriber, "read", lossy)
    return lost


def load_scripts(client: redis.Redis, *names: str) -> None:
    """Load these scripts, so that each call is one command."""
    for name in names:
        client.script_load(script(name).text)
