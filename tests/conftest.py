"""What tests of all folders share: a clock, servers that start once, workers that stop."""

from __future__ import annotations

import itertools
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ackline import Queue, Worker
from ackline.testing import ManualClock
from tests.harness.servers.postgres import PostgresServer
from tests.harness.servers.redis import RedisServer

_numbers = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-store",
        action="store_true",
        help="run tests that use one store on every store",
    )


def pytest_configure() -> None:
    """Keep bytecode, as tests start hundreds of Python processes that would compile all sources."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Skip slow classes and modules without collecting their thousands of cases."""
    if "not slow" not in collector.config.option.markexpr:
        return None
    marks = list(getattr(obj, "pytestmark", ())) if isinstance(obj, type) else []
    slow = any(mark.name == "slow" for mark in [*collector.iter_markers(), *marks])
    return [] if slow else None


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Remove log handlers of commands: their streams are closed when the test ends."""
    root = logging.getLogger()
    level = root.level
    yield
    root.setLevel(level)
    for handler in root.handlers[:]:
        if type(handler) is logging.StreamHandler:
            root.removeHandler(handler)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def empty_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """The URL of an empty store of this name."""

    def url_of(name: str) -> str:
        number = next(_numbers)
        if name == "memory":
            return "memory://"
        if name == "sqlite":
            return f"sqlite:///{tmp_path}/jobs-{number}.db?durability=normal"
        if name == "redis":
            return f"{request.getfixturevalue('redis_server').url}?prefix=test{number}"
        assert name == "postgres"
        server: PostgresServer = request.getfixturevalue("postgres_server")
        return f"{server.socket_url}&schema=test{number}"

    return url_of


@pytest.fixture
def store_url(store_name: str, empty_store: Callable[[str], str]) -> str:
    """The URL of an empty store for the test."""
    return empty_store(store_name)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    # Durability is not tested here, and would take most of the time. Without autovacuum, because
    # readers of the journal wait for every open transaction of the server.
    with PostgresServer(synchronous_commit="off", autovacuum="off") as server:
        yield server


@pytest.fixture
def start() -> Iterator[Callable[..., Worker]]:
    """Starts workers, and stops them after the test."""
    started: list[Worker] = []

    def start(*queues: Queue[Any, Any], **options: Any) -> Worker:
        worker = Worker(*queues, **{"grace": 1.0, **options})
        worker.start()
        started.append(worker)
        return worker

    yield start
    for worker in started:
        worker.stop()
