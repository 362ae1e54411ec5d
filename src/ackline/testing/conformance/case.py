"""The base class of all rules: opens a store for each case."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ackline.core.clock import Clock, ManualClock
from ackline.core.job import QueueKey
from ackline.stores.contract import Store
from ackline.testing.conformance.driver import QueueDriver


class StoreCase:
    """Opens the store of a subclass, a new one for each case."""

    def make_store(self, clock: Clock, path: Path) -> Store:
        """Return your store, not yet open; it uses `clock` and keeps its data under `path`.

        The same path has the same data; another path is empty.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement make_store()")

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    def open_store(self, clock: ManualClock, tmp_path: Path) -> Iterator[Callable[[], Store]]:
        """Opens one more handle on the data of this case."""
        handles: list[Store] = []

        def open_one() -> Store:
            store = self.make_store(clock, tmp_path)
            store.open()
            handles.append(store)
            return store

        yield open_one
        for store in handles:
            store.close()

    @pytest.fixture
    def store(self, open_store: Callable[[], Store]) -> Store:
        return open_store()

    @pytest.fixture
    def driver(self, store: Store, clock: ManualClock) -> QueueDriver:
        return QueueDriver(store, clock, QueueKey("default", "work"))
