"""Insert jobs: new ones in one statement, others after a lookup of the existing jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ackline.core.errors import KeysChanged
from ackline.core.job import NO_OPTIONS, Draft, QueueKey, State
from ackline.core.lifecycle import rank
from ackline.stores.contract import KeyWrite, Receipt
from ackline.stores.postgres.engine import Engine
from ackline.stores.postgres.io.pipeline import ByteStrings, Floats, Ints
from ackline.stores.postgres.io.transaction import PendingRows, RetryTransaction, Transaction
from ackline.stores.postgres.job_rows import NewRows
from ackline.stores.postgres.key_values import write_keys
from ackline.stores.postgres.queue_cache import CachedQueue, decode_name
from ackline.stores.shared.enqueue import EnqueuePlan, plan_enqueue
from ackline.stores.shared.record_encoding import STATES_BY_CODE, encode_options

COMPACT_FROM = 200
"""A queue with `max_jobs` compacts its count changes when there are more than this."""

_QUEUED, _SCHEDULED = State.QUEUED, State.SCHEDULED


def enqueue(
    engine: Engine, queue: QueueKey, drafts: Sequence[Draft], keys: Sequence[KeyWrite] = ()
) -> list[Receipt]:
    """Insert the jobs that do not exist yet, and write the given keys with them."""
    cached = ensure_queue(engine, queue, {draft.kind for draft in drafts})
    if not drafts and not keys:
        return []
    plain = (
        not keys
        and cached.settings.max_jobs is None
        and all(draft.assume_new and draft.run_at is None for draft in drafts)
    )
    receipts = _insert_without_lookup(engine, cached, drafts) if plain else None
    if receipts is None:
        receipts = engine.write(
            lambda tx: insert_after_lookup(engine, tx, queue, drafts, keys), may_block=True
        )
    return receipts


def ensure_queue(engine: Engine, queue: QueueKey, kinds: set[str]) -> CachedQueue:
    """The queue, created with these kinds if needed, in a transaction of its own."""
    cached = engine.queues.cached(queue)
    if cached is None or cached.dropped or not kinds <= cached.kind_ids.keys():
        cached = engine.write(lambda tx: engine.queues.ensure(tx, queue, kinds))
    return cached


# --- new jobs ---


def _insert_without_lookup(
    engine: Engine, cached: CachedQueue, drafts: Sequence[Draft]
) -> list[Receipt] | None:
    """Insert in one statement; None if some jobs exist and have to be looked up first."""
    values = {"queue": cached.num, "version": cached.version, "ageing": cached.settings.ageing}
    if len(drafts) == 1:
        statement, values = "insert_one", values | _columns_of_one(cached, drafts[0])
    else:
        statement, values = "insert_new", values | _columns_of_new(cached, drafts)

    def insert(tx: Transaction) -> tuple[PendingRows, EnqueuePlan[_Existing]]:
        sent = tx.send(statement, values | {"now": tx.clock})
        # The server inserts them while the journal entries are encoded.
        tx.send_early(len(drafts))
        # The time does not matter: these drafts have delays, not times.
        plan = plan_enqueue(drafts, _NOTHING.get, _Existing.result_of, 0.0, 0.0)
        changes = tx.changes_of(cached.key, cached.num)
        changes.if_inserted = True
        changes.entries += plan.entries
        later = sum(state is _SCHEDULED for _, state, _ in plan.new)
        tx.change_counts(cached.num, None, _SCHEDULED, later)
        tx.change_counts(cached.num, None, _QUEUED, len(plan.new) - later)
        return sent, plan

    try:
        sent, plan = engine.write_once(insert)
    except RetryTransaction:
        return None
    rows = sent.fetchall()
    if not rows or rows[0][0] is None:
        return None
    now: float = rows[0][0]
    for kind_id, priority in {(cached.kind_ids[draft.kind], draft.priority) for draft in drafts}:
        cached.positions.step_back_to(
            kind_id, priority, (rank(now, priority, cached.settings.ageing), 0)
        )
    return plan.receipts


def _columns_of_one(cached: CachedQueue, draft: Draft) -> dict[str, Any]:
    options, group = draft.options, draft.options.group
    return {
        "id": draft.id.encode(),
        "kind": draft.kind.encode(),
        "group": None if group is None else group.encode(),
        "priority": draft.priority,
        "options": encode_options(options),
        "payload": draft.payload,
        "kind_id": cached.kind_ids[draft.kind],
        "delay": float(draft.delay),
    }


def _columns_of_new(cached: CachedQueue, drafts: Sequence[Draft]) -> dict[str, Any]:
    delays = [draft.delay for draft in drafts]
    return _columns(drafts) | {
        "kind_ids": Ints([cached.kind_ids[draft.kind] for draft in drafts]),
        # An empty array stands for NULLs only.
        "delays": Floats(delays if any(delays) else []),
    }


def _columns(drafts: Sequence[Draft]) -> dict[str, Any]:
    plain = all(draft.options is NO_OPTIONS for draft in drafts)
    groups: list[bytes | None] = []
    options: list[bytes | None] = []
    if not plain:
        # An empty array stands for NULLs only.
        options = [encode_options(draft.options) for draft in drafts]
        named = [draft.options.group for draft in drafts]
        groups = [None if group is None else group.encode() for group in named]
    return {
        "ids": ByteStrings([draft.id.encode() for draft in drafts]),
        "kinds": ByteStrings([draft.kind.encode() for draft in drafts]),
        "groups": ByteStrings(groups),
        "priorities": Ints([draft.priority for draft in drafts]),
        "options": ByteStrings(options),
        "payloads": ByteStrings([draft.payload for draft in drafts]),
    }


# --- after a lookup ---


class _Existing:
    """An existing job with the id of a draft."""

    __slots__ = ("kind", "num", "result", "state")

    def __init__(self, row: tuple[Any, ...], now: float) -> None:
        _, self.num, kind, code, at, result, queued = row
        self.kind = decode_name(kind)
        self.result: bytes | None = result
        self.state: State | None = State.PROCESSING
        if code is not None:
            state = STATES_BY_CODE[code]
            self.state = None if state.terminal and at <= now else state
        elif queued:
            self.state = _QUEUED

    def result_of(self) -> bytes | None:
        """The result of a completed job."""
        return self.result


_NOTHING: dict[str, _Existing] = {}


def insert_after_lookup(
    engine: Engine,
    tx: Transaction,
    queue: QueueKey,
    drafts: Sequence[Draft],
    keys: Sequence[KeyWrite] = (),
) -> list[Receipt]:
    """Insert the jobs that do not exist yet, after looking up those that do."""
    if keys and not write_keys(tx, queue.tenant, keys):
        raise KeysChanged(str(queue))
    cached = engine.queues.ensure(tx, queue, {draft.kind for draft in drafts})
    if cached.settings.max_jobs is not None and not tx.is_borrowed:
        tx.send("lock_capacity", {"queue": cached.num})
    existing = _find_existing(tx, cached, drafts)
    ageing = cached.settings.ageing
    plan = plan_enqueue(drafts, existing.get, _Existing.result_of, tx.now, ageing)
    if plan.new:
        if cached.settings.max_jobs is not None:
            plan.require_capacity(cached.key, cached.settings, _count_live(tx, cached))
        _drop_replaced(tx, cached, plan.replaced)
        _insert(tx, cached, plan.new)
        tx.changes_of(cached.key, cached.num).entries += plan.entries
    return plan.receipts


def _find_existing(
    tx: Transaction, cached: CachedQueue, drafts: Sequence[Draft]
) -> dict[str, _Existing]:
    ids = ByteStrings(list({draft.id.encode() for draft in drafts}))
    rows = tx.rows("find_existing", {"queue": cached.num, "ids": ids})
    return {row[0].decode(): _Existing(row, tx.now) for row in rows}


def _count_live(tx: Transaction, cached: CachedQueue) -> int:
    [(live, changes)] = tx.rows("live_count", {"queue": cached.num})
    if changes > COMPACT_FROM and not tx.is_borrowed:
        tx.send("compact_counts", {"queue": cached.num})
    return int(live)


def _drop_replaced(tx: Transaction, cached: CachedQueue, replaced: list[_Existing]) -> None:
    """Delete the jobs that are replaced; if one has changed meanwhile, start over."""
    if not replaced:
        return
    nums = sorted(there.num for there in replaced)
    locked: dict[int, int] = dict(
        tx.rows("lock_replaceable", {"queue": cached.num, "jobs": Ints(nums), "now": tx.now})
    )
    if sorted(locked) != nums:
        raise RetryTransaction
    tx.changes_of(cached.key, cached.num)
    for code in locked.values():
        tx.change_counts(cached.num, STATES_BY_CODE[code], None)
    tx.send("delete_jobs", {"jobs": Ints(nums)})


def _insert(tx: Transaction, cached: CachedQueue, new: list[tuple[Draft, State, float]]) -> None:
    columns = _columns([draft for draft, _, _ in new])
    rows = tx.rows("add_jobs", columns | {"queue": cached.num, "now": tx.now})
    if len(rows) != len(new):
        raise RetryTransaction
    nums = {id.decode(): num for id, num in rows}
    tx.changes_of(cached.key, cached.num)
    job_rows = NewRows(tx, cached)
    for draft, state, at in new:
        if state is _SCHEDULED:
            job_rows.inactive(nums[draft.id], state, at)
        else:
            job_rows.ready(nums[draft.id], draft.kind, draft.priority, at)
        tx.change_counts(cached.num, None, state)
    job_rows.write()
