from __future__ import annotations

from collections.abc import Iterator

import pytest

import ackline
from ackline import Queues
from ackline.testing import ManualClock
from tests.store_choice import STORES, choose_stores


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    choose_stores(metafunc, *STORES)


@pytest.fixture
def queues(store_url: str, clock: ManualClock) -> Iterator[Queues]:
    with ackline.open(store_url, clock=clock) as opened:
        yield opened
