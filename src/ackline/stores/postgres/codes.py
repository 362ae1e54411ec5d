"""How the tables store names: as bytes."""

from __future__ import annotations

import functools

from ackline.job import QueueKey

LANES, PROMOTED, ODD = 21, 10, 20
"""How many lanes a line has; the first lane of promoted jobs; the lane of jobs in any order."""


@functools.lru_cache(maxsize=4096)
def name_of(data: bytes) -> str:
    """A name that occurs often, such as a kind, a group or a worker, from its bytes."""
    return data.decode()


def queue_of(tenant: bytes, name: bytes) -> QueueKey:
    """A queue, from the bytes of its names."""
    return QueueKey(tenant.decode(), name.decode())
