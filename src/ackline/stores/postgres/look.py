"""Looking at jobs, queues and workers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ackline.job import Failure, QueueKey, Record, State
from ackline.stores.base import (
    Filter,
    Page,
    Place,
    QueueInfo,
    WorkerRecord,
    place_in,
    read_place,
    start_after,
)
from ackline.stores.postgres.arrays import Blobs, Ints
from ackline.stores.postgres.codes import (
    CODE,
    DROPPED,
    STATES,
    decode_beat,
    decode_failure,
    decode_settings,
    queue_of,
)
from ackline.stores.postgres.exchange import Row
from ackline.stores.postgres.queues import QueueEntry, Queues
from ackline.stores.postgres.rows import leased_record, record_of
from ackline.stores.postgres.transaction import Transaction
from ackline.stores.statements import in_order

_NUM, _ID, _STATE, _AT = 0, 1, 7, 8
_LEASED = CODE[State.PROCESSING]


def get(
    tx: Transaction, queues: Queues, queue: QueueKey, ids: Sequence[str]
) -> list[Record | None]:
    """The jobs of these ids."""
    entry = queues.begin(tx, queue)
    if entry is None:
        return [None] * len(ids)
    rows = [row for row in look_up(tx, entry, ids) if not _over(row, tx.now)]
    found = {record.id: record for record in _records(tx, rows)}
    return [found.get(id) for id in ids]


def look_up(tx: Transaction, entry: QueueEntry, ids: Sequence[str]) -> list[Row]:
    """Rows of the jobs of these ids, as they stand now."""
    encoded = Blobs([id.encode() for id in set(ids)])
    rows = tx.rows("look_up", {"queue": entry.num, "ids": encoded})
    homeless = [row[_NUM] for row in rows if row[_STATE] is None]
    if not homeless:
        return rows
    values = {"queue": entry.num, "jobs": Ints(homeless)}
    leased = {row[0]: row[1:] for row in tx.rows("open_leases", values)}
    return [
        row if row[_STATE] is not None else _with_lease(row, leased[row[_NUM]])
        for row in rows
        # A job without a home is just gone.
        if row[_STATE] is not None or row[_NUM] in leased
    ]


def _with_lease(row: Row, lease: Row) -> Row:
    deadline, attempts, token, worker, started, asked, progress = lease
    state = (_LEASED, deadline, attempts, token, worker, started, None, asked, progress, None)
    return row[:_STATE] + state


def _over(row: Row, now: float) -> bool:
    return STATES[row[_STATE]].terminal and row[_AT] <= now


def _records(tx: Transaction, rows: Sequence[Row]) -> list[Record]:
    """Rows as records, each with its ended attempts."""
    history: dict[int, list[Failure]] = {}
    if rows:
        nums = Ints([row[_NUM] for row in rows])
        for num, failure in tx.rows("attempts_of", {"jobs": nums}):
            history.setdefault(num, []).append(decode_failure(failure))
    return [record_of(row, tuple(history.get(row[_NUM], ()))) for row in rows]


def leases(
    tx: Transaction, queues: Queues, queue: QueueKey, worker: str | None, limit: int
) -> list[Record]:
    """Leased jobs that have lapsed, or all of one worker."""
    entry = queues.begin(tx, queue)
    if entry is None:
        return []
    values: dict[str, Any] = {"queue": entry.num, "limit": limit}
    if worker is None:
        rows = tx.rows("lapsed", values | {"now": tx.now})
    else:
        rows = tx.rows("held", values | {"worker": worker.encode()})
    return [leased_record(row) for row in rows]


# --- pages ---


def page(
    tx: Transaction,
    queues: Queues,
    queue: QueueKey,
    which: Filter,
    cursor: str | None,
    limit: int,
    newest_first: bool,
) -> Page:
    """One page of the jobs that match."""
    entry = queues.begin(tx, queue)
    if entry is None:
        return Page([], None)
    after = read_place(cursor, newest_first)
    found = matching(tx, entry, which, limit + 1, after, newest_first, tx.now)
    shown = found[:limit]
    last = None
    if len(found) > limit and shown:
        last = msgspec.json.encode(_place(shown[-1], newest_first)).decode()
    return Page(_records(tx, shown), last)


def matching(
    tx: Transaction,
    entry: QueueEntry,
    which: Filter,
    limit: int,
    after: Place | None = None,
    newest_first: bool = False,
    now: float = -math.inf,
) -> list[Row]:
    """The first rows of jobs that match, by state, then in the order of their line.

    Given a time, without the jobs whose retention is over by then.
    """
    if which.ids is not None:
        rows = _of_ids(tx, entry, which, after, newest_first)
        return [row for row in rows if not _over(row, now)][: max(limit, 0)]
    found: list[Row] = []
    for state in STATES:
        if state in which.states and len(found) < limit:
            left = limit - len(found)
            found += _in_state(tx, entry, state, which, left, after, newest_first, now)
    return found


def _of_ids(
    tx: Transaction, entry: QueueEntry, which: Filter, after: Place | None, newest_first: bool
) -> list[Row]:
    rows = [(_place(row, newest_first), row) for row in look_up(tx, entry, sorted(which.ids or ()))]
    return [
        row
        for place, row in sorted(rows, key=lambda pair: pair[0])
        if (after is None or place > after) and which.matches(record_of(row))
    ]


def _in_state(
    tx: Transaction,
    entry: QueueEntry,
    state: State,
    which: Filter,
    limit: int,
    after: Place | None,
    newest_first: bool,
    now: float,
) -> Iterator[Row]:
    code = CODE[state]
    if after is not None and code < after[0]:
        return iter(())
    at, num = start_after(after, code, newest_first)
    kinds = None if which.kinds is None else Blobs([kind.encode() for kind in which.kinds])
    values: dict[str, Any] = {
        "queue": entry.num,
        "at": at,
        "after": num,
        "kinds": kinds,
        "created_after": which.created_after,
        "created_before": which.created_before,
        "text": None if which.text is None else which.text.encode(),
        "limit": limit,
    }
    if state is State.QUEUED:
        return iter(tx.rows(in_order("list_queued", newest_first), values))
    if state is State.PROCESSING:
        return iter(tx.rows(in_order("list_leased", newest_first), values))
    values |= {"state": code, "now": now}
    return iter(tx.rows(in_order("list_rest", newest_first), values))


def _place(row: Row, newest_first: bool) -> Place:
    # A lease's deadline moves with each heartbeat, so leased jobs are listed by age instead.
    code = row[_STATE]
    return place_in(code, 0.0 if code == _LEASED else row[_AT], row[_NUM], newest_first)


# --- queues and workers ---


def describe(
    tx: Transaction, tenant: str | None, name: str | None, dropped: bool
) -> tuple[list[QueueInfo], list[int]]:
    """Queues with their counts, and the numbers of those whose counts should be folded."""
    values = {
        "tenant": None if tenant is None else tenant.encode(),
        "name": None if name is None else name.encode(),
    }
    rows = tx.rows("queues", values)
    sums = {row[0]: row for row in tx.rows("counts", {"queues": Ints([row[0] for row in rows])})}
    infos = []
    for num, owner, title, settings in rows:
        sum_ = sums.get(num, (num, *[0] * len(STATES)))
        counts = dict(zip(STATES, sum_[1 : len(STATES) + 1], strict=True))
        if settings == DROPPED and not dropped and not any(counts.values()):
            continue
        infos.append(
            QueueInfo(key=queue_of(owner, title), settings=decode_settings(settings), counts=counts)
        )
    to_fold = [row[0] for row in sums.values() if row[-1] > FOLD_FROM]
    return sorted(infos, key=lambda info: info.key), to_fold


FOLD_FROM = 500
"""A queue with more changes of its counts than this should have them folded into one."""


def workers(tx: Transaction, queues: Queues, queue: QueueKey) -> list[WorkerRecord]:
    """Workers with the number of jobs that each holds."""
    entry = queues.begin(tx, queue)
    if entry is None:
        return []
    records = [
        WorkerRecord(beat=decode_beat(beat), seen_at=seen, expires_at=expires, holds=holds)
        for beat, seen, expires, holds in tx.rows("workers", {"queue": entry.num})
    ]
    return sorted(records, key=lambda worker: worker.beat.id)
