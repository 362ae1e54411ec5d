"""From a URL to the store."""

from __future__ import annotations

from ackline.core.clock import Clock
from ackline.stores.redis.io.address import read_address
from ackline.stores.redis.store import RedisStore


def from_url(url: str, clock: Clock | None = None) -> RedisStore:
    """A store of a URL: `redis://`, `rediss://`, `redis+unix://`, `redis+sentinel://`, `redis+cluster://`."""
    return RedisStore(read_address(url), clock)
