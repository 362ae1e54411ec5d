"""Reading jobs, queues, workers and the journal."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence

from ackline.core.events import Events, JournalBatch, make_cursor, read_cursor
from ackline.core.job import QueueKey, Record, State
from ackline.stores.contract import (
    Filter,
    NextDue,
    Page,
    QueueInfo,
    WorkerRecord,
    require_not_trimmed,
)
from ackline.stores.shared.byte_limit import ByteLimit
from ackline.stores.shared.journal_batches import unpack_entries
from ackline.stores.shared.paging import (
    SortKey,
    decode_page_cursor,
    read_page,
    sort_key,
    start_in_state,
)
from ackline.stores.shared.record_encoding import (
    DROPPED_QUEUE,
    STATES_BY_CODE,
    decode_heartbeat,
    decode_options,
    decode_settings,
)
from ackline.stores.shared.sql_files import statement_name
from ackline.stores.sqlite.io.connection import Execute
from ackline.stores.sqlite.io.transaction import Transaction
from ackline.stores.sqlite.rows import (
    PARKED,
    Row,
    iter_rows,
    list_of_state,
    merge_lists,
    record_of,
    records_of,
    size_of,
    state_of_list,
    without_data,
)
from ackline.stores.sqlite.sql import sql

_NUM, _ID, _KIND, _OPTIONS, _LIST, _AT = 0, 1, 2, 5, 7, 8

COUNT_ALL_FROM = 30
"""For more queues than this, the counts of all queues are read in one statement."""

MAX_BATCH_NUMBER = 2**40 - 1
"""No batch has a higher number than this, whatever a cursor says."""

_BITS = 24
_MAX_ENTRIES = (1 << _BITS) - 1
"""More entries than a batch can have in SQLite."""


def queue_number(execute: Execute, queue: QueueKey) -> int | None:
    """The number of a queue, if it exists."""
    rows = execute(sql("find_queue"), (queue.tenant, queue.name)).fetchall()
    return rows[0][0] if rows else None


def get(
    execute: Execute, queue: QueueKey, ids: Sequence[str], max_bytes: int | None, now: float
) -> list[Record | None]:
    """The jobs of these ids."""
    num = queue_number(execute, queue)
    if num is None:
        return [None] * len(ids)
    budget = ByteLimit(max_bytes)
    rows = iter_rows(execute, "read_jobs", "read_job", num, ids)
    if max_bytes is not None:
        rows = budget.limit(rows, lambda row: size_of(execute, row))
    found_rows = list(rows)
    if budget.reached:
        ids = ids[: ids.index(found_rows[-1][_ID]) + 1]
    kept = [row for row in found_rows if not _past_retention(row, now)]
    found = {record.id: record for record in records_of(execute, kept)}
    return [found.get(id) for id in ids]


def _past_retention(row: Row, now: float) -> bool:
    return state_of_list(row[_LIST]).terminal and row[_AT] <= now


def leases(
    execute: Execute, queue: QueueKey, worker: str | None, limit: int, now: float
) -> list[Record]:
    """The leased jobs whose lease has lapsed, or all leased by one worker."""
    num = queue_number(execute, queue)
    if num is None:
        return []
    list_id = list_of_state(num, State.PROCESSING)
    if worker is None:
        rows = execute(sql("lapsed"), (list_id, now, limit))
    else:
        rows = execute(sql("leases_of_worker"), (list_id, worker, limit))
    return [record_of(row) for row in rows]


def next_due(execute: Execute, queue: QueueKey) -> NextDue:
    """When the next job is due, and when the next lease ends."""
    num = queue_number(execute, queue)
    if num is None:
        return NextDue(None, None)
    scheduled, failing, lease = next_times(execute, num)
    return NextDue(min((at for at in (scheduled, failing) if at is not None), default=None), lease)


def next_times(execute: Execute, queue: int) -> tuple[float | None, float | None, float | None]:
    """The times of the first scheduled, the first failing and the first leased job, if any."""
    list_ids = [
        list_of_state(queue, state) for state in (State.SCHEDULED, State.FAILING, State.PROCESSING)
    ]
    scheduled, failing, leased = execute(sql("next_times"), list_ids).fetchall()[0]
    return scheduled, failing, leased


# --- pages ---


def page(
    execute: Execute,
    queue: QueueKey,
    job_filter: Filter,
    cursor: str | None,
    limit: int,
    newest_first: bool,
    max_bytes: int,
    now: float,
) -> Page:
    """One page of the matching jobs."""
    num = queue_number(execute, queue)
    if num is None:
        return Page([], None)
    after = decode_page_cursor(cursor, newest_first)
    listed = matching(execute, num, job_filter, after, newest_first)
    rows = (row for row in listed if not _past_retention(row, now))
    shown, end = read_page(
        rows,
        limit,
        max_bytes,
        lambda row: size_of(execute, row),
        lambda row: _sort_key(row, newest_first),
    )
    return Page(records_of(execute, shown), end)


def matching(
    execute: Execute,
    queue: int,
    job_filter: Filter,
    after: SortKey | None = None,
    newest_first: bool = False,
) -> Iterator[Row]:
    """Rows of the matching jobs, by state, then in the order of their list."""
    if job_filter.ids is not None:
        found = bare_rows_of(execute, queue, job_filter, after, newest_first)
        read_job = sql("read_job")
        return (row for bare in found for row in execute(read_job, (queue, bare[_ID])).fetchall())
    rows: Iterator[Row] = itertools.chain.from_iterable(
        _in_state(execute, queue, state, job_filter, after, newest_first)
        for state in STATES_BY_CODE
        if state in job_filter.states
    )
    if job_filter.tags is not None:
        rows = (row for row in rows if job_filter.matches_tags(decode_options(row[_OPTIONS])))
    return (row for row in rows if job_filter.kinds is None or row[_KIND] in job_filter.kinds)


def find_ids(execute: Execute, queue: QueueKey, job_filter: Filter, limit: int) -> frozenset[str]:
    """The ids of the first matching jobs."""
    num = queue_number(execute, queue)
    rows = iter(()) if num is None else matching(execute, num, job_filter)
    return frozenset(row[_ID] for row in itertools.islice(rows, max(limit, 0)))


def bare_rows_of(
    execute: Execute,
    queue: int,
    job_filter: Filter,
    after: SortKey | None = None,
    newest_first: bool = False,
) -> list[Row]:
    """Rows of the matching jobs of a filter with ids, without payload, progress and result."""

    def sort_key_of(row: Row) -> SortKey:
        return _sort_key(row, newest_first)

    rows = iter_rows(execute, "read_jobs", "read_job", queue, list(job_filter.ids or ()))
    found = (
        without_data(row)
        for row in rows
        if (after is None or sort_key_of(row) > after) and job_filter.matches(record_of(row))
    )
    return sorted(found, key=sort_key_of)


def _in_state(
    execute: Execute,
    queue: int,
    state: State,
    job_filter: Filter,
    after: SortKey | None,
    newest_first: bool,
) -> Iterator[Row]:
    start = start_in_state(after, state, newest_first)
    if start is None:
        return iter(())
    text = None if job_filter.text is None else job_filter.text.encode()
    conditions = (*start, job_filter.created_after, job_filter.created_before, text)
    query = sql(
        statement_name("list_leased" if state is State.PROCESSING else "list_jobs", newest_first)
    )
    if state is not State.QUEUED:
        return iter(execute(query, (list_of_state(queue, state), *conditions)))
    heads = [
        (sort_key(state, at, job, newest_first), list_id)
        for at, job, list_id, kind in execute(
            sql(statement_name("list_heads", newest_first)), (queue, *start)
        )
        if job_filter.kinds is None or kind in job_filter.kinds
    ]
    return merge_lists(
        heads,
        read=lambda list_id: iter(execute(query, (list_id, *conditions))),
        sort_key=lambda row: _sort_key(row, newest_first),
    )


def _sort_key(row: Row, newest_first: bool) -> SortKey:
    return sort_key(state_of_list(row[_LIST]), row[_AT], row[_NUM], newest_first)


# --- queues, workers, journal ---


def describe(
    execute: Execute, tenant: str | None, name: str | None, include_dropped: bool
) -> list[QueueInfo]:
    """Queues with their settings and counts."""
    rows = execute(sql("queues"), (tenant, name)).fetchall()
    counts = _counts(execute, [num for num, *_ in rows])
    return [
        QueueInfo(
            key=QueueKey(owner, queue_name), settings=decode_settings(settings), counts=counts[num]
        )
        for num, owner, queue_name, settings in rows
        if include_dropped or settings != DROPPED_QUEUE
    ]


def _counts(execute: Execute, queues: Sequence[int]) -> dict[int, dict[State, int]]:
    counts = {queue: dict.fromkeys(STATES_BY_CODE, 0) for queue in queues}
    rows: Iterable[Row]
    if len(queues) > COUNT_ALL_FROM:
        rows = execute(sql("all_counts"))
    else:
        rows = (row for queue in queues for row in execute(sql("counts"), (queue,)).fetchall())
    for queue, code, count in rows:
        if queue in counts and code < len(STATES_BY_CODE):
            counts[queue][STATES_BY_CODE[code]] += count
        elif queue in counts and code == PARKED:
            counts[queue][State.QUEUED] += count
    return counts


def workers(execute: Execute, queue: QueueKey) -> list[WorkerRecord]:
    """Workers with the number of their leases."""
    num = queue_number(execute, queue)
    if num is None:
        return []
    rows = execute(sql("workers"), (num,)).fetchall()
    list_id = list_of_state(num, State.PROCESSING)
    leases = dict(execute(sql("leases_by_worker"), (list_id,)).fetchall()) if rows else {}
    return [
        WorkerRecord(
            heartbeat=decode_heartbeat(heartbeat),
            last_heartbeat_at=last_heartbeat,
            expires_at=expires,
            leases=leases.get(id, 0),
        )
        for id, heartbeat, last_heartbeat, expires in rows
    ]


def journal_end(execute: Execute) -> str:
    """The cursor at the end of the journal."""
    return make_cursor(execute(sql("last_batch")).fetchall()[0][0] + 1, 0)


def events(
    execute: Execute, queue: QueueKey | None, after: str | None, limit: int, tenant: str | None
) -> Events:
    """The events after a cursor."""
    batch, used = read_cursor(after)
    batch = min(batch, MAX_BATCH_NUMBER)
    num = None if queue is None else queue_number(execute, queue)
    if queue is not None and num is None:
        return Events([])
    require_not_trimmed(queue, after, last_trimmed(execute, num, tenant))
    if num is not None:
        heads = [(batch, num)]
    elif tenant is not None:
        heads = execute(sql("tenant_heads"), (batch, tenant)).fetchall()
    else:
        heads = execute(sql("all_heads"), (batch,)).fetchall()
    rows = merge_lists(
        [((head,), num) for head, num in heads],
        lambda num: execute(sql("read_queue"), (num, batch)),
        lambda row: (row[0],),
    )

    @functools.cache
    def key_of(num: int) -> QueueKey:
        [(tenant, name)] = execute(sql("queue_name"), (num,))
        return QueueKey(tenant, name)

    batches = (
        JournalBatch(number, at, key_of(num), unpack_entries(entries))
        for number, num, at, entries in rows
    )
    return Events.up_to_limit(batches, (batch, used), limit)


def record_trimmed(tx: Transaction, queue: int, last: tuple[int, int]) -> None:
    """Record the last trimmed batch and the number of its entries."""
    batch, size = last
    tx.execute(sql("set_trimmed"), (queue, batch << _BITS | min(size, _MAX_ENTRIES)))


def last_trimmed(execute: Execute, queue: int | None, tenant: str | None = None) -> tuple[int, int]:
    """The last trimmed batch of a queue, and how many entries it had.

    Without a queue: the last one of any queue, or of any queue of a tenant.
    """
    if queue is None and tenant is not None:
        rows = execute(sql("trimmed_of_tenant"), (tenant,)).fetchall()
    elif queue is None:
        rows = execute(sql("trimmed_of_any")).fetchall()
    else:
        rows = execute(sql("trimmed_of"), (queue,)).fetchall()
    packed = rows[0][0] or 0 if rows else 0
    return packed >> _BITS, packed & _MAX_ENTRIES
