from pathlib import Path

import pytest

from ackline.clock import Clock
from ackline.stores.base import Store
from ackline.stores.sqlite import SqliteStore
from ackline.testing.conformance import StoreConformance


class TestSqlite(StoreConformance):
    def make_store(self, clock: Clock, place: Path) -> Store:
        return SqliteStore(str(place / "jobs.db"), clock=clock)


@pytest.mark.slow
class TestSyncedLess(StoreConformance):
    def make_store(self, clock: Clock, place: Path) -> Store:
        return SqliteStore(str(place / "jobs.db"), durability="normal", clock=clock)
