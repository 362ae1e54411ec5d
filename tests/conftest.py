"""What tests of all folders share: a clock, servers that start once, workers that stop."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ackline import Queue, Worker
from ackline.testing import ManualClock
from ackline.testing.servers.postgres import PostgresServer
from ackline.testing.servers.redis import RedisServer


def pytest_configure() -> None:
    """Tests start hundreds of Pythons: each would compile all sources anew where none are kept."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Classes and modules that are slow as a whole: thousands of cases to make and to deselect."""
    if collector.config.option.markexpr != "not slow":
        return None
    marks = list(getattr(obj, "pytestmark", ())) if isinstance(obj, type) else []
    slow = any(mark.name == "slow" for mark in [*collector.iter_markers(), *marks])
    return [] if slow else None


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    # What survives a crash is not what differs here, and costs most of the time. Readers of the
    # journal wait for whoever writes anywhere on the server, and so for its own maintenance.
    with PostgresServer(synchronous_commit="off", autovacuum="off") as server:
        yield server


@pytest.fixture
def start() -> Iterator[Callable[..., Worker]]:
    """Start a worker; the test need not stop it."""
    started: list[Worker] = []

    def start(*queues: Queue[Any, Any], **options: Any) -> Worker:
        worker = Worker(*queues, **{"grace": 1.0, **options})
        worker.start()
        started.append(worker)
        return worker

    yield start
    for worker in started:
        worker.stop()
