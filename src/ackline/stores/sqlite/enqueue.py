"""Jobs into the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import apsw

from ackline.core.errors import KeysChanged
from ackline.core.job import NO_OPTIONS, Draft, QueueKey, State
from ackline.stores.contract import KeyWrite, Receipt
from ackline.stores.shared.enqueue import plan_enqueue
from ackline.stores.shared.record_encoding import encode_options
from ackline.stores.sqlite.key_values import write_keys
from ackline.stores.sqlite.queue_writer import QueueWriter, Transaction, ensure_queue
from ackline.stores.sqlite.rows import rows_by_ids, state_of_list
from ackline.stores.sqlite.sql import sql

_QUEUED = State.QUEUED


class _Existing(NamedTuple):
    """A job that has the id of a draft."""

    num: int
    kind: str
    slot: int
    state: State | None


def enqueue(
    tx: Transaction,
    queue: QueueKey,
    drafts: Sequence[Draft],
    now: float,
    keys: Sequence[KeyWrite] = (),
) -> list[Receipt]:
    """Insert the jobs that are not there yet, and write the keys that came with them."""
    lines = ensure_queue(tx, queue)
    if keys and not write_keys(tx, queue.tenant, keys):
        raise KeysChanged(str(queue))
    if not drafts:
        return []
    receipts = None
    if lines.settings.max_jobs is None and all(draft.assume_new for draft in drafts):
        receipts = _insert_without_lookup(lines, drafts, now)
    if receipts is None:
        receipts = _insert_after_lookup(lines, drafts, now)
    lines.write_counts()
    return receipts


def _insert_without_lookup(
    lines: QueueWriter, drafts: Sequence[Draft], now: float
) -> list[Receipt] | None:
    """Insert jobs without looking for their ids first; None if one was known after all."""
    nothing: dict[str, _Existing] = {}
    plan = plan_enqueue(drafts, nothing.get, _no_result, now, lines.settings.ageing)
    first = lines.next_jobs(len(drafts))
    try:
        _add_jobs(lines, first, drafts, now)
    except apsw.ConstraintError:
        lines.tx.execute(sql("take_back_jobs"), (first, first + len(drafts) - 1))
        lines.tx.last_job = first - 1
        return None
    _add_states(lines, first, plan.new, now)
    lines.write_journal(now, plan.entries)
    return plan.receipts


def _no_result(_there: _Existing) -> None:
    return None


def _insert_after_lookup(lines: QueueWriter, drafts: Sequence[Draft], now: float) -> list[Receipt]:
    existing = _find_existing(lines, drafts, now)
    plan = plan_enqueue(
        drafts, existing.get, lambda there: _result_of(lines, there), now, lines.settings.ageing
    )
    if plan.new:
        if lines.settings.max_jobs is not None:
            live = lines.tx.execute(sql("live_count"), (lines.num,)).fetchall()[0][0]
            plan.require_capacity(lines.key, lines.settings, live)
        lines.drop_jobs([(there.num, there.slot) for there in plan.replaced])
        first = lines.next_jobs(len(plan.new))
        _add_jobs(lines, first, [draft for draft, _, _ in plan.new], now)
        _add_states(lines, first, plan.new, now)
        lines.write_journal(now, plan.entries)
    return plan.receipts


def _find_existing(lines: QueueWriter, drafts: Sequence[Draft], now: float) -> dict[str, _Existing]:
    ids = [draft.id for draft in drafts]
    rows = rows_by_ids(lines.tx.execute, "known_ids", "known_id", lines.num, ids)
    existing = {}
    for id, num, kind, slot, at in rows:
        state = state_of_list(slot)
        over = state.terminal and at <= now
        existing[id] = _Existing(num, kind, slot, None if over else state)
    return existing


def _result_of(lines: QueueWriter, there: _Existing) -> bytes | None:
    rows = lines.tx.execute(sql("result_of"), (there.num,)).fetchall()
    return rows[0][0] if rows else None


def _add_jobs(lines: QueueWriter, first: int, drafts: Sequence[Draft], now: float) -> None:
    queue = lines.num
    rows = [
        (
            num,
            queue,
            draft.id,
            draft.kind,
            None if draft.options is NO_OPTIONS else draft.options.group,
            draft.priority,
            now,
            None if draft.options is NO_OPTIONS else encode_options(draft.options),
            draft.payload,
        )
        for num, draft in enumerate(drafts, first)
    ]
    lines.tx.run_for_each(sql("add_job"), rows)


def _add_states(
    lines: QueueWriter, first: int, new: Sequence[tuple[Draft, State, float]], now: float
) -> None:
    kind, count = new[0][0].kind, len(new)
    if count > 1 and all(state is _QUEUED and draft.kind == kind for draft, state, _ in new):
        slot, ageing = lines.ready_list(kind), lines.settings.ageing
        lines.tx.execute(sql("add_places"), (first, first + count - 1, slot, now, ageing))
        lines.change_counts(None, slot, count)
        return
    rows = []
    for num, (draft, state, at) in enumerate(new, first):
        slot = lines.ready_list(draft.kind) if state is _QUEUED else lines.list_of_state(state)
        rows.append((num, slot, at, at))
        lines.change_counts(None, slot)
    lines.tx.run_for_each(sql("add_place"), rows)
