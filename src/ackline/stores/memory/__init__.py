"""Jobs in this process's memory: for tests, and the reference for every other store."""

from ackline.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
