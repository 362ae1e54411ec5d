"""A queue on each store, and a worker that is stopped whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ackline
from ackline.queue import Queue


@pytest.fixture(params=["memory", "sqlite"])
def queues(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ackline.Queues]:
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db"}
    with ackline.open(urls[request.param]) as opened:
        yield opened


@pytest.fixture
def queue(queues: ackline.Queues) -> Queue[Any, Any]:
    return queues["work"]
