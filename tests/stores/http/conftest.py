from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.harness.servers.service import ServiceThread

from ackline.core.job import Draft, QueueKey
from ackline.service.runtime import Runtime
from ackline.service.settings import Settings
from ackline.stores.http import HttpStore
from ackline.stores.http.address import read_address

QUEUE = QueueKey("default", "mail")
SOON = 10.0


def drafts(count: int, start: int = 0, size: int = 10) -> list[Draft]:
    return [Draft(f"id{n}", "mail", b"x" * size) for n in range(start, start + count)]


@pytest.fixture
def settings() -> Settings:
    return Settings(store="memory://", port=0, maintenance=False, drain=0.0, grace=1.0)


@pytest.fixture
def service(settings: Settings) -> Iterator[ServiceThread]:
    with ServiceThread(Runtime.from_settings(settings)) as service:
        yield service


@pytest.fixture
def open_store(service: ServiceThread) -> Iterator[Callable[..., HttpStore]]:
    opened: list[HttpStore] = []

    def open_one(options: str = "") -> HttpStore:
        store = HttpStore(read_address(service.url + options))
        store.open()
        opened.append(store)
        return store

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Callable[..., HttpStore]) -> HttpStore:
    return open_store()
