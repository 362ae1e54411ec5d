"""Jobs into the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ackline.errors import KeysChanged, StoreFull
from ackline.events import Act, Entry
from ackline.job import NO_OPTIONS, Draft, QueueKey, State
from ackline.lifecycle import arrive, keeps_id, rank
from ackline.stores.base import KeyWrite, Receipt
from ackline.stores.postgres.engine import Engine
from ackline.stores.postgres.job_rows import Homes
from ackline.stores.postgres.keys import write_keys
from ackline.stores.postgres.pipeline import Blobs, Floats, Ints
from ackline.stores.postgres.queues import QueueEntry, name_of
from ackline.stores.postgres.transaction import Again, Sent, Transaction
from ackline.stores.shared.records import STATES, encode_options

FOLD_FROM = 200
"""A limited queue with more changes of its counts than this folds them into one."""

_QUEUED, _SCHEDULED = State.QUEUED, State.SCHEDULED


def enqueue(
    engine: Engine, queue: QueueKey, drafts: Sequence[Draft], keys: Sequence[KeyWrite] = ()
) -> list[Receipt]:
    """Insert the jobs that are not there yet, and write the keys that came with them."""
    entry = made(engine, queue, {draft.kind for draft in drafts})
    if not drafts and not keys:
        return []
    plain = (
        not keys
        and entry.settings.max_jobs is None
        and all(draft.surely_new and draft.run_at is None for draft in drafts)
    )
    receipts = _insert_blindly(engine, entry, drafts) if plain else None
    if receipts is None:
        receipts = engine.write(
            lambda tx: insert_checked(engine, tx, queue, drafts, keys), lingers=True
        )
    return receipts


def made(engine: Engine, queue: QueueKey, kinds: set[str]) -> QueueEntry:
    """The queue with lines for these kinds, in a transaction of its own if they are new."""
    entry = engine.queues.remembered(queue)
    if entry is None or entry.dropped or not kinds <= entry.lines.keys():
        entry = engine.write(lambda tx: engine.queues.make(tx, queue, kinds))
    return entry


# --- all new ---


def _insert_blindly(
    engine: Engine, entry: QueueEntry, drafts: Sequence[Draft]
) -> list[Receipt] | None:
    """Insert in one statement; None if existing jobs have to be looked up first."""
    states = [_SCHEDULED if draft.delay > 0 else _QUEUED for draft in drafts]
    later = states.count(_SCHEDULED)
    values = {"queue": entry.num, "version": entry.version, "ageing": entry.settings.ageing}
    if len(drafts) == 1:
        statement, values = "add_one", values | _columns_of_one(entry, drafts[0])
    else:
        statement, values = (
            "add_new",
            values
            | _columns(drafts)
            | {
                "lines": Ints([entry.lines[draft.kind] for draft in drafts]),
                "delays": Floats([draft.delay for draft in drafts] if later else []),
            },
        )

    def insert(tx: Transaction) -> Sent:
        sent = tx.send(statement, values | {"now": tx.clock})
        # The server inserts while we write the journal entries.
        tx.push(len(drafts))
        changes = tx.changes_of(entry.key, entry.num)
        changes.blind = True
        changes.entries += [
            Entry(Act.ENQUEUE, draft.id, draft.kind, None, state, priority=draft.priority)
            for draft, state in zip(drafts, states, strict=True)
        ]
        tx.shift(entry.num, None, _SCHEDULED, later)
        tx.shift(entry.num, None, _QUEUED, len(drafts) - later)
        tx.news.add(("ready", entry.key))
        return sent

    try:
        rows = engine.once(insert).fetchall()
    except Again:
        return None
    if not rows or rows[0][0] is None:
        return None
    now: float = rows[0][0]
    for line, priority in {(entry.lines[draft.kind], draft.priority) for draft in drafts}:
        entry.hints.lower(line, priority, (rank(now, priority, entry.settings.ageing), 0))
    return [Receipt(draft.id, True, state) for draft, state in zip(drafts, states, strict=True)]


def _columns_of_one(entry: QueueEntry, draft: Draft) -> dict[str, Any]:
    options, group = draft.options, draft.options.group
    return {
        "id": draft.id.encode(),
        "kind": draft.kind.encode(),
        "group": None if group is None else group.encode(),
        "priority": draft.priority,
        "options": encode_options(options),
        "payload": draft.payload,
        "line": entry.lines[draft.kind],
        "delay": float(draft.delay),
    }


def _columns(drafts: Sequence[Draft]) -> dict[str, Any]:
    plain = all(draft.options is NO_OPTIONS for draft in drafts)
    groups: list[bytes | None] = []
    options: list[bytes | None] = []
    if not plain:
        # If left out, all of them are NULL.
        options = [encode_options(draft.options) for draft in drafts]
        named = [draft.options.group for draft in drafts]
        groups = [None if group is None else group.encode() for group in named]
    return {
        "ids": Blobs([draft.id.encode() for draft in drafts]),
        "kinds": Blobs([draft.kind.encode() for draft in drafts]),
        "groups": Blobs(groups),
        "priorities": Ints([draft.priority for draft in drafts]),
        "options": Blobs(options),
        "payloads": Blobs([draft.payload for draft in drafts]),
    }


# --- after a look at existing jobs ---


class _Known:
    """A job that has the id of a draft; its state is None when its retention is over."""

    __slots__ = ("kind", "num", "result", "state", "stored")

    def __init__(self, row: tuple[Any, ...], now: float) -> None:
        _, self.num, kind, code, at, self.result, queued = row
        self.kind = name_of(kind)
        if code is None:
            # Neither waiting in line nor at rest: leased.
            self.stored = _QUEUED if queued else State.PROCESSING
        else:
            self.stored = STATES[code]
        over = self.stored.terminal and at <= now
        self.state: State | None = None if over else self.stored

    def stays(self, draft: Draft) -> bool:
        """Whether it keeps its id against this draft."""
        return self.state is not None and keeps_id(draft, self.state, self.kind)


def insert_checked(
    engine: Engine,
    tx: Transaction,
    queue: QueueKey,
    drafts: Sequence[Draft],
    keys: Sequence[KeyWrite] = (),
) -> list[Receipt]:
    """Insert the jobs that are not there yet, after looking up those that are."""
    if keys and not write_keys(tx, queue.tenant, keys):
        raise KeysChanged(str(queue))
    entry = engine.queues.make(tx, queue, {draft.kind for draft in drafts})
    if entry.settings.max_jobs is not None and not tx.callers:
        tx.send("lock_room", {"queue": entry.num})
    known = _look_up(tx, entry, drafts)
    fresh: dict[str, Draft] = {}
    for draft in drafts:
        there = known.get(draft.id)
        if there is None or not there.stays(draft):
            fresh.setdefault(draft.id, draft)
    states: dict[str, State] = {}
    if fresh:
        _require_room(tx, entry, len(fresh))
        _make_way(tx, entry, [known[id] for id in fresh if id in known])
        sources = {id: known[id].state if id in known else None for id in fresh}
        states = _insert(tx, entry, list(fresh.values()), sources)
    return _receipts(drafts, fresh, states, known)


def _look_up(tx: Transaction, entry: QueueEntry, drafts: Sequence[Draft]) -> dict[str, _Known]:
    ids = Blobs(list({draft.id.encode() for draft in drafts}))
    rows = tx.rows("known_jobs", {"queue": entry.num, "ids": ids})
    return {row[0].decode(): _Known(row, tx.now) for row in rows}


def _require_room(tx: Transaction, entry: QueueEntry, new: int) -> None:
    limit = entry.settings.max_jobs
    if limit is None:
        return
    [(live, changes)] = tx.rows("live_count", {"queue": entry.num})
    if changes > FOLD_FROM and not tx.callers:
        tx.send("fold", {"queue": entry.num})
    if live + new > limit:
        raise StoreFull.of_queue(entry.key, limit)


def _make_way(tx: Transaction, entry: QueueEntry, replaced: list[_Known]) -> None:
    """Drop the jobs that new ones replace; if they have changed meanwhile, start again."""
    if not replaced:
        return
    nums = sorted(there.num for there in replaced)
    locked: dict[int, int] = dict(
        tx.rows("lock_over", {"queue": entry.num, "jobs": Ints(nums), "now": tx.now})
    )
    if sorted(locked) != nums:
        raise Again
    tx.changes_of(entry.key, entry.num)
    for code in locked.values():
        tx.shift(entry.num, STATES[code], None)
    tx.send("drop_jobs", {"jobs": Ints(nums)})


def _insert(
    tx: Transaction, entry: QueueEntry, drafts: list[Draft], sources: dict[str, State | None]
) -> dict[str, State]:
    rows = tx.rows("add_jobs", _columns(drafts) | {"queue": entry.num, "now": tx.now})
    if len(rows) != len(drafts):
        raise Again
    nums = {id.decode(): num for id, num in rows}
    changes, homes, states = tx.changes_of(entry.key, entry.num), Homes(tx, entry), {}
    for draft in drafts:
        state, at = arrive(draft, tx.now, entry.settings.ageing)
        if state is _SCHEDULED:
            homes.rest(nums[draft.id], state, at)
        else:
            homes.ready(nums[draft.id], draft.kind, draft.priority, at)
        states[draft.id] = state
        tx.shift(entry.num, None, state)
        source = sources[draft.id]
        changes.entries.append(
            Entry(Act.ENQUEUE, draft.id, draft.kind, source, state, priority=draft.priority)
        )
    homes.write()
    tx.news.add(("ready", entry.key))
    return states


def _receipts(
    drafts: Sequence[Draft],
    fresh: dict[str, Draft],
    states: dict[str, State],
    known: dict[str, _Known],
) -> list[Receipt]:
    receipts, accepted = [], set[str]()
    for draft in drafts:
        if draft.id in accepted:
            receipts.append(Receipt(draft.id, False, states[draft.id]))
        elif fresh.get(draft.id) is draft:
            receipts.append(Receipt(draft.id, True, states[draft.id]))
            accepted.add(draft.id)
        else:
            there = known[draft.id]
            assert there.state is not None
            receipts.append(Receipt(draft.id, False, there.state, there.result))
    return receipts
