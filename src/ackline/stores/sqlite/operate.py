"""Settings, retention and purging."""

from __future__ import annotations

from ackline.core.config import QueueSettings
from ackline.core.events import Act, Entry
from ackline.core.job import QueueKey, State
from ackline.stores.contract import DEAD_WORKER_RETENTION, Filter, act_of_change
from ackline.stores.shared.groups import FreedGroups
from ackline.stores.shared.journal_batches import count_entries
from ackline.stores.shared.record_encoding import decode_options
from ackline.stores.shared.retention import TrimPlan, plan_trim, prune_jobs
from ackline.stores.sqlite.queries import bare_rows_of, record_trimmed
from ackline.stores.sqlite.queue_writer import QueueWriter, Transaction, ensure_queue, find_queue
from ackline.stores.sqlite.rows import JOURNAL, state_of_list
from ackline.stores.sqlite.sql import sql

TRIM_LIMIT = 1000
"""The most journal batches and empty lines that one step drops: others can write in between."""


def configure(
    tx: Transaction,
    queue: QueueKey,
    settings: QueueSettings,
    expected: QueueSettings | None,
    by: str,
    now: float,
) -> bool:
    """Replace a queue's settings."""
    lines = ensure_queue(tx, queue)
    if expected is not None and expected != lines.settings:
        return False
    act = act_of_change(lines.settings, settings)
    widened = settings.group_limit > lines.settings.group_limit
    lines.set_settings(settings)
    lines.write_journal(now, [Entry(act, "", "", None, None, by=by)])
    if widened:
        lines.unpark_all()
    lines.write_counts()
    return True


def prune(tx: Transaction, queue: QueueKey, limit: int, now: float) -> int:
    """Drop terminal jobs past their time, and workers long gone."""
    lines = find_queue(tx, queue)
    if lines is None:
        return 0

    def drop_over(state: State, most: int) -> list[tuple[str, str, int]]:
        slot = lines.list_of_state(state)
        rows = tx.execute(sql("over"), (slot, now, most)).fetchall()
        lines.drop_jobs([(num, slot) for num, *_ in rows])
        return [(id, kind, attempts) for _, id, kind, attempts in rows]

    entries = prune_jobs(limit, drop_over)
    lines.write_journal(now, entries)
    lines.write_counts()
    values = (lines.num, now - DEAD_WORKER_RETENTION, lines.list_of_state(State.PROCESSING))
    tx.execute(sql("forget_workers"), values)
    return len(entries)


def trim(
    tx: Transaction, queue: QueueKey, most: int, keep_from: str | None, now: float
) -> tuple[int, bool]:
    """Drop journal batches that are too old or too many, and lines of kinds without jobs.

    Returns how many of the events a registered reader has not seen, and whether there may be more.
    """
    lines = find_queue(tx, queue)
    if lines is None:
        return 0, False
    plan = _trim_journal(lines, most, keep_from, now)
    lines.write_counts()
    return plan.unread, TRIM_LIMIT in (plan.batches, lines.drop_empty_lists(TRIM_LIMIT))


def _trim_journal(lines: QueueWriter, most: int, keep_from: str | None, now: float) -> TrimPlan:
    slot, execute = -(lines.num * 16 + JOURNAL), lines.tx.execute
    events = execute(sql("event_count"), (slot,)).fetchall()[0][0]
    rows = execute(sql("oldest_batches"), (lines.num, TRIM_LIMIT))
    batches = ((number, at, count_entries(entries)) for number, at, entries in rows)
    plan = plan_trim(batches, events, lines.settings, most, keep_from, now)
    if plan.batches:
        execute(sql("drop_batches"), (lines.num, plan.last[0]))
        lines.change_counts(slot, None, plan.events)
        record_trimmed(lines.tx, lines.num, plan.last)
    return plan


def purge(tx: Transaction, queue: QueueKey, which: Filter, by: str, now: float) -> int:
    """Delete matching jobs, whatever their state; `which` names them by id."""
    lines = find_queue(tx, queue)
    rows = sorted(bare_rows_of(tx.execute, lines.num, which)) if lines is not None else []
    if lines is None or not rows:
        return 0
    entries, left = [], FreedGroups()
    for _, id, kind, _, _, options, _, slot, _, attempts, *_ in rows:
        state = state_of_list(slot)
        entries.append(Entry(Act.PURGE, id, kind, state, None, attempts, by=by))
        left.add(decode_options(options).group, state, None)
    lines.drop_jobs([(row[0], row[7]) for row in rows])
    lines.write_journal(now, entries)
    lines.write_counts()
    lines.free_groups(left)
    return len(rows)


def drop(tx: Transaction, queue: QueueKey, by: str, now: float) -> bool:
    """Forget everything of an empty queue except its journal."""
    lines = find_queue(tx, queue)
    if lines is None or lines.dropped:
        return True
    if tx.execute(sql("has_jobs"), (lines.num,)).fetchall():
        return False
    lines.write_journal(now, [Entry(Act.DROP, "", "", None, None, by=by)])
    lines.write_counts()
    lines.drop()
    tx.execute(sql("forget_all_workers"), (lines.num,))
    return True
