"""Jobs in the memory of this process: for tests, and the reference for all other stores."""

from ackline.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
