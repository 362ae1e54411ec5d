"""Pairs of stores: where jobs are enqueued, and where they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

import ackline
from ackline import Queues
from ackline.testing import ManualClock
from tests.store_choice import choose_stores

OpenStore = Callable[[], Queues]


class Pair:
    """Two stores; each can be opened again, as another process would."""

    def __init__(self, source: OpenStore, target: OpenStore) -> None:
        self.open_source = source
        self.open_target = target
        self.source = source()
        self.target = target()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    choose_stores(metafunc, "memory to memory", "sqlite to redis", "postgres to redis")


@pytest.fixture
def pair(store_name: str, empty_store: Callable[[str], str], clock: ManualClock) -> Iterator[Pair]:
    with ExitStack() as stack:

        def opener(store: str) -> OpenStore:
            if store == "memory":
                only = ackline.open("memory://", clock=clock)
                return lambda: only
            url = empty_store(store)
            return lambda: stack.enter_context(ackline.open(url, clock=clock))

        source, target = store_name.split(" to ")
        yield Pair(opener(source), opener(target))
