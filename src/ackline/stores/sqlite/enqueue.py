"""Jobs into the store."""

from __future__ import annotations

from collections.abc import Sequence

from ackline.errors import KeysChanged, StoreFull
from ackline.events import Act, Entry
from ackline.job import NO_OPTIONS, Draft, QueueKey, State
from ackline.lifecycle import arrive, keeps_id
from ackline.stores.base import KeyWrite, Receipt
from ackline.stores.shared.records import encode_options
from ackline.stores.sqlite.drop import drop_jobs
from ackline.stores.sqlite.keys import write_keys
from ackline.stores.sqlite.lines import Lines, make_lines, state_in
from ackline.stores.sqlite.queries import sql
from ackline.stores.sqlite.rows import rows_by_ids
from ackline.stores.sqlite.transaction import Transaction

_QUEUED = State.QUEUED


class _Known:
    """A job that has the id of a draft; its state is None when its retention is over."""

    __slots__ = ("kind", "num", "slot", "state")

    def __init__(self, num: int, kind: str, slot: int, at: float, now: float) -> None:
        self.num = num
        self.kind = kind
        self.slot = slot
        state = state_in(slot)
        self.state = None if state.terminal and at <= now else state

    def stays(self, draft: Draft) -> bool:
        """Whether it keeps its id against this draft."""
        return self.state is not None and keeps_id(draft, self.state, self.kind)


def enqueue(
    tx: Transaction,
    queue: QueueKey,
    drafts: Sequence[Draft],
    now: float,
    keys: Sequence[KeyWrite] = (),
) -> list[Receipt]:
    """Insert the jobs that are not there yet, and write the keys that came with them."""
    lines = make_lines(tx, queue)
    if keys and not write_keys(tx, queue.tenant, keys):
        raise KeysChanged(str(queue))
    if not drafts:
        return []
    receipts = None
    if lines.settings.max_jobs is None and all(draft.surely_new for draft in drafts):
        receipts = _insert_blindly(lines, drafts, now)
    if receipts is None:
        receipts = _insert_checked(lines, drafts, now)
    lines.flush()
    return receipts


def _insert_blindly(lines: Lines, drafts: Sequence[Draft], now: float) -> list[Receipt] | None:
    first = lines.numbers.next_jobs(len(drafts))
    if not _add_jobs(lines, first, drafts, now):
        lines.tx.execute(sql("take_back_jobs"), (first, first + len(drafts) - 1))
        lines.numbers.job = first - 1
        return None
    states = _add_places(lines, first, drafts, now)
    return _report(lines, drafts, states, [None] * len(drafts), now)


def _insert_checked(lines: Lines, drafts: Sequence[Draft], now: float) -> list[Receipt]:
    known = _look_up(lines, drafts, now)
    fresh: dict[str, Draft] = {}
    for draft in drafts:
        there = known.get(draft.id)
        if there is None or not there.stays(draft):
            fresh.setdefault(draft.id, draft)
    if not fresh:
        return [_receipt_of(lines, draft, known[draft.id]) for draft in drafts]
    _require_room(lines, len(fresh))
    replaced = [there for id in fresh if (there := known.get(id)) is not None]
    drop_jobs(lines, [(there.num, there.slot) for there in replaced])
    new = list(fresh.values())
    first = lines.numbers.next_jobs(len(new))
    _add_jobs(lines, first, new, now)
    states = _add_places(lines, first, new, now)
    sources = [known[id].state if id in known else None for id in fresh]
    reported = iter(_report(lines, new, states, sources, now))
    receipts: list[Receipt] = []
    accepted: dict[str, State] = {}
    for draft in drafts:
        if draft.id in accepted:
            receipts.append(Receipt(draft.id, False, accepted[draft.id]))
        elif fresh.get(draft.id) is draft:
            receipts.append(next(reported))
            accepted[draft.id] = receipts[-1].state
        else:
            receipts.append(_receipt_of(lines, draft, known[draft.id]))
    return receipts


def _look_up(lines: Lines, drafts: Sequence[Draft], now: float) -> dict[str, _Known]:
    ids = [draft.id for draft in drafts]
    rows = rows_by_ids(lines.tx.execute, "known_ids", "known_id", lines.num, ids)
    return {id: _Known(num, kind, slot, at, now) for id, num, kind, slot, at in rows}


def _require_room(lines: Lines, new: int) -> None:
    limit = lines.settings.max_jobs
    if limit is None:
        return
    live = lines.tx.execute(sql("live_count"), (lines.num,)).fetchall()[0][0]
    if live + new > limit:
        raise StoreFull.of_queue(lines.key, limit)


def _add_jobs(lines: Lines, first: int, drafts: Sequence[Draft], now: float) -> bool:
    """Insert the jobs' bodies; False if an id was known already, or given twice."""
    queue, num = lines.num, first - 1
    rows = [
        (
            (num := num + 1),
            queue,
            draft.id,
            draft.kind,
            None,
            draft.priority,
            now,
            None,
            draft.payload,
        )
        if draft.options is NO_OPTIONS
        else (
            (num := num + 1),
            queue,
            draft.id,
            draft.kind,
            draft.options.group,
            draft.priority,
            now,
            encode_options(draft.options),
            draft.payload,
        )
        for draft in drafts
    ]
    before = lines.tx.connection.total_changes()
    lines.tx.executemany(sql("add_job"), rows)
    return lines.tx.connection.total_changes() - before == len(rows)


def _add_places(lines: Lines, first: int, drafts: Sequence[Draft], now: float) -> list[State]:
    kind = drafts[0].kind
    plain = len(drafts) > 1 and all(
        draft.kind == kind and draft.run_at is None and not draft.delay for draft in drafts
    )
    if not plain:
        return _add_mixed_places(lines, first, drafts, now)
    slot, count = lines.ready(kind), len(drafts)
    ageing = lines.settings.ageing
    lines.tx.execute(sql("add_places"), (first, first + count - 1, slot, now, ageing))
    lines.shift(None, slot, count)
    return [_QUEUED] * count


def _add_mixed_places(lines: Lines, first: int, drafts: Sequence[Draft], now: float) -> list[State]:
    scheduled, ageing = lines.slot(State.SCHEDULED), lines.settings.ageing
    rows, states = [], []
    for num, draft in enumerate(drafts, first):
        state, at = arrive(draft, now, ageing)
        slot = lines.ready(draft.kind) if state is _QUEUED else scheduled
        states.append(state)
        rows.append((num, slot, at, at))
        lines.shift(None, slot)
    lines.tx.executemany(sql("add_place"), rows)
    return states


def _report(
    lines: Lines,
    drafts: Sequence[Draft],
    states: Sequence[State],
    sources: Sequence[State | None],
    now: float,
) -> list[Receipt]:
    entries = [
        Entry(Act.ENQUEUE, draft.id, draft.kind, source, state, priority=draft.priority)
        for draft, source, state in zip(drafts, sources, states, strict=True)
    ]
    lines.write_journal(now, entries)
    lines.tx.wake(lines.key, "ready")
    return [Receipt(draft.id, True, state) for draft, state in zip(drafts, states, strict=True)]


def _receipt_of(lines: Lines, draft: Draft, there: _Known) -> Receipt:
    assert there.state is not None
    result = None
    if there.state is State.COMPLETED:
        rows = lines.tx.execute(sql("result_of"), (there.num,)).fetchall()
        result = rows[0][0] if rows else None
    return Receipt(draft.id, False, there.state, result)
