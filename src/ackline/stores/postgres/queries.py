"""Read jobs, queues and workers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from ackline.core.job import Failure, QueueKey, Record, State
from ackline.stores.contract import (
    MAX_ANSWER_BYTES,
    Filter,
    NextDue,
    Page,
    QueueInfo,
    WorkerRecord,
)
from ackline.stores.postgres.io.pipeline import ByteStrings, Ints, Row
from ackline.stores.postgres.io.transaction import Transaction
from ackline.stores.postgres.job_rows import leased_record, record_of
from ackline.stores.postgres.queue_cache import CachedQueue, QueueCache, decode_queue
from ackline.stores.shared.byte_limit import ByteLimit
from ackline.stores.shared.paging import (
    SortKey,
    decode_page_cursor,
    finish_page,
    sort_key,
    start_in_state,
)
from ackline.stores.shared.record_encoding import (
    DROPPED_QUEUE,
    STATE_CODES,
    STATES_BY_CODE,
    decode_failure,
    decode_heartbeat,
    decode_options,
    decode_settings,
)
from ackline.stores.shared.sql_files import statement_name

_NUM, _ID, _OPTIONS, _STATE, _AT, _BYTES = 0, 1, 5, 7, 8, 17
_LEASED = STATE_CODES[State.PROCESSING]


def get(
    tx: Transaction,
    queues: QueueCache,
    queue: QueueKey,
    ids: Sequence[str],
    max_bytes: int | None,
) -> list[Record | None]:
    """The jobs of these ids."""
    cached = queues.find(tx, queue)
    if cached is None:
        return [None] * len(ids)
    current, count = _read_rows(tx, cached, ids, max_bytes)
    rows = [row for row in current if not _past_retention(row, tx.now)]
    found = {record.id: record for record in _records(tx, rows)}
    return [found.get(id) for id in ids[:count]]


def read_rows(tx: Transaction, cached: CachedQueue, ids: Sequence[str]) -> Iterator[Row]:
    """The rows of the jobs of these ids, read in parts of limited size."""
    while ids:
        rows, count = _read_rows(tx, cached, ids, MAX_ANSWER_BYTES)
        yield from rows
        ids = ids[count:]


def _read_rows(
    tx: Transaction, cached: CachedQueue, ids: Sequence[str], max_bytes: int | None
) -> tuple[list[Row], int]:
    """The rows of the first of these ids, and how many ids that are."""
    encoded = ByteStrings([id.encode() for id in dict.fromkeys(ids)])
    most = ByteLimit(max_bytes).remaining
    rows = tx.rows("read_jobs", {"queue": cached.num, "ids": encoded, "max_bytes": most})
    count = len(ids)
    if most is not None and rows and rows[-1][_BYTES] >= most:
        count = ids.index(rows[-1][_ID].decode()) + 1
    return _with_leases(tx, cached, rows), count


def _with_leases(tx: Transaction, cached: CachedQueue, rows: list[Row]) -> list[Row]:
    without_table = [row[_NUM] for row in rows if row[_STATE] is None]
    if not without_table:
        return rows
    values = {"queue": cached.num, "jobs": Ints(without_table)}
    leased = {row[0]: row[1:] for row in tx.rows("leases_of_jobs", values)}
    return [
        row if row[_STATE] is not None else _with_lease(row, leased[row[_NUM]])
        for row in rows
        # A job in no table was deleted meanwhile.
        if row[_STATE] is not None or row[_NUM] in leased
    ]


def _with_lease(row: Row, lease: Row) -> Row:
    deadline, attempts, token, worker, started, cancel, progress = lease
    state = (_LEASED, deadline, attempts, token, worker, started, None, cancel, progress, None)
    return (*row[:_STATE], *state, row[_BYTES])


def _past_retention(row: Row, now: float) -> bool:
    return STATES_BY_CODE[row[_STATE]].terminal and row[_AT] <= now


def _records(tx: Transaction, rows: Sequence[Row]) -> list[Record]:
    """Rows as records, with their failed attempts."""
    history: dict[int, list[Failure]] = {}
    if rows:
        nums = Ints([row[_NUM] for row in rows])
        for num, failure in tx.rows("attempts_of", {"jobs": nums}):
            history.setdefault(num, []).append(decode_failure(failure))
    return [record_of(row, tuple(history.get(row[_NUM], ()))) for row in rows]


def leases(
    tx: Transaction, queues: QueueCache, queue: QueueKey, worker: str | None, limit: int
) -> list[Record]:
    """Jobs whose leases have lapsed, or all leased jobs of one worker."""
    cached = queues.find(tx, queue)
    if cached is None:
        return []
    values: dict[str, Any] = {"queue": cached.num, "limit": limit}
    if worker is None:
        rows = tx.rows("lapsed", values | {"now": tx.now})
    else:
        rows = tx.rows("leases_of_worker", values | {"worker": worker.encode()})
    return [leased_record(row) for row in rows]


# --- pages ---


def page(
    tx: Transaction,
    queues: QueueCache,
    queue: QueueKey,
    which: Filter,
    cursor: str | None,
    limit: int,
    newest_first: bool,
    max_bytes: int,
) -> Page:
    """One page of the jobs that match."""
    cached = queues.find(tx, queue)
    if cached is None:
        return Page([], None)
    after = decode_page_cursor(cursor, newest_first)
    found, more = _matching(tx, cached, which, limit + 1, after, newest_first, max_bytes, tx.now)
    shown, end = finish_page(found, limit, more, lambda row: _sort_key(row, newest_first))
    return Page(_records(tx, shown), end)


def find_ids(tx: Transaction, cached: CachedQueue, which: Filter, limit: int) -> list[str]:
    """The ids of the first jobs that match, including those past their retention."""
    ids, after, more = list[str](), None, True
    while more and len(ids) < limit:
        left = limit - len(ids)
        rows, more = _matching(tx, cached, which, left, after, False, MAX_ANSWER_BYTES, -math.inf)
        ids += [row[_ID].decode() for row in rows]
        after = _sort_key(rows[-1], newest_first=False) if rows else None
    return ids


def _matching(
    tx: Transaction,
    cached: CachedQueue,
    which: Filter,
    limit: int,
    after: SortKey | None,
    newest_first: bool,
    max_bytes: int,
    now: float,
) -> tuple[list[Row], bool]:
    """The rows of the first jobs that match, sorted by state, then as in the list of the state.

    Jobs past their retention at `now` are left out. Also returns whether the limit of bytes was
    reached.
    """
    if which.ids is not None:
        return _of_ids(tx, cached, which, limit, after, newest_first, max_bytes, now)
    found, budget = list[Row](), ByteLimit(max_bytes)
    for state in STATES_BY_CODE:
        start = after
        while state in which.states and len(found) < limit and not budget.reached:
            most = limit - len(found), budget.remaining
            rows = _in_state(tx, cached, state, which, *most, start, newest_first, now)
            # The statement also finds jobs that have the tag as a part of another option.
            matching = [row for row in rows if _has_tags(which, row)]
            budget.add(matching[-1][_BYTES] if matching else 0)
            found += matching
            if len(matching) == len(rows):
                break
            start = _sort_key(rows[-1], newest_first)
    return found, budget.reached


def _has_tags(which: Filter, row: Row) -> bool:
    return which.tags is None or which.matches_tags(decode_options(row[_OPTIONS]))


def _of_ids(
    tx: Transaction,
    cached: CachedQueue,
    which: Filter,
    limit: int,
    after: SortKey | None,
    newest_first: bool,
    max_bytes: int,
    now: float,
) -> tuple[list[Row], bool]:
    """Read all to sort them, but keep only their keys; then read the wanted ones again."""
    sorted_ids = sorted(
        (_sort_key(row, newest_first), row[_ID].decode())
        for row in read_rows(tx, cached, sorted(which.ids or ()))
        if which.matches(record_of(row)) and not _past_retention(row, now)
    )
    following = [id for key, id in sorted_ids if after is None or key > after][: max(limit, 0)]
    rows, count = _read_rows(tx, cached, following, max_bytes)
    return rows, count < len(following)


def _in_state(
    tx: Transaction,
    cached: CachedQueue,
    state: State,
    which: Filter,
    limit: int,
    max_bytes: int | None,
    after: SortKey | None,
    newest_first: bool,
    now: float,
) -> list[Row]:
    start = start_in_state(after, state, newest_first)
    if start is None:
        return []
    at, num = start
    kinds = None if which.kinds is None else ByteStrings([kind.encode() for kind in which.kinds])
    values: dict[str, Any] = {
        "queue": cached.num,
        "at": at,
        "after": num,
        "kinds": kinds,
        "created_after": which.created_after,
        "created_before": which.created_before,
        "text": None if which.text is None else which.text.encode(),
        "tag": max(which.tags, key=len).encode() if which.tags else None,
        "limit": limit,
        "max_bytes": max_bytes,
    }
    if state is State.QUEUED:
        return tx.rows(statement_name("list_queued", newest_first), values)
    if state is State.PROCESSING:
        return tx.rows(statement_name("list_leased", newest_first), values)
    values |= {"state": STATE_CODES[state], "now": now}
    return tx.rows(statement_name("list_inactive", newest_first), values)


def _sort_key(row: Row, newest_first: bool) -> SortKey:
    return sort_key(STATES_BY_CODE[row[_STATE]], row[_AT], row[_NUM], newest_first)


# --- queues and workers ---


def describe(
    tx: Transaction, tenant: str | None, name: str | None, dropped: bool
) -> tuple[list[QueueInfo], list[int]]:
    """Queues with their counts, and the numbers of those whose counts should be compacted."""
    values = {
        "tenant": None if tenant is None else tenant.encode(),
        "name": None if name is None else name.encode(),
    }
    rows = tx.rows("queues", values)
    sums = {row[0]: row for row in tx.rows("counts", {"queues": Ints([row[0] for row in rows])})}
    infos = []
    for num, owner, title, settings in rows:
        row = sums.get(num, (num, *[0] * len(STATES_BY_CODE)))
        counts = dict(zip(STATES_BY_CODE, row[1 : len(STATES_BY_CODE) + 1], strict=True))
        if settings == DROPPED_QUEUE and not dropped and not any(counts.values()):
            continue
        infos.append(
            QueueInfo(
                key=decode_queue(owner, title), settings=decode_settings(settings), counts=counts
            )
        )
    to_compact = [row[0] for row in sums.values() if row[-1] > COMPACT_FROM]
    return sorted(infos, key=lambda info: info.key), to_compact


COMPACT_FROM = 500
"""A queue with more count changes than this should be compacted."""


def now(tx: Transaction) -> float:
    """The time of the server, or of the clock given for tests."""
    [(time,)] = tx.rows("now", {"now": tx.clock})
    return float(time)


def next_due(tx: Transaction, queues: Sequence[QueueKey]) -> list[NextDue]:
    """For each queue, when its next job is due and its next lease ends."""
    rows = tx.rows("next_due", _named(queues))
    return [NextDue(*row) for row in rows]


def workers(tx: Transaction, queues: Sequence[QueueKey]) -> list[list[WorkerRecord]]:
    """For each queue, its workers with the number of jobs that each has leased."""
    found: list[list[WorkerRecord]] = [[] for _ in queues]
    for n, heartbeat, last_heartbeat, expires, lease_count in tx.rows("workers", _named(queues)):
        record = WorkerRecord(
            heartbeat=decode_heartbeat(heartbeat),
            last_heartbeat_at=last_heartbeat,
            expires_at=expires,
            leases=lease_count,
        )
        found[n - 1].append(record)
    return [sorted(records, key=lambda worker: worker.heartbeat.id) for records in found]


def _named(queues: Sequence[QueueKey]) -> dict[str, Any]:
    return {
        "tenants": ByteStrings([queue.tenant.encode() for queue in queues]),
        "names": ByteStrings([queue.name.encode() for queue in queues]),
    }
