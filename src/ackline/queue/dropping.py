"""Dropping a queue: its jobs, then the queue itself, then what is noted about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackline.core.errors import QueueNotEmpty
from ackline.core.job import LIVE, TERMINAL
from ackline.core.limits import RESERVED_KEY_PREFIX, truncate_note
from ackline.queue.metadata import local_max_attempts
from ackline.queue.purging import ProgressSteps, purge_steps
from ackline.stores.contract import QUEUE_KEYS, Filter, KeyValue, KeyWrite

if TYPE_CHECKING:
    from ackline.queue.operator import Operator

METADATA_KEYS = (
    QUEUE_KEYS,
    local_max_attempts.METADATA_KEY,
    "claims",
    "cron",
    "fleets",
    "maintenance",
    "recovered",
    "schedules",
)
"""Ackline's own keys about a queue, by the second part of the key; the third is the queue's name.
How far its journal was read is not among them: that stays, as the journal does."""

MAX_METADATA_KEYS = 10_000

DROP_ATTEMPTS = 100
"""Jobs may come faster than they can be deleted."""


def drop_steps(queue: Operator[Any, Any], force: bool, by: str) -> ProgressSteps:
    """Drop a queue; returns how many jobs went with it."""
    notes = metadata_of(queue)
    gone = 0
    for _ in range(DROP_ATTEMPTS):
        if queue.store.drop(queue.key, truncate_note(by)):
            delete_metadata(queue, notes)
            queue.policies.settings(max_age=0)
            return gone
        if not force and _count_live(queue):
            break
        # Without force, only finished jobs: a job that came just now is live.
        which = Filter() if force else Filter(states=TERMINAL)
        gone += yield from purge_steps(queue, which, by)
    raise QueueNotEmpty(str(queue.key), _count_live(queue))


def _count_live(queue: Operator[Any, Any]) -> int:
    counts = queue.counts()
    return sum(counts[state] for state in LIVE)


def metadata_of(queue: Operator[Any, Any]) -> list[KeyValue]:
    """The notes about a queue. Read them before the drop: a process may create the queue again."""
    tenant, name = queue.key.tenant, queue.key.name
    return [
        entry
        for note in METADATA_KEYS
        for entry in queue.store.read_keys(
            tenant, (RESERVED_KEY_PREFIX, note, name), MAX_METADATA_KEYS
        )
    ]


def delete_metadata(queue: Operator[Any, Any], notes: list[KeyValue]) -> None:
    """Delete notes, except those that were written again since they were read."""
    for entry in notes:
        write = KeyWrite(key=entry.key, value=None, version=entry.version)
        queue.store.write_keys(queue.key.tenant, [write])
