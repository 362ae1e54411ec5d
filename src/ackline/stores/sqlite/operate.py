"""Changing settings, pruning, purging, and dropping queues."""

from __future__ import annotations

from ackline.core.config import QueueSettings
from ackline.core.events import Act, Entry
from ackline.core.job import QueueKey, State
from ackline.stores.contract import DEAD_WORKER_RETENTION, Filter, act_of_change
from ackline.stores.shared.groups import FreedGroups
from ackline.stores.shared.journal_batches import count_entries
from ackline.stores.shared.record_encoding import decode_options
from ackline.stores.shared.retention import TrimPlan, plan_trim, prune_jobs
from ackline.stores.sqlite.io.transaction import Transaction
from ackline.stores.sqlite.queries import bare_rows_of, record_trimmed
from ackline.stores.sqlite.queue_writer import QueueWriter, ensure_queue, find_queue
from ackline.stores.sqlite.rows import JOURNAL, state_of_list
from ackline.stores.sqlite.sql import sql

TRIM_LIMIT = 1000
"""The most journal batches and empty lists that one step drops; others can write in between."""


def configure(
    tx: Transaction,
    queue: QueueKey,
    settings: QueueSettings,
    expected: QueueSettings | None,
    by: str,
    now: float,
) -> bool:
    """Replace a queue's settings."""
    writer = ensure_queue(tx, queue)
    if expected is not None and expected != writer.settings:
        return False
    act = act_of_change(writer.settings, settings)
    limit_raised = settings.group_limit > writer.settings.group_limit
    writer.set_settings(settings)
    writer.write_journal(now, [Entry(act, "", "", None, None, by=by)])
    if limit_raised:
        writer.unpark_all()
    writer.write_counts()
    return True


def prune(tx: Transaction, queue: QueueKey, limit: int, now: float) -> int:
    """Drop terminal jobs past their retention, and workers that have been dead for long."""
    writer = find_queue(tx, queue)
    if writer is None:
        return 0

    def drop_expired(state: State, limit: int) -> list[tuple[str, str, int]]:
        list_id = writer.list_of_state(state)
        rows = tx.execute(sql("past_retention"), (list_id, now, limit)).fetchall()
        writer.drop_jobs([(num, list_id) for num, *_ in rows])
        return [(id, kind, attempts) for _, id, kind, attempts in rows]

    entries = prune_jobs(limit, drop_expired)
    writer.write_journal(now, entries)
    writer.write_counts()
    values = (writer.num, now - DEAD_WORKER_RETENTION, writer.list_of_state(State.PROCESSING))
    tx.execute(sql("delete_dead_workers"), values)
    return len(entries)


def trim(
    tx: Transaction, queue: QueueKey, max_events: int, needed_after: str | None, now: float
) -> tuple[int, bool]:
    """Drop journal batches that are too old or too many, and lists of kinds without jobs.

    Returns how many of the events a registered reader has not read, and whether there may be more.
    """
    writer = find_queue(tx, queue)
    if writer is None:
        return 0, False
    plan = _trim_journal(writer, max_events, needed_after, now)
    writer.write_counts()
    return plan.unread, TRIM_LIMIT in (plan.batches, writer.drop_empty_lists(TRIM_LIMIT))


def _trim_journal(
    writer: QueueWriter, max_events: int, needed_after: str | None, now: float
) -> TrimPlan:
    list_id, execute = -(writer.num * 16 + JOURNAL), writer.tx.execute
    events = execute(sql("event_count"), (list_id,)).fetchall()[0][0]
    rows = execute(sql("oldest_batches"), (writer.num, TRIM_LIMIT))
    batches = ((number, at, count_entries(entries)) for number, at, entries in rows)
    plan = plan_trim(batches, events, writer.settings, max_events, needed_after, now)
    if plan.batches:
        execute(sql("trim_batches"), (writer.num, plan.last[0]))
        writer.change_counts(list_id, None, plan.events)
        record_trimmed(writer.tx, writer.num, plan.last)
    return plan


def purge(tx: Transaction, queue: QueueKey, job_filter: Filter, by: str, now: float) -> int:
    """Delete the matching jobs, whatever their state; the filter has their ids."""
    writer = find_queue(tx, queue)
    rows = sorted(bare_rows_of(tx.execute, writer.num, job_filter)) if writer is not None else []
    if writer is None or not rows:
        return 0
    entries, freed_groups = [], FreedGroups()
    for _, id, kind, _, _, options, _, list_id, _, attempts, *_ in rows:
        state = state_of_list(list_id)
        entries.append(Entry(Act.PURGE, id, kind, state, None, attempts, by=by))
        freed_groups.add(decode_options(options).group, state, None)
    writer.drop_jobs([(row[0], row[7]) for row in rows])
    writer.write_journal(now, entries)
    writer.write_counts()
    writer.free_groups(freed_groups)
    return len(rows)


def drop(tx: Transaction, queue: QueueKey, by: str, now: float) -> bool:
    """Drop an empty queue with everything except its journal."""
    writer = find_queue(tx, queue)
    if writer is None or writer.dropped:
        return True
    if tx.execute(sql("has_jobs"), (writer.num,)).fetchall():
        return False
    writer.write_journal(now, [Entry(Act.DROP, "", "", None, None, by=by)])
    writer.write_counts()
    writer.drop()
    tx.execute(sql("delete_workers"), (writer.num,))
    return True
