"""The worker names under which streams and fleets claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from ackline.queue import Queue

STREAM = "spark stream "
FLEET = "spark fleet "


def stream_worker(stream_id: str) -> str:
    """The name of a stream of jobs as a worker: the same after every restart."""
    return f"{STREAM}{stream_id}"


def fleet_worker(fleet: str, id: str = "") -> str:
    """The name of a fleet's worker; without `id`, the prefix of all its workers' names."""
    return f"{FLEET}{fleet} {id}"


def fleets_at_work(queues: Iterable[Queue[Any, Any]]) -> Counter[str]:
    """How many workers each fleet has on these queues, as far as they have sent a heartbeat."""
    found = {name for queue in queues for name in _at_work(queue)}
    workers = (name.removeprefix(FLEET) for name in found if name.startswith(FLEET))
    return Counter(worker.rpartition(" ")[0] for worker in workers)


def _at_work(queue: Queue[Any, Any]) -> list[str]:
    now = queue.store.now()
    return [worker.heartbeat.id for worker in queue.workers() if worker.expires_at > now]
