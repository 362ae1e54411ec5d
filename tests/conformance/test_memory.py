from pathlib import Path

from ackline.clock import Clock
from ackline.stores.base import Store
from ackline.stores.memory import MemoryStore
from ackline.testing.conformance import StoreConformance


class TestMemory(StoreConformance):
    def make_store(self, clock: Clock, place: Path) -> Store:
        return MemoryStore(clock)
