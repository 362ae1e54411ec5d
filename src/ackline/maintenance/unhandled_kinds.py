"""Finds queued jobs of kinds that no live worker has a handler for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ackline.core.job import State
from ackline.queue import Queue
from ackline.stores.contract import Filter, WorkerRecord

CHECKED_JOBS = 200
"""Next jobs of a queue whose kinds are checked: those that no worker handles gather there."""


class UnhandledKind(msgspec.Struct, frozen=True):
    """A kind that no live worker handles, and how many of its jobs are among the next ones."""

    kind: str
    jobs: int
    oldest_created_at: float
    may_have_more: bool


def find_unhandled_kinds(
    queue: Queue[Any, Any], alive: Iterable[WorkerRecord]
) -> list[UnhandledKind]:
    """The kinds among the next jobs of a queue that none of these workers handles."""
    handled = [worker.heartbeat.kinds for worker in alive]
    if None in handled:
        return []
    known = {kind for kinds in handled for kind in kinds or ()}
    queued = Filter(states=frozenset({State.QUEUED}))
    page = queue.store.page(queue.key, queued, None, CHECKED_JOBS)
    created_at: dict[str, list[float]] = {}
    for job in page.jobs:
        if job.kind not in known:
            created_at.setdefault(job.kind, []).append(job.created_at)
    return [
        UnhandledKind(kind, len(times), min(times), page.cursor is not None)
        for kind, times in created_at.items()
    ]
