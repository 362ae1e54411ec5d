"""A queue on each store, and a worker that is stopped whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ackline
from ackline.queue import Queue
from ackline.worker import Worker


@pytest.fixture(params=["memory", "sqlite"])
def queues(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ackline.Queues]:
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db"}
    with ackline.open(urls[request.param]) as opened:
        yield opened


@pytest.fixture
def queue(queues: ackline.Queues) -> Queue[Any, Any]:
    return queues["work"]


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
