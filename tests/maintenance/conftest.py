from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

import ackline
from ackline import Queues
from ackline.testing import ManualClock

_numbers = itertools.count(1)


def url_of(store: str, request: pytest.FixtureRequest, place: Path) -> str:
    """An empty store of this sort."""
    number = next(_numbers)
    if store == "memory":
        return "memory://"
    if store == "sqlite":
        return f"sqlite:///{place}/jobs.db?durability=normal"
    if store == "redis":
        return f"{request.getfixturevalue('redis_server').url}?prefix=maintenance{number}"
    return f"{request.getfixturevalue('postgres_server').socket_url}&schema=maintenance{number}"


@pytest.fixture(params=["memory", "sqlite", "redis", "postgresql"])
def queues(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> Iterator[Queues]:
    with ackline.open(url_of(request.param, request, tmp_path), clock=clock) as opened:
        yield opened
