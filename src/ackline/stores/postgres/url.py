"""From a URL to the store."""

from __future__ import annotations

from ackline.clock import Clock
from ackline.stores.postgres.address import read_address
from ackline.stores.postgres.store import PostgresStore


def from_url(url: str, clock: Clock | None = None) -> PostgresStore:
    """The store that a URL names: `postgresql://user@host/database?schema=ackline`."""
    return PostgresStore(read_address(url), clock)
