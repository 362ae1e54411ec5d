from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import ackline
from ackline import Queues
from ackline.testing import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite"])
def queues(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> Iterator[Queues]:
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db?durability=normal"}
    with ackline.open(urls[request.param], clock=clock) as opened:
        yield opened
