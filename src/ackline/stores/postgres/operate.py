"""Acts of operators and maintenance: configure, prune, purge and drop."""

from __future__ import annotations

from ackline.core.config import QueueSettings
from ackline.core.events import Act, Entry
from ackline.core.job import QueueKey, State
from ackline.stores.contract import DEAD_WORKER_RETENTION, Filter, act_of_change
from ackline.stores.postgres import queries
from ackline.stores.postgres.groups import free_groups, unpark_all
from ackline.stores.postgres.io.pipeline import Ints
from ackline.stores.postgres.io.transaction import EVENTS_INDEX, Transaction
from ackline.stores.postgres.job_rows import record_of, without_data
from ackline.stores.postgres.leases import JobLookup
from ackline.stores.postgres.queue_cache import CachedQueue, QueueCache, decode_name
from ackline.stores.shared.groups import FreedGroups
from ackline.stores.shared.record_encoding import (
    DROPPED_QUEUE,
    STATE_CODES,
    decode_settings,
    encode_settings,
)
from ackline.stores.shared.retention import prune_jobs


def configure(
    tx: Transaction,
    queues: QueueCache,
    queue: QueueKey,
    settings: QueueSettings,
    expected: QueueSettings | None,
    by: str,
) -> bool:
    """Replace a queue's settings."""
    cached = queues.ensure(tx, queue)
    [(data,)] = tx.rows("lock_queue", {"queue": cached.num})
    before = decode_settings(data)
    if expected is not None and expected != before:
        return False
    tx.send("set_settings", {"queue": cached.num, "settings": encode_settings(settings)})
    journal_entry = Entry(act_of_change(before, settings), "", "", None, None, by=by)
    tx.changes_of(cached.key, cached.num).entries.append(journal_entry)
    if settings.group_limit > before.group_limit:
        unpark_all(tx, cached, settings.group_limit)
    return True


def prune(tx: Transaction, cached: CachedQueue, limit: int) -> int:
    """Delete terminal jobs past their retention, and workers that died long ago."""
    changes = tx.changes_of(cached.key, cached.num)

    def delete_past_retention(state: State, count: int) -> list[tuple[str, str, int]]:
        values = {"queue": cached.num, "state": STATE_CODES[state], "now": tx.now, "limit": count}
        rows = tx.rows("past_retention", values)
        if rows:
            tx.send("delete_jobs", {"jobs": Ints([row[0] for row in rows])})
            tx.change_counts(cached.num, state, None, len(rows))
        return [(id.decode(), decode_name(kind), attempts) for _, id, kind, attempts in rows]

    entries = prune_jobs(limit, delete_past_retention)
    changes.entries += entries
    tx.send("delete_dead_workers", {"queue": cached.num, "before": tx.now - DEAD_WORKER_RETENTION})
    return len(entries)


def find_ids(
    tx: Transaction, queues: QueueCache, queue: QueueKey, which: Filter, limit: int
) -> frozenset[str]:
    """The ids of the first jobs that match the filter."""
    cached = queues.find(tx, queue)
    return frozenset() if cached is None else frozenset(queries.find_ids(tx, cached, which, limit))


def purge(
    tx: Transaction,
    queues: QueueCache,
    queue: QueueKey,
    which: Filter,
    ids: frozenset[str],
    by: str,
) -> int:
    """Delete the jobs of these ids that match, in any state."""
    cached = queues.find(tx, queue)
    if cached is None:
        return 0
    lookup = JobLookup(tx, cached)
    lookup.find(ids)
    changes, freed, deleted = tx.changes_of(cached.key, cached.num), FreedGroups(), list[int]()
    # Now that they are locked, check whether they still match.
    found = queries.read_rows(tx, cached, sorted(ids))
    for row in sorted(without_data(row) for row in found if which.matches(record_of(row))):
        record, job = record_of(row), lookup.job(row[1].decode())
        if job is None or job.num != row[0]:
            continue
        changes.entries.append(
            Entry(Act.PURGE, record.id, record.kind, record.state, None, record.attempts, by=by)
        )
        deleted.append(job.num)
        tx.change_counts(cached.num, record.state, None)
        if record.state is State.PROCESSING:
            lookup.leases.remove_job(job.num)
        freed.add(job.group, record.state, None)
    if deleted:
        tx.send("delete_jobs", {"jobs": Ints(deleted)})
        lookup.leases.write()
        free_groups(tx, cached, freed)
    return len(deleted)


def drop(tx: Transaction, queues: QueueCache, queue: QueueKey, by: str) -> bool:
    """Drop an empty queue; only its journal is kept.

    A concurrent enqueue does not lock the queue, so it may add jobs to a queue that is marked as
    dropped. That does no harm: a queue that has jobs exists, whatever the mark says.
    """
    cached = queues.find(tx, queue)
    if cached is None or cached.dropped:
        return True
    # Under the lock, the counts include what the previous holder of the lock has changed.
    tx.rows("lock_queue", {"queue": cached.num})
    for counts in tx.rows("counts", {"queues": Ints([cached.num])}):
        if any(counts[1 : 1 + EVENTS_INDEX]):
            return False
    tx.send("set_settings", {"queue": cached.num, "settings": DROPPED_QUEUE})
    tx.send("delete_workers", {"queue": cached.num})
    tx.changes_of(queue, cached.num).entries.append(Entry(Act.DROP, "", "", None, None, by=by))
    return True
