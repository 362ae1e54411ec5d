from pathlib import Path

from ackline.core.clock import Clock
from ackline.stores.contract import Store
from ackline.stores.memory import MemoryStore
from ackline.testing.conformance import StoreConformance


class TestMemory(StoreConformance):
    def make_store(self, clock: Clock, path: Path) -> Store:
        return MemoryStore(clock)
