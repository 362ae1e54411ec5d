"""Leases: handed out, kept alive, and found when they lapse."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from ackline.events import Act, Entry
from ackline.job import QueueKey, Record, State
from ackline.lifecycle import Transition, Verdict, rank
from ackline.stores.base import (
    REPAIR_LIMIT,
    BeatReply,
    Claimed,
    ClaimRequest,
    Hold,
    WorkerBeat,
)
from ackline.stores.budget import Budget
from ackline.stores.shared.heartbeat import JobLease, plan_heartbeat
from ackline.stores.shared.records import decode_options, encode_beat
from ackline.stores.sqlite.apply import AT, CANCEL, ID, SLOT, TOKEN, apply
from ackline.stores.sqlite.look import heads
from ackline.stores.sqlite.queries import sql
from ackline.stores.sqlite.rows import Row, merged, numbers, record_of, rows_by_ids
from ackline.stores.sqlite.transaction import Lines, Transaction, find_lines, make_lines

_CLAIM, _QUEUED, _PROCESSING = Act.CLAIM, State.QUEUED, State.PROCESSING
_NUM, _KIND, _PAYLOAD, _OPTIONS, _GROUP = 1, 3, 4, 6, 8
"""Columns of a row of `line`."""
Head = tuple[tuple[float, int], int]
"""Where a line begins, and its slot."""
MOST_PARKED = 5000
"""The most jobs of full groups that one transaction parks: more would make other writers wait."""

_num_of, _kind_of, _options_of = itemgetter(_NUM), itemgetter(_KIND), itemgetter(_OPTIONS)
_place_of = itemgetter(0, 1)


def claim(
    tx: Transaction,
    queue: QueueKey,
    request: ClaimRequest,
    transitions: Sequence[Transition],
    now: float,
) -> tuple[Claimed, bool]:
    """Apply the transitions, promote due jobs, lease the next in line, report lapsed ones.

    Also returns whether it met only jobs of full groups so far, and has to be called again.
    """
    lines = find_lines(tx, queue)
    if lines is None:
        gone = [Verdict(False, None)] * len(transitions)
        return Claimed(jobs=[], verdicts=gone, now=now), False
    verdicts = apply(lines, transitions, now) if transitions else []
    jobs, cut_short, budget = list[Record](), False, Budget(request.max_bytes)
    if not lines.settings.paused:
        promote(lines, now, REPAIR_LIMIT)
        jobs, cut_short = _take(lines, request, budget, now)
        lines.flush()
        full = cut_short or budget.reached or len(jobs) >= request.limit
        if full and _ready_slots(lines):
            # More jobs are ready than this worker can take: wake another one.
            tx.wake(queue, "ready")
    *due, leased = heads(tx.execute, lines.num)
    late = leased is not None and leased <= now
    times = [*([] if lines.settings.paused else due), None if late else leased]
    claimed = Claimed(
        jobs=jobs,
        verdicts=verdicts,
        lapsed=lapsed(lines, now) if late else [],
        next_at=min((time for time in times if time is not None), default=None),
        now=now,
        more=budget.reached,
    )
    return claimed, cut_short and not jobs


# --- handing out ---


def _take(
    lines: Lines, request: ClaimRequest, budget: Budget, now: float
) -> tuple[list[Record], bool]:
    opened: list[Any] = []

    def read(slot: int) -> Any:
        opened.append(lines.tx.execute(sql("line"), (slot,)))
        return opened[-1]

    rows = merged(_ready_heads(lines, request.kinds), read, _place_of)
    taken, parked = _choose(lines, rows, request, budget)
    for cursor in opened:
        cursor.close()
    _park(lines, parked)
    records = _lease(lines, taken, request, now) if taken else []
    return records, len(parked) >= MOST_PARKED


def _ready_heads(lines: Lines, kinds: frozenset[str] | None) -> list[Head]:
    slots = [slot for slot, kind in _ready_slots(lines) if kinds is None or kind in kinds]
    if len(slots) < 2:
        # As in most queues: a single line need not be compared with others.
        return [((0.0, 0), slot) for slot in slots]
    heads = lines.tx.execute(sql("ready_heads"), (lines.num,))
    return [((at, job), slot) for at, job, slot, kind in heads if kinds is None or kind in kinds]


def _ready_slots(lines: Lines) -> list[tuple[int, str]]:
    return list(lines.tx.execute(sql("ready_slots"), (lines.num,)))


def _choose(
    lines: Lines, rows: Iterable[Row], request: ClaimRequest, budget: Budget
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
                if len(parked) == MOST_PARKED:
                    break
                continue
            entered[group] += 1
        taken.append(row)
        if budget.limited:
            budget.spend(len(row[_PAYLOAD]) + len(row[_OPTIONS] or b""))
        if len(taken) >= limit or budget.reached:
            break
    if entered:
        lines.enter_groups(entered)
    return taken, parked


def _park(lines: Lines, parked: list[Row]) -> None:
    by_line: dict[tuple[str, str], list[int]] = {}
    for row in parked:
        by_line.setdefault((row[_GROUP], row[_KIND]), []).append(row[_NUM])
    for (group, kind), nums in by_line.items():
        slot = lines.parked(group, kind)
        lines.tx.execute(sql("put_many"), (slot, numbers(nums)))
        lines.shift(lines.ready(kind), slot, len(nums))


def _lease(lines: Lines, taken: list[Row], request: ClaimRequest, now: float) -> list[Record]:
    token, worker = lines.next_token(now), request.worker
    records = [_record(row, token, request, now) for row in taken]
    processing = lines.slot(_PROCESSING)
    alike = not request.lease_of_kind and not any(map(_options_of, taken))
    for deadline, nums in _by_deadline(taken, records, alike).items():
        values = (processing, deadline, token, worker, now, numbers(nums))
        lines.tx.execute(sql("lease"), values)
    for kind, count in Counter(map(_kind_of, taken)).items():
        lines.shift(lines.ready(kind), processing, count)
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
    taken: list[Row], records: list[Record], alike: bool
) -> dict[float | None, list[int]]:
    if alike:
        return {records[0].deadline: list(map(_num_of, taken))}
    by_deadline: dict[float | None, list[int]] = {}
    for row, record in zip(taken, records, strict=True):
        by_deadline.setdefault(record.deadline, []).append(row[_NUM])
    return by_deadline


# --- due and lapsed jobs ---


def promote(lines: Lines, now: float, limit: int) -> int:
    """Queue the jobs that are due, in the order of their times."""
    first, second, _ = heads(lines.tx.execute, lines.num)
    due: list[tuple[State, Row]] = []
    for state, head in ((State.SCHEDULED, first), (State.FAILING, second)):
        if head is not None and head <= now:
            rows = lines.tx.execute(sql("due"), (lines.slot(state), now, limit)).fetchall()
            due.extend((state, row) for row in rows)
    if not due:
        return 0
    due.sort(key=lambda pair: pair[1][:2])
    del due[limit:]
    places, entries = [], []
    for state, (at, num, id, kind, priority, attempts) in due:
        ready = lines.ready(kind)
        places.append((num, ready, rank(at, priority, lines.settings.ageing)))
        lines.shift(lines.slot(state), ready)
        entries.append(Entry(Act.PROMOTE, id, kind, state, _QUEUED, attempts))
    lines.tx.executemany(sql("put"), places)
    lines.write_journal(now, entries)
    lines.flush()
    return len(due)


def lapsed(lines: Lines, now: float) -> list[Record]:
    """Leased jobs past their deadline, the earliest deadline first."""
    values = (lines.slot(_PROCESSING), now, REPAIR_LIMIT)
    return [record_of(row) for row in lines.tx.execute(sql("lapsed"), values)]


# --- heartbeats ---


def heartbeat(
    tx: Transaction, queue: QueueKey, beat: WorkerBeat, holds: Sequence[Hold], now: float
) -> BeatReply:
    """Note that a worker is alive, and extend its leases."""
    lines = make_lines(tx, queue)
    if beat.ttl > 0:
        values = (lines.num, beat.id, encode_beat(beat), now, now + beat.ttl)
        tx.execute(sql("beat"), values)
    else:
        tx.execute(sql("goodbye"), (lines.num, beat.id))
    return _extend(lines, holds, now)


def _extend(lines: Lines, holds: Sequence[Hold], now: float) -> BeatReply:
    ids = [hold.id for hold in holds]
    rows = rows_by_ids(lines.tx.execute, "standings", "standing", lines.num, ids)
    found = {row[ID]: row for row in rows}
    leased = lines.slot(State.PROCESSING)

    def find(id: str) -> JobLease[int] | None:
        row = found.get(id)
        if row is None or row[SLOT] != leased:
            return None
        return (row[0], row[TOKEN], row[AT], row[CANCEL])

    plan = plan_heartbeat(enumerate(holds), find, now)
    by_deadline: dict[float, list[int]] = {}
    for num, deadline in plan.kept:
        by_deadline.setdefault(deadline, []).append(num)
    for deadline, nums in by_deadline.items():
        lines.tx.execute(sql("extend"), (deadline, numbers(nums)))
    return BeatReply(plan.lost, plan.cancelled)
