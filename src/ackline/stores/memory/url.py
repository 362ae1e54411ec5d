"""memory:// URLs."""

from __future__ import annotations

from ackline.core.clock import Clock
from ackline.core.errors import ConfigError
from ackline.stores.memory.store import MemoryStore


def from_url(url: str, clock: Clock | None = None) -> MemoryStore:
    """A new, empty store; nothing follows the two slashes."""
    if url != "memory://":
        raise ConfigError(f"{url!r}: a memory store has no name or options, write memory://")
    return MemoryStore(clock)
