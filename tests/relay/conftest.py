"""Pairs of stores: where jobs are enqueued, and where they run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import ackline
from ackline import Queues
from ackline.testing import ManualClock
from ackline.testing.servers.postgres import PostgresServer
from ackline.testing.servers.redis import RedisServer

_numbers = itertools.count(1)

OpenStore = Callable[[], Queues]


class Pair:
    """Two stores; each can be opened again, as another process would."""

    def __init__(self, source: OpenStore, target: OpenStore) -> None:
        self.open_source = source
        self.open_target = target
        self.source = source()
        self.target = target()


def url_of(store: str, request: pytest.FixtureRequest, place: Path) -> str:
    """An empty store of this sort."""
    number = next(_numbers)
    if store == "sqlite":
        return f"sqlite:///{place}/jobs-{number}.db?durability=normal"
    if store == "redis":
        server: RedisServer = request.getfixturevalue("redis_server")
        return f"{server.url}?prefix=relay{number}"
    database: PostgresServer = request.getfixturevalue("postgres_server")
    return f"{database.socket_url}&schema=relay{number}"


@pytest.fixture(params=["memory to memory", "sqlite to redis", "postgres to redis"])
def pair(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as stack:

        def opener(store: str) -> OpenStore:
            if store == "memory":
                only = ackline.open("memory://", clock=clock)
                return lambda: only
            url = url_of(store, request, tmp_path)
            return lambda: stack.enter_context(ackline.open(url, clock=clock))

        source, target = request.param.split(" to ")
        yield Pair(opener(source), opener(target))
