"""The names of a fleet's workers, by which the store can tell which fleets are at work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from ackline.queue import Queue

PREFIX = "spark "


def worker_name(fleet: str, id: str = "") -> str:
    """The name of a fleet's worker; without `id`, the prefix of all its workers' names."""
    return f"{PREFIX}{fleet} {id}"


def fleets_at_work(queues: Iterable[Queue[Any, Any]]) -> Counter[str]:
    """How many workers each fleet has on these queues, as far as they have sent a heartbeat."""
    found = {
        worker.beat.id
        for queue in queues
        for worker in queue.workers()
        if worker.expires_at > queue.store.info().now
    }
    names = (name.removeprefix(PREFIX) for name in found if name.startswith(PREFIX))
    return Counter(name.rpartition(" ")[0] for name in names)
