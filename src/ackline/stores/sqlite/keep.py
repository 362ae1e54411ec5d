"""Settings, retention and purging."""

from __future__ import annotations

from ackline.config import QueueSettings
from ackline.events import Act, Entry
from ackline.job import QueueKey, State
from ackline.stores.base import WORKER_MEMORY, Filter, act_of_change
from ackline.stores.shared.groups import LeftGroups
from ackline.stores.shared.packed import count
from ackline.stores.shared.records import DROPPED, decode_options, encode_settings
from ackline.stores.shared.retention import Trim, plan_trim, prune_jobs
from ackline.stores.sqlite.drop import drop_jobs
from ackline.stores.sqlite.dropped import note_dropped
from ackline.stores.sqlite.groups import leave_groups, unpark_all
from ackline.stores.sqlite.lines import JOURNAL, Lines, find_lines, make_lines, state_in
from ackline.stores.sqlite.look import bare_rows_of
from ackline.stores.sqlite.queries import sql
from ackline.stores.sqlite.transaction import Transaction

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
    tx.execute(sql("set_settings"), (encode_settings(settings), lines.num))
    widened = settings.group_limit > lines.settings.group_limit
    lines.settings = settings
    lines.write_journal(now, [Entry(act, "", "", None, None, by=by)])
    if widened:
        unpark_all(lines)
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
        drop_jobs(lines, [(num, slot) for num, *_ in rows])
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
    dropped = tx.execute(sql("drop_empty_slots"), (lines.num, TRIM_LIMIT)).fetchall()
    return plan.unseen, TRIM_LIMIT in (plan.batches, len(dropped))


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
    drop_jobs(lines, [(row[0], row[7]) for row in rows])
    lines.write_journal(now, entries)
    lines.flush()
    leave_groups(lines, left)
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
    tx.execute(sql("set_settings"), (DROPPED, lines.num))
    tx.execute(sql("forget_all_workers"), (lines.num,))
    return True
