"""A queue, and a worker that is stopped whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import ackline
from ackline.queue import Queue
from tests.store_choice import STORES, choose_stores


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    choose_stores(metafunc, *STORES)


@pytest.fixture
def queues(store_url: str) -> Iterator[ackline.Queues]:
    with ackline.open(store_url) as opened:
        yield opened


@pytest.fixture
def queue(queues: ackline.Queues) -> Queue[Any, Any]:
    return queues["work"]
