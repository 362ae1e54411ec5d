"""Settings, retention and purging."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from ackline.config import QueueSettings
from ackline.events import Act, Entry, read_cursor, unseen
from ackline.job import QueueKey, State
from ackline.stores.base import WORKER_MEMORY, Filter, act_of_change
from ackline.stores.packed import count
from ackline.stores.shared.records import DROPPED, decode_options, encode_settings
from ackline.stores.sqlite.drop import drop_jobs
from ackline.stores.sqlite.dropped import note_dropped
from ackline.stores.sqlite.groups import leave_groups, unpark_all
from ackline.stores.sqlite.lines import JOURNAL, Lines, find_lines, make_lines, state_in
from ackline.stores.sqlite.look import bare_rows_of
from ackline.stores.sqlite.queries import sql
from ackline.stores.sqlite.transaction import Transaction

TRIM_LIMIT = 1000
"""The most journal batches and empty lines that one step drops: others can write in between."""

_TERMINAL = (State.COMPLETED, State.FAILED, State.CANCELLED)


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
    tx.wake(queue, "ready")
    return True


def prune(tx: Transaction, queue: QueueKey, limit: int, now: float) -> int:
    """Drop terminal jobs past their time, and workers long gone."""
    lines = find_lines(tx, queue)
    if lines is None:
        return 0
    entries: list[Entry] = []
    for state in _TERMINAL:
        slot = lines.slot(state)
        room = max(limit - len(entries), 0)
        rows = tx.execute(sql("over"), (slot, now, room)).fetchall()
        drop_jobs(lines, [(num, slot) for num, *_ in rows])
        entries += [Entry(Act.PRUNE, id, kind, state, None, n) for _, id, kind, n in rows]
    lines.write_journal(now, entries)
    lines.flush()
    values = (lines.num, now - WORKER_MEMORY, lines.slot(State.PROCESSING))
    tx.execute(sql("forget_workers"), values)
    return len(entries)


class Trimmed(NamedTuple):
    """What one step of trimming did."""

    more: bool
    """Whether there may be more to drop."""
    lost: int
    """How many events were dropped that a registered reader has not seen."""


def trim(tx: Transaction, queue: QueueKey, most: int, keep_from: str | None, now: float) -> Trimmed:
    """Drop journal batches that are too old or too many, and lines of kinds without jobs."""
    lines = find_lines(tx, queue)
    if lines is None:
        return Trimmed(False, 0)
    if lines.settings.max_journal is not None:
        most = lines.settings.max_journal
    batches, lost = _trim_journal(lines, most, keep_from, now)
    lines.flush()
    dropped = tx.execute(sql("drop_empty_slots"), (lines.num, TRIM_LIMIT)).fetchall()
    return Trimmed(TRIM_LIMIT in (batches, len(dropped)), lost)


def _trim_journal(lines: Lines, most: int, keep_from: str | None, now: float) -> tuple[int, int]:
    """Drop some batches; returns how many, and how many of their events a reader has not seen."""
    slot, oldest = -(lines.num * 16 + JOURNAL), now - lines.settings.keep_journal
    reader = None if keep_from is None else read_cursor(keep_from)
    surplus = lines.tx.execute(sql("event_count"), (slot,)).fetchall()[0][0] - most
    batches, events, lost, last = 0, 0, 0, (0, 0)
    for batch, at, entries in lines.tx.execute(sql("oldest_batches"), (lines.num, TRIM_LIMIT)):
        if at >= oldest and events >= surplus:
            break
        size = count(entries)
        needed = unseen(batch, size, reader)
        if needed and events >= surplus:
            break
        batches, events, lost, last = batches + 1, events + size, lost + needed, (batch, size)
    if batches:
        lines.tx.execute(sql("drop_batches"), (lines.num, last[0]))
        lines.shift(slot, None, events)
        note_dropped(lines.tx, lines.num, last)
    return batches, lost


def purge(tx: Transaction, queue: QueueKey, which: Filter, by: str, now: float) -> int:
    """Delete matching jobs, whatever their state; `which` names them by id."""
    lines = find_lines(tx, queue)
    rows = sorted(bare_rows_of(tx.execute, lines.num, which)) if lines is not None else []
    if lines is None or not rows:
        return 0
    entries, left = [], Counter[str]()
    for _, id, kind, _, _, options, _, slot, _, attempts, *_ in rows:
        state = state_in(slot)
        entries.append(Entry(Act.PURGE, id, kind, state, None, attempts, by=by))
        group = decode_options(options).group
        if group is not None and state in (State.PROCESSING, State.QUEUED):
            left[group] += state is State.PROCESSING
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
