"""Settings, retention and purging."""

from __future__ import annotations

from ackline.config import QueueSettings
from ackline.events import Act, Entry
from ackline.job import QueueKey, State
from ackline.stores.base import WORKER_MEMORY, Filter, act_of_change
from ackline.stores.shared.groups import LeftGroups
from ackline.stores.shared.packed import count
from ackline.stores.shared.records import decode_options
from ackline.stores.shared.retention import Trim, plan_trim, prune_jobs
from ackline.stores.sqlite.look import bare_rows_of, note_dropped
from ackline.stores.sqlite.queries import sql
from ackline.stores.sqlite.rows import JOURNAL, state_in
from ackline.stores.sqlite.transaction import Lines, Transaction, find_lines, make_lines

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
    lines = make_lines(tx, queue)
    if expected is not None and expected != lines.settings:
        return False
    act = act_of_change(lines.settings, settings)
    widened = settings.group_limit > lines.settings.group_limit
    lines.set_settings(settings)
    lines.write_journal(now, [Entry(act, "", "", None, None, by=by)])
    if widened:
        lines.unpark_all()
    lines.flush()
    return True


def prune(tx: Transaction, queue: QueueKey, limit: int, now: float) -> int:
    """Drop terminal jobs past their time, and workers long gone."""
    lines = find_lines(tx, queue)
    if lines is None:
        return 0

    def drop_over(state: State, most: int) -> list[tuple[str, str, int]]:
        slot = lines.slot(state)
        rows = tx.execute(sql("over"), (slot, now, most)).fetchall()
        lines.drop_jobs([(num, slot) for num, *_ in rows])
        return [(id, kind, attempts) for _, id, kind, attempts in rows]

    entries = prune_jobs(limit, drop_over)
    lines.write_journal(now, entries)
    lines.flush()
    values = (lines.num, now - WORKER_MEMORY, lines.slot(State.PROCESSING))
    tx.execute(sql("forget_workers"), values)
    return len(entries)


def trim(
    tx: Transaction, queue: QueueKey, most: int, keep_from: str | None, now: float
) -> tuple[int, bool]:
    """Drop journal batches that are too old or too many, and lines of kinds without jobs.

    Returns how many of the events a registered reader has not seen, and whether there may be more.
    """
    lines = find_lines(tx, queue)
    if lines is None:
        return 0, False
    plan = _trim_journal(lines, most, keep_from, now)
    lines.flush()
    return plan.unseen, TRIM_LIMIT in (plan.batches, lines.drop_empty(TRIM_LIMIT))


def _trim_journal(lines: Lines, most: int, keep_from: str | None, now: float) -> Trim:
    slot, execute = -(lines.num * 16 + JOURNAL), lines.tx.execute
    events = execute(sql("event_count"), (slot,)).fetchall()[0][0]
    rows = execute(sql("oldest_batches"), (lines.num, TRIM_LIMIT))
    batches = ((number, at, count(entries)) for number, at, entries in rows)
    plan = plan_trim(batches, events, lines.settings, most, keep_from, now)
    if plan.batches:
        execute(sql("drop_batches"), (lines.num, plan.last[0]))
        lines.shift(slot, None, plan.events)
        note_dropped(lines.tx, lines.num, plan.last)
    return plan


def purge(tx: Transaction, queue: QueueKey, which: Filter, by: str, now: float) -> int:
    """Delete matching jobs, whatever their state; `which` names them by id."""
    lines = find_lines(tx, queue)
    rows = sorted(bare_rows_of(tx.execute, lines.num, which)) if lines is not None else []
    if lines is None or not rows:
        return 0
    entries, left = [], LeftGroups()
    for _, id, kind, _, _, options, _, slot, _, attempts, *_ in rows:
        state = state_in(slot)
        entries.append(Entry(Act.PURGE, id, kind, state, None, attempts, by=by))
        left.note(decode_options(options).group, state, None)
    lines.drop_jobs([(row[0], row[7]) for row in rows])
    lines.write_journal(now, entries)
    lines.flush()
    lines.leave_groups(left)
    return len(rows)


def drop(tx: Transaction, queue: QueueKey, by: str, now: float) -> bool:
    """Forget everything of an empty queue except its journal."""
    lines = find_lines(tx, queue)
    if lines is None or lines.dropped:
        return True
    if tx.execute(sql("has_jobs"), (lines.num,)).fetchall():
        return False
    lines.write_journal(now, [Entry(Act.DROP, "", "", None, None, by=by)])
    lines.flush()
    lines.drop()
    tx.execute(sql("forget_all_workers"), (lines.num,))
    return True
