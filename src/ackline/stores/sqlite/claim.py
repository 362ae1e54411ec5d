"""Claims, promotion of due jobs, lapsed leases and heartbeats."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from ackline.core.events import Act, Entry
from ackline.core.job import QueueKey, Record, State
from ackline.core.lifecycle import Transition, Verdict, rank
from ackline.stores.contract import (
    ClaimRequest,
    ClaimResult,
    Heartbeat,
    HeartbeatReply,
    LeaseExtension,
)
from ackline.stores.shared.byte_limit import ByteLimit
from ackline.stores.shared.heartbeat import JobLease, plan_heartbeat
from ackline.stores.shared.record_encoding import decode_options, encode_heartbeat
from ackline.stores.sqlite.apply import AT, CANCEL_REQUESTED, ID, LIST, TOKEN, apply
from ackline.stores.sqlite.io.transaction import Transaction
from ackline.stores.sqlite.queries import next_times
from ackline.stores.sqlite.queue_writer import QueueWriter, ensure_queue, find_queue
from ackline.stores.sqlite.rows import Row, int_array, merge_lists, record_of, rows_by_ids
from ackline.stores.sqlite.sql import sql

_CLAIM, _QUEUED, _PROCESSING = Act.CLAIM, State.QUEUED, State.PROCESSING
_NUM, _KIND, _PAYLOAD, _OPTIONS, _GROUP = 1, 3, 4, 6, 8
"""Columns of a row of `read_list`."""
ListHead = tuple[tuple[float, int], int]
"""The position of the first job of a list, and the number of the list."""
PARK_LIMIT = 5000
"""The most jobs of full groups that one transaction parks, so that other writers need not wait."""

_num_of, _kind_of, _options_of = itemgetter(_NUM), itemgetter(_KIND), itemgetter(_OPTIONS)
_position_of = itemgetter(0, 1)


def claim(
    tx: Transaction,
    queue: QueueKey,
    request: ClaimRequest,
    transitions: Sequence[Transition],
    now: float,
) -> tuple[ClaimResult, bool]:
    """Apply the transitions, promote due jobs, lease the next jobs, report lapsed leases.

    Also returns whether it has to be called again, because it only met jobs of full groups so far.
    """
    writer = find_queue(tx, queue)
    if writer is None:
        verdicts = [Verdict(False, None)] * len(transitions)
        return ClaimResult(jobs=[], verdicts=verdicts, now=now), False
    verdicts = apply(writer, transitions, now) if transitions else []
    jobs, park_limit_reached, byte_limit = list[Record](), False, ByteLimit(request.max_bytes)
    if not writer.settings.paused:
        promote(writer, now, writer.settings.repair_limit)
        jobs, park_limit_reached = _lease_next(writer, request, byte_limit, now)
        writer.write_counts()
        stopped_early = park_limit_reached or byte_limit.reached or len(jobs) >= request.limit
        if stopped_early and _ready_lists(writer):
            # More jobs are ready than this worker can take: wake another one.
            tx.wake_listeners(queue, "ready")
    *due, leased = next_times(tx.execute, writer.num)
    has_lapsed = leased is not None and leased <= now
    times = [*([] if writer.settings.paused else due), None if has_lapsed else leased]
    result = ClaimResult(
        jobs=jobs,
        verdicts=verdicts,
        lapsed=lapsed(writer, now) if has_lapsed else [],
        next_at=min((time for time in times if time is not None), default=None),
        now=now,
        may_have_more=byte_limit.reached,
    )
    return result, park_limit_reached and not jobs


# --- leasing ---


def _lease_next(
    writer: QueueWriter, request: ClaimRequest, byte_limit: ByteLimit, now: float
) -> tuple[list[Record], bool]:
    opened: list[Any] = []

    def read(list_id: int) -> Any:
        opened.append(writer.tx.execute(sql("read_list"), (list_id,)))
        return opened[-1]

    rows = merge_lists(_ready_heads(writer, request.kinds), read, _position_of)
    selected, parked = _select_jobs(writer, rows, request, byte_limit)
    for cursor in opened:
        cursor.close()
    _park(writer, parked)
    records = _lease(writer, selected, request, now) if selected else []
    return records, len(parked) >= PARK_LIMIT


def _ready_heads(writer: QueueWriter, kinds: frozenset[str] | None) -> list[ListHead]:
    list_ids = [list_id for list_id, kind in _ready_lists(writer) if kinds is None or kind in kinds]
    if len(list_ids) < 2:
        # The common case: a single list need not be merged with others.
        return [((0.0, 0), list_id) for list_id in list_ids]
    heads = writer.tx.execute(sql("ready_list_heads"), (writer.num,))
    return [
        ((at, job), list_id) for at, job, list_id, kind in heads if kinds is None or kind in kinds
    ]


def _ready_lists(writer: QueueWriter) -> list[tuple[int, str]]:
    return list(writer.tx.execute(sql("ready_lists"), (writer.num,)))


def _select_jobs(
    writer: QueueWriter, rows: Iterable[Row], request: ClaimRequest, byte_limit: ByteLimit
) -> tuple[list[Row], list[Row]]:
    """The next jobs whose group has capacity, and the skipped jobs whose group is full."""
    selected: list[Row] = []
    parked: list[Row] = []
    started: Counter[str] = Counter()
    running: dict[str, int] = {}
    limit = request.limit
    group_limit = math.inf if request.ignore_group_limit else writer.settings.group_limit
    if limit <= 0:
        return selected, parked
    for row in rows:
        group = row[_GROUP]
        if group is not None:
            if group not in running:
                running[group] = writer.running_in(group)
            if running[group] + started[group] >= group_limit:
                parked.append(row)
                if len(parked) == PARK_LIMIT:
                    break
                continue
            started[group] += 1
        selected.append(row)
        if byte_limit.has_limit:
            byte_limit.add(len(row[_PAYLOAD]) + len(row[_OPTIONS] or b""))
        if len(selected) >= limit or byte_limit.reached:
            break
    if started:
        writer.add_running(started)
    return selected, parked


def _park(writer: QueueWriter, parked: list[Row]) -> None:
    by_list: dict[tuple[str, str], list[int]] = {}
    for row in parked:
        by_list.setdefault((row[_GROUP], row[_KIND]), []).append(row[_NUM])
    for (group, kind), nums in by_list.items():
        parked_list = writer.parked_list(group, kind)
        writer.tx.execute(sql("set_list_many"), (parked_list, int_array(nums)))
        writer.change_counts(writer.ready_list(kind), parked_list, len(nums))


def _lease(writer: QueueWriter, rows: list[Row], request: ClaimRequest, now: float) -> list[Record]:
    token, worker = writer.next_token(now), request.worker
    records = [_record(row, token, request, now) for row in rows]
    processing = writer.list_of_state(_PROCESSING)
    same_deadline = not request.lease_of_kind and not any(map(_options_of, rows))
    for deadline, nums in _by_deadline(rows, records, same_deadline).items():
        values = (processing, deadline, token, worker, now, int_array(nums))
        writer.tx.execute(sql("lease"), values)
    for kind, count in Counter(map(_kind_of, rows)).items():
        writer.change_counts(writer.ready_list(kind), processing, count)
    entries = [
        Entry(_CLAIM, job.id, job.kind, _QUEUED, _PROCESSING, job.attempts, token, worker)
        for job in records
    ]
    writer.write_journal(now, entries)
    return records


def _record(row: Row, token: int, request: ClaimRequest, now: float) -> Record:
    _, _, id, kind, payload, priority, packed_options, created, _, attempts, cancel = row
    options = decode_options(packed_options)
    return Record(
        id,
        kind,
        _PROCESSING,
        payload,
        priority,
        options,
        attempts + 1,
        created,
        token,
        request.worker,
        now,
        now + request.lease_of(kind, options),
        None,
        None,
        None,
        cancel != 0,
    )


def _by_deadline(
    rows: list[Row], records: list[Record], same_deadline: bool
) -> dict[float | None, list[int]]:
    if same_deadline:
        return {records[0].deadline: list(map(_num_of, rows))}
    by_deadline: dict[float | None, list[int]] = {}
    for row, record in zip(rows, records, strict=True):
        by_deadline.setdefault(record.deadline, []).append(row[_NUM])
    return by_deadline


# --- due jobs and lapsed leases ---


def promote(writer: QueueWriter, now: float, limit: int) -> int:
    """Queue the jobs that are due, in the order of their due times."""
    scheduled_at, failing_at, _ = next_times(writer.tx.execute, writer.num)
    due: list[tuple[State, Row]] = []
    for state, first_at in ((State.SCHEDULED, scheduled_at), (State.FAILING, failing_at)):
        if first_at is not None and first_at <= now:
            rows = writer.tx.execute(
                sql("due"), (writer.list_of_state(state), now, limit)
            ).fetchall()
            due.extend((state, row) for row in rows)
    if not due:
        return 0
    due.sort(key=lambda pair: pair[1][:2])
    del due[limit:]
    moved, entries = [], []
    for state, (at, num, id, kind, priority, attempts) in due:
        ready = writer.ready_list(kind)
        moved.append((num, ready, rank(at, priority, writer.settings.ageing)))
        writer.change_counts(writer.list_of_state(state), ready)
        entries.append(Entry(Act.PROMOTE, id, kind, state, _QUEUED, attempts))
    writer.tx.executemany(sql("set_list"), moved)
    writer.write_journal(now, entries)
    writer.write_counts()
    return len(due)


def lapsed(writer: QueueWriter, now: float) -> list[Record]:
    """The leased jobs past their deadline, earliest deadline first."""
    values = (writer.list_of_state(_PROCESSING), now, writer.settings.repair_limit)
    return [record_of(row) for row in writer.tx.execute(sql("lapsed"), values)]


# --- heartbeats ---


def heartbeat(
    tx: Transaction,
    queue: QueueKey,
    heartbeat: Heartbeat | None,
    extensions: Sequence[LeaseExtension],
    now: float,
) -> HeartbeatReply:
    """Record a worker's heartbeat and extend its leases."""
    writer = ensure_queue(tx, queue)
    if heartbeat is not None and heartbeat.ttl > 0:
        packed = encode_heartbeat(heartbeat)
        values = (writer.num, heartbeat.id, packed, now, now + heartbeat.ttl)
        tx.execute(sql("save_heartbeat"), values)
    elif heartbeat is not None:
        tx.execute(sql("remove_worker"), (writer.num, heartbeat.id))
    return _extend(writer, extensions, now)


def _extend(
    writer: QueueWriter, extensions: Sequence[LeaseExtension], now: float
) -> HeartbeatReply:
    ids = [extension.id for extension in extensions]
    rows = rows_by_ids(writer.tx.execute, "jobs_by_ids", "job_by_id", writer.num, ids)
    found = {row[ID]: row for row in rows}
    leased = writer.list_of_state(State.PROCESSING)

    def find(id: str) -> JobLease[int] | None:
        row = found.get(id)
        if row is None or row[LIST] != leased:
            return None
        return (row[0], row[TOKEN], row[AT], row[CANCEL_REQUESTED])

    plan = plan_heartbeat(enumerate(extensions), find, now)
    by_deadline: dict[float, list[int]] = {}
    for num, deadline in plan.extended:
        by_deadline.setdefault(deadline, []).append(num)
    for deadline, nums in by_deadline.items():
        writer.tx.execute(sql("extend"), (deadline, int_array(nums)))
    return HeartbeatReply(plan.lost, plan.cancelled)
