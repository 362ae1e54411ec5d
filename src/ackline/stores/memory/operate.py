"""Settings, pruning, purging and keys of a memory store."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from ackline.core.config import DEFAULT_SETTINGS, QueueSettings
from ackline.core.events import Act, Entry
from ackline.core.job import QueueKey, State
from ackline.stores.contract import DEAD_WORKER_RETENTION, Filter, KeyValue, KeyWrite, act_of_change
from ackline.stores.memory.data import QueueData, StoreData
from ackline.stores.shared.byte_limit import ByteLimit
from ackline.stores.shared.groups import FreedGroups
from ackline.stores.shared.retention import PruneResult, plan_trim, prune_jobs


def configure(
    store: StoreData,
    queue: QueueKey,
    settings: QueueSettings,
    expected: QueueSettings | None,
    by: str,
    now: float,
) -> bool:
    """Replace a queue's settings."""
    data = store.ensure_queue(queue)
    if expected is not None and expected != data.settings:
        return False
    entry = Entry(act_of_change(data.settings, settings), "", "", None, None, by=by)
    data.settings = settings
    for group in data.parked:
        data.unpark(group)
    store.write_journal(data, now, [entry])
    return True


def prune(
    store: StoreData,
    queue: QueueKey,
    limit: int,
    max_events: int,
    needed_after: str | None,
    now: float,
) -> PruneResult:
    """Drop terminal jobs and journal batches past their retention, and long-dead workers."""
    data = store.queue(queue)

    def drop_expired(state: State, limit: int) -> Iterator[tuple[str, str, int]]:
        for _ in range(limit):
            if (job := data.lists[state].first_due(now)) is None:
                return
            data.drop(job)
            yield job.id, job.kind, job.attempts

    journal = prune_jobs(limit, drop_expired)
    store.write_journal(data, now, journal)
    _drop_dead_workers(data, now)
    data.drop_empty_lists()
    return PruneResult(len(journal), _trim(data, max_events, needed_after, now), more=False)


def _trim(data: QueueData, max_events: int, needed_after: str | None, now: float) -> int:
    """Drop journal batches; returns how many events a registered reader had not read."""
    batches = ((batch.number, batch.at, len(batch.entries)) for batch in data.journal)
    plan = plan_trim(batches, data.events, data.settings, max_events, needed_after, now)
    if plan.batches:
        del data.journal[: plan.batches]
        data.events -= plan.events
        data.last_trimmed = plan.last
    return plan.unread


def _drop_dead_workers(data: QueueData, now: float) -> None:
    with_leases = {job.worker for job in data.lists[State.PROCESSING].jobs()}
    dead = [
        id
        for id, entry in data.workers.items()
        if entry.expires_at < now - DEAD_WORKER_RETENTION and id not in with_leases
    ]
    for id in dead:
        del data.workers[id]


def purge(
    store: StoreData, queue: QueueKey, job_filter: Filter, limit: int, by: str, now: float
) -> int:
    """Delete the matching jobs, whatever their state."""
    data = store.queue(queue)
    jobs = data.candidates(job_filter)
    matching = (job for job in jobs if job_filter.matches(job.record(history=False)))
    journal, freed_groups = [], FreedGroups()
    for job in list(itertools.islice(matching, max(limit, 0))):
        journal.append(Entry(Act.PURGE, job.id, job.kind, job.state, None, job.attempts, by=by))
        data.drop(job)
        freed_groups.add(job.group, job.state, None)
    store.write_journal(data, now, journal)
    store.free_groups(data, freed_groups)
    return len(journal)


def drop(store: StoreData, queue: QueueKey, by: str, now: float) -> bool:
    """Drop an empty queue with everything except its journal."""
    data = store.queue(queue)
    if data.jobs:
        return False
    if queue in store.queues and not data.is_dropped:
        data.is_dropped = True
        data.settings = DEFAULT_SETTINGS
        data.workers.clear()
        data.drop_empty_lists()
        store.write_journal(data, now, [Entry(Act.DROP, "", "", None, None, by=by)])
    return True


def read_keys(
    store: StoreData,
    tenant: str,
    prefix: tuple[str, ...],
    limit: int,
    after: tuple[str, ...] | None,
    max_bytes: int | None,
) -> list[KeyValue]:
    """The keys that start with `prefix` and come after the key `after`."""
    found = [
        entry
        for (owner, key), entry in store.keys.items()
        if owner == tenant and key[: len(prefix)] == prefix and (after is None or key > after)
    ]
    first = sorted(found, key=lambda entry: entry.key)[:limit]
    return list(ByteLimit(max_bytes).limit(first, lambda entry: len(entry.value)))


def write_keys(store: StoreData, tenant: str, writes: Sequence[KeyWrite]) -> bool:
    """Apply all writes, or none."""
    for write in writes:
        entry = store.keys.get((tenant, write.key))
        version = entry.version if entry is not None else 0
        if write.version is not None and write.version != version:
            return False
    for write in writes:
        if write.value is None:
            store.keys.pop((tenant, write.key), None)
        else:
            store.put_key(tenant, write.key, write.value)
    return True
