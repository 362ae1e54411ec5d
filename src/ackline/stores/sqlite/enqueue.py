"""Inserting jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import apsw

from ackline.core.errors import KeysChanged
from ackline.core.job import NO_OPTIONS, Draft, QueueKey, State
from ackline.stores.contract import KeyWrite, Receipt
from ackline.stores.shared.enqueue import plan_enqueue
from ackline.stores.shared.record_encoding import encode_options
from ackline.stores.sqlite.io.transaction import Transaction
from ackline.stores.sqlite.key_values import write_keys
from ackline.stores.sqlite.queue_writer import QueueWriter, ensure_queue
from ackline.stores.sqlite.rows import rows_by_ids, state_of_list
from ackline.stores.sqlite.sql import sql

_QUEUED = State.QUEUED


class _Existing(NamedTuple):
    """A job that already has the id of a draft."""

    num: int
    kind: str
    list_id: int
    state: State | None


def enqueue(
    tx: Transaction,
    queue: QueueKey,
    drafts: Sequence[Draft],
    now: float,
    keys: Sequence[KeyWrite] = (),
) -> list[Receipt]:
    """Insert the jobs that do not exist yet, and write the keys that came with them."""
    writer = ensure_queue(tx, queue)
    if keys and not write_keys(tx, queue.tenant, keys):
        raise KeysChanged(str(queue))
    if not drafts:
        return []
    receipts = None
    if writer.settings.max_jobs is None and all(draft.assume_new for draft in drafts):
        receipts = _insert_without_lookup(writer, drafts, now)
    if receipts is None:
        receipts = _insert_after_lookup(writer, drafts, now)
    writer.write_counts()
    return receipts


def _insert_without_lookup(
    writer: QueueWriter, drafts: Sequence[Draft], now: float
) -> list[Receipt] | None:
    """Insert jobs without looking up their ids; None if one of them existed after all."""
    existing: dict[str, _Existing] = {}
    plan = plan_enqueue(drafts, existing.get, _no_result, now, writer.settings.ageing)
    first = writer.next_jobs(len(drafts))
    try:
        _add_jobs(writer, first, drafts, now)
    except apsw.ConstraintError:
        writer.tx.execute(sql("undo_insert"), (first, first + len(drafts) - 1))
        writer.tx.last_job = first - 1
        return None
    _add_states(writer, first, plan.new, now)
    writer.write_journal(now, plan.entries)
    return plan.receipts


def _no_result(_job: _Existing) -> None:
    return None


def _insert_after_lookup(writer: QueueWriter, drafts: Sequence[Draft], now: float) -> list[Receipt]:
    existing = _find_existing(writer, drafts, now)
    plan = plan_enqueue(
        drafts, existing.get, lambda job: _result_of(writer, job), now, writer.settings.ageing
    )
    if plan.new:
        if writer.settings.max_jobs is not None:
            live = writer.tx.execute(sql("live_count"), (writer.num,)).fetchall()[0][0]
            plan.require_capacity(writer.key, writer.settings, live)
        writer.drop_jobs([(job.num, job.list_id) for job in plan.replaced])
        first = writer.next_jobs(len(plan.new))
        _add_jobs(writer, first, [draft for draft, _, _ in plan.new], now)
        _add_states(writer, first, plan.new, now)
        writer.write_journal(now, plan.entries)
    return plan.receipts


def _find_existing(
    writer: QueueWriter, drafts: Sequence[Draft], now: float
) -> dict[str, _Existing]:
    ids = [draft.id for draft in drafts]
    rows = rows_by_ids(writer.tx.execute, "existing_jobs", "existing_job", writer.num, ids)
    existing = {}
    for id, num, kind, list_id, at in rows:
        state = state_of_list(list_id)
        past_retention = state.terminal and at <= now
        existing[id] = _Existing(num, kind, list_id, None if past_retention else state)
    return existing


def _result_of(writer: QueueWriter, job: _Existing) -> bytes | None:
    rows = writer.tx.execute(sql("result_of"), (job.num,)).fetchall()
    return rows[0][0] if rows else None


def _add_jobs(writer: QueueWriter, first: int, drafts: Sequence[Draft], now: float) -> None:
    queue = writer.num
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
    writer.tx.run_for_each(sql("add_job"), rows)


def _add_states(
    writer: QueueWriter, first: int, new: Sequence[tuple[Draft, State, float]], now: float
) -> None:
    kind, count = new[0][0].kind, len(new)
    if count > 1 and all(state is _QUEUED and draft.kind == kind for draft, state, _ in new):
        ready_list, ageing = writer.ready_list(kind), writer.settings.ageing
        writer.tx.execute(sql("add_states"), (first, first + count - 1, ready_list, now, ageing))
        writer.change_counts(None, ready_list, count)
        return
    rows = []
    for num, (draft, state, at) in enumerate(new, first):
        list_id = writer.ready_list(draft.kind) if state is _QUEUED else writer.list_of_state(state)
        rows.append((num, list_id, at, at))
        writer.change_counts(None, list_id)
    writer.tx.run_for_each(sql("add_state"), rows)
