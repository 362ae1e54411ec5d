"""Settings, pruning, purging and keys of a memory store."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from ackline.config import DEFAULT_SETTINGS, QueueSettings
from ackline.events import Act, Entry
from ackline.job import QueueKey, State
from ackline.stores.base import WORKER_MEMORY, Filter, Key, KeyWrite, act_of_change
from ackline.stores.budget import Budget
from ackline.stores.memory.lines import Shelf
from ackline.stores.memory.room import Room
from ackline.stores.shared.groups import LeftGroups
from ackline.stores.shared.retention import Pruned, plan_trim, prune_jobs


def configure(
    room: Room,
    queue: QueueKey,
    settings: QueueSettings,
    expected: QueueSettings | None,
    by: str,
    now: float,
) -> bool:
    """Replace a queue's settings."""
    shelf = room.make_shelf(queue)
    if expected is not None and expected != shelf.settings:
        return False
    entry = Entry(act_of_change(shelf.settings, settings), "", "", None, None, by=by)
    shelf.settings = settings
    for group in shelf.parked:
        shelf.unpark(group)
    room.write_journal(shelf, now, [entry])
    return True


def prune(
    room: Room, queue: QueueKey, limit: int, most: int, keep_from: str | None, now: float
) -> Pruned:
    """Drop terminal jobs and journal batches past their time, and workers long gone."""
    shelf = room.shelf(queue)

    def drop_over(state: State, left: int) -> Iterator[tuple[str, str, int]]:
        for _ in range(left):
            if (job := shelf.lines[state].first_due(now)) is None:
                return
            shelf.drop(job)
            yield job.id, job.kind, job.attempts

    journal = prune_jobs(limit, drop_over)
    room.write_journal(shelf, now, journal)
    _forget_workers(shelf, now)
    shelf.forget_empty_lines()
    return Pruned(len(journal), _trim(shelf, most, keep_from, now), more=False)


def _trim(shelf: Shelf, most: int, keep_from: str | None, now: float) -> int:
    """Drop journal batches; returns how many dropped events a registered reader has not seen."""
    batches = ((batch.number, batch.at, len(batch.entries)) for batch in shelf.journal)
    plan = plan_trim(batches, shelf.events, shelf.settings, most, keep_from, now)
    if plan.batches:
        del shelf.journal[: plan.batches]
        shelf.events -= plan.events
        shelf.dropped = plan.last
    return plan.unseen


def _forget_workers(shelf: Shelf, now: float) -> None:
    holding = {job.worker for job in shelf.lines[State.PROCESSING].jobs()}
    gone = [
        id
        for id, entry in shelf.workers.items()
        if entry.expires_at < now - WORKER_MEMORY and id not in holding
    ]
    for id in gone:
        del shelf.workers[id]


def purge(room: Room, queue: QueueKey, which: Filter, limit: int, by: str, now: float) -> int:
    """Delete matching jobs, whatever their state."""
    shelf = room.shelf(queue)
    jobs = shelf.those_of(which)
    matching = (job for job in jobs if which.matches(job.record(history=False)))
    journal, left = [], LeftGroups()
    for job in list(itertools.islice(matching, max(limit, 0))):
        journal.append(Entry(Act.PURGE, job.id, job.kind, job.state, None, job.attempts, by=by))
        shelf.drop(job)
        left.note(job.group, job.state, None)
    room.write_journal(shelf, now, journal)
    room.leave_groups(shelf, left)
    return len(journal)


def drop(room: Room, queue: QueueKey, by: str, now: float) -> bool:
    """Forget everything of an empty queue except its journal."""
    shelf = room.shelf(queue)
    if shelf.jobs:
        return False
    if queue in room.shelves and not shelf.dropped_queue:
        shelf.dropped_queue = True
        shelf.settings = DEFAULT_SETTINGS
        shelf.workers.clear()
        shelf.forget_empty_lines()
        room.write_journal(shelf, now, [Entry(Act.DROP, "", "", None, None, by=by)])
    return True


def read_keys(
    room: Room,
    tenant: str,
    prefix: tuple[str, ...],
    limit: int,
    after: tuple[str, ...] | None,
    max_bytes: int | None,
) -> list[Key]:
    """The keys that start with `prefix` and come after the key `after`."""
    found = [
        entry
        for (owner, key), entry in room.keys.items()
        if owner == tenant and key[: len(prefix)] == prefix and (after is None or key > after)
    ]
    first = sorted(found, key=lambda entry: entry.key)[:limit]
    return list(Budget(max_bytes).within(first, lambda entry: len(entry.value)))


def write_keys(room: Room, tenant: str, writes: Sequence[KeyWrite]) -> bool:
    """Apply all writes, or none."""
    for write in writes:
        there = room.keys.get((tenant, write.key))
        version = there.version if there is not None else 0
        if write.version is not None and write.version != version:
            return False
    for write in writes:
        if write.value is None:
            room.keys.pop((tenant, write.key), None)
        else:
            room.put_key(tenant, write.key, write.value)
    return True
