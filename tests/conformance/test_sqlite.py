from pathlib import Path

import pytest

from ackline.core.clock import Clock
from ackline.stores.contract import Store
from ackline.stores.sqlite import SqliteStore
from ackline.testing.conformance import StoreConformance


class TestSqlite(StoreConformance):
    def make_store(self, clock: Clock, path: Path) -> Store:
        return SqliteStore(str(path / "jobs.db"), clock=clock)


@pytest.mark.slow
class TestSyncedLess(StoreConformance):
    def make_store(self, clock: Clock, path: Path) -> Store:
        return SqliteStore(str(path / "jobs.db"), durability="normal", clock=clock)
