"""Dropping a queue: its jobs, then the queue itself, then what is noted about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackline.errors import QueueNotEmpty
from ackline.job import LIVE, TERMINAL
from ackline.limits import OWN_KEYS, short_note
from ackline.queue import own_attempts
from ackline.queue.purging import Steps, purge_steps
from ackline.stores.base import BESIDE, Filter, Key, KeyWrite

if TYPE_CHECKING:
    from ackline.queue.operator import Operator

NOTES = (
    BESIDE,
    own_attempts.NOTE,
    "claims",
    "cron",
    "fleets",
    "maintenance",
    "recovered",
    "schedules",
)
"""Ackline's own keys about a queue, by the second part of the key; the third is the queue's name.
How far its journal was read is not among them: that stays, as the journal does."""

MOST_NOTES = 10_000

TRIES = 100
"""Jobs may come faster than they can be deleted."""


def drop_steps(queue: Operator[Any, Any], force: bool, by: str) -> Steps:
    """Drop a queue; returns how many jobs went with it."""
    notes = notes_of(queue)
    gone = 0
    for _ in range(TRIES):
        if queue.store.drop(queue.key, short_note(by)):
            forget(queue, notes)
            queue.policies.settings(max_age=0)
            return gone
        if not force and _live(queue):
            break
        # Without force, only finished jobs: a job that came just now is live.
        which = Filter() if force else Filter(states=TERMINAL)
        gone += yield from purge_steps(queue, which, by)
    raise QueueNotEmpty(str(queue.key), _live(queue))


def _live(queue: Operator[Any, Any]) -> int:
    counts = queue.counts()
    return sum(counts[state] for state in LIVE)


def notes_of(queue: Operator[Any, Any]) -> list[Key]:
    """The notes about a queue. Read them before the drop: a process may create the queue again."""
    tenant, name = queue.key.tenant, queue.key.name
    return [
        entry
        for note in NOTES
        for entry in queue.store.read_keys(tenant, (OWN_KEYS, note, name), MOST_NOTES)
    ]


def forget(queue: Operator[Any, Any], notes: list[Key]) -> None:
    """Delete notes, except those that were written again since they were read."""
    for entry in notes:
        write = KeyWrite(key=entry.key, value=None, version=entry.version)
        queue.store.write_keys(queue.key.tenant, [write])
