"""Every rule again over HTTP: a client, a real socket, the service, and a store behind it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

import msgspec
import pytest
from litestar.connection import ASGIConnection
from tests.harness.servers.postgres import PostgresServer
from tests.harness.servers.redis import RedisServer
from tests.harness.servers.service import ServiceThread

from ackline.core.clock import Clock
from ackline.core.events import Event, read_cursor
from ackline.core.job import QueueKey
from ackline.service.auth.permissions import Scope
from ackline.service.auth.principal import Principal
from ackline.service.runtime import Runtime
from ackline.service.settings import Settings
from ackline.service.wakeups.registry import Wakeups
from ackline.stores.contract import Listener, QueueInfo, Store, Topic
from ackline.stores.http import HttpStore
from ackline.stores.http.address import Address, read_address
from ackline.stores.http.client import StoreClient
from ackline.stores.http.connection import ConnectionPool
from ackline.stores.memory import MemoryStore
from ackline.stores.postgres.store import from_url as postgres_store
from ackline.stores.redis.store import from_url as redis_store
from ackline.stores.sqlite import SqliteStore
from ackline.stores.wire import TENANT_HEADER
from ackline.testing.conformance import QueueDriver, StoreConformance


class Believing:
    """Takes a caller for whom it says it is; in these cases one client speaks for many tenants."""

    def is_known(self, connection: ASGIConnection[Any, Any, Any, Any]) -> bool:
        return True

    async def authenticate(self, connection: ASGIConnection[Any, Any, Any, Any]) -> Principal:
        tenant = unquote(connection.headers.get(TENANT_HEADER, "default"))
        return Principal(tenant, frozenset(Scope))


class RecordingClient(StoreClient):
    """Records the tenants of its calls."""

    def __init__(self, connections: ConnectionPool) -> None:
        super().__init__(connections)
        self.tenants = {"default"}

    def _send(self, verb: Any, body: bytes, arguments: Any) -> Any:
        queue = arguments.get("queue")
        self.tenants |= {queue.tenant} if queue is not None else set()
        return super()._send(verb, body, arguments)


class ForAllTenants(HttpStore):
    """A store with the tokens of all tenants, which calls once for each where all are meant."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._client: RecordingClient = RecordingClient(self._connections)

    def describe(
        self, tenant: str | None, name: str | None = None, *, include_dropped: bool = False
    ) -> list[QueueInfo]:
        tenants = sorted(self._client.tenants) if tenant is None else [tenant]
        describe = super().describe
        return [
            info for one in tenants for info in describe(one, name, include_dropped=include_dropped)
        ]

    def events(
        self,
        queue: QueueKey | None,
        after: str | None,
        limit: int,
        *,
        tenant: str | None = None,
    ) -> Sequence[Event]:
        if queue is not None or tenant is not None or len(self._client.tenants) == 1:
            return super().events(queue, after, limit, tenant=tenant)
        arguments = {"queue": None, "after": after, "limit": self._client.clamp_limit(limit)}
        found = [event for one in self._client.tenants for event in self._events_of(one, arguments)]
        return sorted(found, key=lambda event: read_cursor(event.cursor))[:limit]

    def _events_of(self, tenant: str, arguments: dict[str, Any]) -> Sequence[Event]:
        return self._client.call(Store.events, tenant=tenant, **arguments)

    def listen(
        self, queues: Sequence[QueueKey], topic: Topic, kinds: frozenset[str] | None = None
    ) -> Listener:
        tenants = {queue.tenant for queue in queues}
        if len(tenants) == 1:
            return super().listen(queues, topic, kinds)
        return Several([super(ForAllTenants, self).listen([q], topic, kinds) for q in queues])


class Several:
    """Listens to each in turn."""

    def __init__(self, listeners: list[Listener]) -> None:
        self._listeners = listeners

    def wait(self, timeout: float) -> bool:
        until = time.monotonic() + timeout
        while not any(listener.wait(0.005) for listener in self._listeners):
            if time.monotonic() >= until:
                return False
        return True

    def wake(self) -> None:
        self._listeners[0].wake()

    def close(self) -> None:
        for listener in self._listeners:
            listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


@pytest.fixture(scope="module")
def service() -> Iterator[ServiceThread]:
    """One for all cases; each of them puts its own store behind it."""
    settings = Settings(store="memory://", port=0, maintenance=False, drain=0.0, grace=1.0)
    runtime = Runtime(settings, MemoryStore(), Believing())
    with ServiceThread(runtime) as service:
        yield service


class OverHttp(StoreConformance):
    """What differs is the store behind the service."""

    def make_kept(self, clock: Clock, path: Path) -> Store:
        raise NotImplementedError

    @pytest.fixture
    def server(self) -> str:
        """The URL of the server that the store behind the service needs, if it needs one."""
        return ""

    @pytest.fixture(autouse=True)
    def _behind(
        self, service: ServiceThread, server: str, clock: Clock, tmp_path: Path
    ) -> Iterator[None]:
        self.service, self.server = service, server
        self.kept = self.make_kept(clock, tmp_path)
        self.kept.open()
        service.runtime.store = self.kept
        service.runtime.wakeups = Wakeups(self.kept, service.runtime.threads)
        yield
        service.runtime.wakeups.close()
        self.kept.close()

    def make_store(self, clock: Clock, path: Path) -> Store:
        return ForAllTenants(read_address(self.service.url))

    def test_without_a_setting_the_store_says_how_many(
        self, driver: QueueDriver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The store behind the service says it, not the client."""
        few = msgspec.structs.replace(self.kept.capabilities, max_journal=2)
        monkeypatch.setattr(self.kept, "capabilities", few)
        super().test_without_a_setting_the_store_says_how_many(driver, monkeypatch)


class TestOnMemory(OverHttp):
    def make_kept(self, clock: Clock, path: Path) -> Store:
        return MemoryStore(clock)


@pytest.mark.slow
class TestOnSqlite(OverHttp):
    def make_kept(self, clock: Clock, path: Path) -> Store:
        return SqliteStore(str(path / "jobs.db"), "normal", clock)


@pytest.mark.slow
class TestOnRedis(OverHttp):
    @pytest.fixture
    def server(self, redis_server: RedisServer) -> str:
        return redis_server.url

    def make_kept(self, clock: Clock, path: Path) -> Store:
        return redis_store(f"{self.server}?prefix={path.name}", clock)


@pytest.mark.slow
class TestOnPostgres(OverHttp):
    @pytest.fixture
    def server(self, postgres_server: PostgresServer) -> str:
        return postgres_server.socket_url

    def make_kept(self, clock: Clock, path: Path) -> Store:
        return postgres_store(f"{self.server}&schema={path.name}", clock)
