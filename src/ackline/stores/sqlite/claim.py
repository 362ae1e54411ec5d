"""Leases: handed out, kept alive, and found when they lapse."""

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
    CLAIM_MAINTENANCE_LIMIT,
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
from ackline.stores.sqlite.queries import next_times
from ackline.stores.sqlite.queue_writer import QueueWriter, Transaction, ensure_queue, find_queue
from ackline.stores.sqlite.rows import Row, int_array, merge_lists, record_of, rows_by_ids
from ackline.stores.sqlite.sql import sql

_CLAIM, _QUEUED, _PROCESSING = Act.CLAIM, State.QUEUED, State.PROCESSING
_NUM, _KIND, _PAYLOAD, _OPTIONS, _GROUP = 1, 3, 4, 6, 8
"""Columns of a row of `line`."""
ListHead = tuple[tuple[float, int], int]
"""Where a line begins, and its slot."""
PARK_LIMIT = 5000
"""The most jobs of full groups that one transaction parks: more would make other writers wait."""

_num_of, _kind_of, _options_of = itemgetter(_NUM), itemgetter(_KIND), itemgetter(_OPTIONS)
_position_of = itemgetter(0, 1)


def claim(
    tx: Transaction,
    queue: QueueKey,
    request: ClaimRequest,
    transitions: Sequence[Transition],
    now: float,
) -> tuple[ClaimResult, bool]:
    """Apply the transitions, promote due jobs, lease the next in line, report lapsed ones.

    Also returns whether it met only jobs of full groups so far, and has to be called again.
    """
    lines = find_queue(tx, queue)
    if lines is None:
        gone = [Verdict(False, None)] * len(transitions)
        return ClaimResult(jobs=[], verdicts=gone, now=now), False
    verdicts = apply(lines, transitions, now) if transitions else []
    jobs, cut_short, budget = list[Record](), False, ByteLimit(request.max_bytes)
    if not lines.settings.paused:
        promote(lines, now, CLAIM_MAINTENANCE_LIMIT)
        jobs, cut_short = _lease_next(lines, request, budget, now)
        lines.write_counts()
        full = cut_short or budget.reached or len(jobs) >= request.limit
        if full and _ready_lists(lines):
            # More jobs are ready than this worker can take: wake another one.
            tx.wake_listeners(queue, "ready")
    *due, leased = next_times(tx.execute, lines.num)
    late = leased is not None and leased <= now
    times = [*([] if lines.settings.paused else due), None if late else leased]
    claimed = ClaimResult(
        jobs=jobs,
        verdicts=verdicts,
        lapsed=lapsed(lines, now) if late else [],
        next_at=min((time for time in times if time is not None), default=None),
        now=now,
        may_have_more=budget.reached,
    )
    return claimed, cut_short and not jobs


# --- handing out ---


def _lease_next(
    lines: QueueWriter, request: ClaimRequest, budget: ByteLimit, now: float
) -> tuple[list[Record], bool]:
    opened: list[Any] = []

    def read(slot: int) -> Any:
        opened.append(lines.tx.execute(sql("line"), (slot,)))
        return opened[-1]

    rows = merge_lists(_ready_heads(lines, request.kinds), read, _position_of)
    taken, parked = _select_jobs(lines, rows, request, budget)
    for cursor in opened:
        cursor.close()
    _park(lines, parked)
    records = _lease(lines, taken, request, now) if taken else []
    return records, len(parked) >= PARK_LIMIT


def _ready_heads(lines: QueueWriter, kinds: frozenset[str] | None) -> list[ListHead]:
    slots = [slot for slot, kind in _ready_lists(lines) if kinds is None or kind in kinds]
    if len(slots) < 2:
        # As in most queues: a single line need not be compared with others.
        return [((0.0, 0), slot) for slot in slots]
    heads = lines.tx.execute(sql("ready_heads"), (lines.num,))
    return [((at, job), slot) for at, job, slot, kind in heads if kinds is None or kind in kinds]


def _ready_lists(lines: QueueWriter) -> list[tuple[int, str]]:
    return list(lines.tx.execute(sql("ready_slots"), (lines.num,)))


def _select_jobs(
    lines: QueueWriter, rows: Iterable[Row], request: ClaimRequest, budget: ByteLimit
) -> tuple[list[Row], list[Row]]:
    """The next jobs in line whose group has room, and the jobs passed over whose group has none."""
    taken: list[Row] = []
    parked: list[Row] = []
    entered: Counter[str] = Counter()
    running: dict[str, int] = {}
    limit = request.limit
    most = math.inf if request.ignore_group_limit else lines.settings.group_limit
    if limit <= 0:
        return taken, parked
    for row in rows:
        group = row[_GROUP]
        if group is not None:
            if group not in running:
                running[group] = lines.running_in(group)
            if running[group] + entered[group] >= most:
                parked.append(row)
                if len(parked) == PARK_LIMIT:
                    break
                continue
            entered[group] += 1
        taken.append(row)
        if budget.has_limit:
            budget.add(len(row[_PAYLOAD]) + len(row[_OPTIONS] or b""))
        if len(taken) >= limit or budget.reached:
            break
    if entered:
        lines.enter_groups(entered)
    return taken, parked


def _park(lines: QueueWriter, parked: list[Row]) -> None:
    by_line: dict[tuple[str, str], list[int]] = {}
    for row in parked:
        by_line.setdefault((row[_GROUP], row[_KIND]), []).append(row[_NUM])
    for (group, kind), nums in by_line.items():
        slot = lines.parked_list(group, kind)
        lines.tx.execute(sql("put_many"), (slot, int_array(nums)))
        lines.change_counts(lines.ready_list(kind), slot, len(nums))


def _lease(lines: QueueWriter, taken: list[Row], request: ClaimRequest, now: float) -> list[Record]:
    token, worker = lines.next_token(now), request.worker
    records = [_record(row, token, request, now) for row in taken]
    processing = lines.list_of_state(_PROCESSING)
    alike = not request.lease_of_kind and not any(map(_options_of, taken))
    for deadline, nums in _by_deadline(taken, records, alike).items():
        values = (processing, deadline, token, worker, now, int_array(nums))
        lines.tx.execute(sql("lease"), values)
    for kind, count in Counter(map(_kind_of, taken)).items():
        lines.change_counts(lines.ready_list(kind), processing, count)
    entries = [
        Entry(_CLAIM, job.id, job.kind, _QUEUED, _PROCESSING, job.attempts, token, worker)
        for job in records
    ]
    lines.write_journal(now, entries)
    return records


def _record(row: Row, token: int, request: ClaimRequest, now: float) -> Record:
    _, _, id, kind, payload, priority, data, created, _, attempts, cancel = row
    options = decode_options(data)
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
    taken: list[Row], records: list[Record], same_deadline: bool
) -> dict[float | None, list[int]]:
    if same_deadline:
        return {records[0].deadline: list(map(_num_of, taken))}
    by_deadline: dict[float | None, list[int]] = {}
    for row, record in zip(taken, records, strict=True):
        by_deadline.setdefault(record.deadline, []).append(row[_NUM])
    return by_deadline


# --- due and lapsed jobs ---


def promote(lines: QueueWriter, now: float, limit: int) -> int:
    """Queue the jobs that are due, in the order of their times."""
    first, second, _ = next_times(lines.tx.execute, lines.num)
    due: list[tuple[State, Row]] = []
    for state, head in ((State.SCHEDULED, first), (State.FAILING, second)):
        if head is not None and head <= now:
            rows = lines.tx.execute(sql("due"), (lines.list_of_state(state), now, limit)).fetchall()
            due.extend((state, row) for row in rows)
    if not due:
        return 0
    due.sort(key=lambda pair: pair[1][:2])
    del due[limit:]
    places, entries = [], []
    for state, (at, num, id, kind, priority, attempts) in due:
        ready = lines.ready_list(kind)
        places.append((num, ready, rank(at, priority, lines.settings.ageing)))
        lines.change_counts(lines.list_of_state(state), ready)
        entries.append(Entry(Act.PROMOTE, id, kind, state, _QUEUED, attempts))
    lines.tx.executemany(sql("put"), places)
    lines.write_journal(now, entries)
    lines.write_counts()
    return len(due)


def lapsed(lines: QueueWriter, now: float) -> list[Record]:
    """Leased jobs past their deadline, the earliest deadline first."""
    values = (lines.list_of_state(_PROCESSING), now, CLAIM_MAINTENANCE_LIMIT)
    return [record_of(row) for row in lines.tx.execute(sql("lapsed"), values)]


# --- heartbeats ---


def heartbeat(
    tx: Transaction, queue: QueueKey, beat: Heartbeat, holds: Sequence[LeaseExtension], now: float
) -> HeartbeatReply:
    """Note that a worker is alive, and extend its leases."""
    lines = ensure_queue(tx, queue)
    if beat.ttl > 0:
        values = (lines.num, beat.id, encode_heartbeat(beat), now, now + beat.ttl)
        tx.execute(sql("beat"), values)
    else:
        tx.execute(sql("goodbye"), (lines.num, beat.id))
    return _extend(lines, holds, now)


def _extend(lines: QueueWriter, holds: Sequence[LeaseExtension], now: float) -> HeartbeatReply:
    ids = [hold.id for hold in holds]
    rows = rows_by_ids(lines.tx.execute, "standings", "standing", lines.num, ids)
    found = {row[ID]: row for row in rows}
    leased = lines.list_of_state(State.PROCESSING)

    def find(id: str) -> JobLease[int] | None:
        row = found.get(id)
        if row is None or row[LIST] != leased:
            return None
        return (row[0], row[TOKEN], row[AT], row[CANCEL_REQUESTED])

    plan = plan_heartbeat(enumerate(holds), find, now)
    by_deadline: dict[float, list[int]] = {}
    for num, deadline in plan.kept:
        by_deadline.setdefault(deadline, []).append(num)
    for deadline, nums in by_deadline.items():
        lines.tx.execute(sql("extend"), (deadline, int_array(nums)))
    return HeartbeatReply(plan.lost, plan.cancelled)
