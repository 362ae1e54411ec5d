"""A claim: the transitions it applies, the jobs it takes, the due and lapsed ones it reports."""

from __future__ import annotations

import enum
import functools
import logging
import math
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from ackline.core.errors import CannotJoin, StoreError
from ackline.core.events import Act, Entry
from ackline.core.job import NO_OPTIONS, QueueKey, Record, State
from ackline.core.lifecycle import Transition, Verdict
from ackline.stores.contract import CLAIM_MAINTENANCE_LIMIT, ClaimRequest, ClaimResult
from ackline.stores.postgres import queries
from ackline.stores.postgres.apply import NeedsLookup, apply
from ackline.stores.postgres.engine import Engine
from ackline.stores.postgres.groups import change_running, lock_free_groups
from ackline.stores.postgres.io.pipeline import Floats, Ints, Row
from ackline.stores.postgres.io.transaction import (
    SEND_EARLY_FROM,
    PendingRows,
    RetryTransaction,
    Transaction,
)
from ackline.stores.postgres.job_rows import LastLease, NewRows
from ackline.stores.postgres.leases import (
    JobLookup,
    lock_leases,
    read_leases,
    request_leases,
)
from ackline.stores.postgres.queue_cache import CachedQueue, decode_name, queue_parameters
from ackline.stores.postgres.scan_position import (
    FIRST_PROMOTED_LANE,
    UNORDERED_LANE,
    Lane,
    Position,
    Scan,
)
from ackline.stores.shared.apply import NO_JOB
from ackline.stores.shared.byte_limit import ByteLimit
from ackline.stores.shared.journal_batches import pack_entries
from ackline.stores.shared.record_encoding import SETTLING_ACTS, STATES_BY_CODE, decode_options

_SAME, _DUE, _SEEN, _RANK, _JOB, _LINE, _LANE, _ATTEMPTS, _TOKEN = range(9)
_ID, _KIND, _GROUP, _PRIORITY, _CREATED, _OPTIONS, _PAYLOAD = range(9, 16)
_WORKER, _STARTED, _ACT = range(16, 19)
"""Columns of a row of `take_jobs`."""


class JobSelector:
    """The looks of one claim."""

    def __init__(self, tx: Transaction, cached: CachedQueue) -> None:
        self.seen = 0
        """How many jobs the last look saw, including those that others have locked."""
        self._tx = tx
        self._cached = cached
        # Jobs promoted in a caller's transaction would have to wait for its end.
        self._promoted = tx.is_borrowed
        self._sent: tuple[float, PendingRows] | None = None

    def send(self, look: Scan, limit: int, max_bytes: int | None) -> None:
        """Request the next jobs; `take_jobs` waits for the answer."""
        began = time.monotonic()
        values = scan_parameters(self._cached, look, limit, self._tx.clock, promoted=self._promoted)
        if max_bytes is None:
            self._sent = began, self._tx.send("take_jobs", values)
        else:
            values |= {"max_bytes": max_bytes}
            self._sent = began, self._tx.send("take_jobs_within", values)

    def pick(self, look: Scan, limit: int, max_bytes: int | None) -> list[Row]:
        """Take the next jobs; due ones are promoted first."""
        while True:
            if self._sent is None:
                self.send(look, limit, max_bytes)
            first, rows = self._receive(look)
            if not first[_SAME]:
                # The settings have changed in between.
                raise RetryTransaction
            if not first[_DUE] or self._promoted:
                break
            promote(self._tx, self._cached, CLAIM_MAINTENANCE_LIMIT)
            self._promoted = True
            look = self._cached.positions.look(dict.fromkeys(look.lines))
        self.seen = first[_SEEN]
        self._note(look, rows)
        return rows

    def _receive(self, look: Scan) -> tuple[Row, list[Row]]:
        assert self._sent is not None
        (sent_at, cursor), self._sent = self._sent, None
        rows = cursor.fetchall()
        look.cost = time.monotonic() - sent_at
        return rows[0], _sorted_rows(rows)

    def _note(self, look: Scan, rows: list[Row]) -> None:
        positions = self._cached.positions
        self._tx.on_commit.append(lambda: positions.advance(look, _last_positions(rows)))


def scan_parameters(
    cached: CachedQueue, look: Scan, limit: int, clock: float | None, *, promoted: bool = False
) -> dict[str, Any]:
    """What says which jobs are next in line."""
    return {
        "queue": cached.num,
        "version": cached.version,
        "now": clock,
        "promoted": int(promoted),
        "kind_ids": Ints(look.lines),
        "lanes": Ints(look.lanes),
        "ranks": Floats(look.ranks),
        "jobs": Ints(look.jobs),
        "limit": limit,
    }


def _sorted_rows(rows: list[Row]) -> list[Row]:
    taken = [row for row in rows if row[_JOB] is not None]
    taken.sort(key=_position_of)
    return taken


def _position_of(row: Row) -> Position:
    return row[_RANK], row[_JOB]


def _last_positions(rows: list[Row]) -> dict[Lane, Position]:
    return {(row[_LINE], row[_LANE]): _position_of(row) for row in rows}


def last_lease_of(row: Row) -> LastLease:
    """What a row of `take_jobs` says about an earlier lease."""
    act = row[_ACT]
    return LastLease(
        row[_ATTEMPTS] or 0,
        row[_TOKEN] or 0,
        decode_name(row[_WORKER]) if row[_WORKER] else "",
        row[_STARTED],
        None if act is None else SETTLING_ACTS[act],
    )


def promote(tx: Transaction, cached: CachedQueue, limit: int) -> int:
    """Queue the jobs that are due, in the order of their times."""
    values = {"queue": cached.num, "now": tx.now, "limit": limit, "ageing": cached.settings.ageing}
    rows = sorted(tx.rows("promote", values))
    if not rows:
        return 0
    changes, lowest = tx.changes_of(cached.key, cached.num), dict[Lane, Position]()
    for at, num, id, kind, priority, code, attempts, line in rows:
        source = STATES_BY_CODE[code]
        tx.change_counts(cached.num, source, State.QUEUED)
        changes.entries.append(
            Entry(Act.PROMOTE, id.decode(), decode_name(kind), source, State.QUEUED, attempts)
        )
        place = (at - priority * cached.settings.ageing, num)
        lane = (line, FIRST_PROMOTED_LANE + priority)
        lowest[lane] = min(place, lowest.get(lane, place))
    for (line, lane_number), place in lowest.items():
        # At once, not after the commit: this transaction may be about to look for them.
        cached.positions.step_back_to(line, lane_number, place)
    return len(rows)


_CLAIM, _QUEUED, _PROCESSING = Act.CLAIM, State.QUEUED, State.PROCESSING

MAX_SCANS = 3
"""How often one claim looks again after other claims were quicker to take the jobs."""

MAX_READ_AHEAD = 500
"""The most jobs that are read beyond the wanted number, to get past a full group."""

PARK_LIMIT = 5000
"""The most jobs of full groups that one transaction parks: others wait for its end."""


class ClaimEnd(enum.Enum):
    """Why a claim has taken no more jobs than it has."""

    DONE = enum.auto()
    """It has all it wanted, or there are no more."""
    ENOUGH_BYTES = enum.auto()
    """Its jobs have as many bytes as it may take."""
    LOCKED_GROUP = enum.auto()
    """Another transaction has locked the group of the next job."""
    FULL_GROUPS = enum.auto()
    """It has taken none, and has parked as many jobs of full groups as one transaction may."""
    LOCKED_JOBS = enum.auto()
    """It has taken none, and passed over jobs that others have locked."""


class ClaimRun:
    """The jobs that one claim takes."""

    def __init__(
        self,
        tx: Transaction,
        cached: CachedQueue,
        request: ClaimRequest,
        *,
        skip_locked_groups: bool = True,
    ) -> None:
        """Unless it `reads_past_busy`, it stops at a group that another transaction has locked."""
        self._tx = tx
        self._cached = cached
        self._request = request
        limit = cached.settings.group_limit
        self._group_limit = math.inf if request.ignore_group_limit else limit
        self._reads_past_busy = skip_locked_groups
        self._token = 0
        self._picking = JobSelector(tx, cached)
        kinds, lines = request.kinds, cached.kind_ids
        self._wanted = [line for kind, line in lines.items() if kinds is None or kind in kinds]
        self._look: Scan | None = None
        self._again = False
        self._job_rows = NewRows(tx, cached)
        self._taken: list[Row] = []
        self._entered: Counter[str] = Counter()
        self._running: dict[str, int] = {}
        self._busy: set[str] = set()
        self._parked = self._left_there = 0
        self._budget = ByteLimit(request.max_bytes)

    @property
    def end(self) -> ClaimEnd:
        """Why it has taken no more jobs."""
        if self._budget.reached:
            return ClaimEnd.ENOUGH_BYTES
        if self._is_at_locked_group:
            return ClaimEnd.LOCKED_GROUP
        if not self._taken and self._parked >= PARK_LIMIT:
            return ClaimEnd.FULL_GROUPS
        if not self._taken and (self._picking.seen > 0 or self._busy):
            return ClaimEnd.LOCKED_JOBS
        return ClaimEnd.DONE

    @property
    def _is_at_locked_group(self) -> bool:
        return bool(self._busy) and not self._reads_past_busy

    def begin(self) -> None:
        """Request jobs, without waiting for the answer yet."""
        self._look = self._cached.positions.look(self._wanted)
        self._picking.send(self._look, max(0, self._request.limit), self._budget.remaining)

    def run(self, token: int = 0) -> list[Record]:
        """Take the next jobs whose groups have room, and lease them."""
        self._token, picking = token, self._picking
        look: Scan | None = self._look or self._cached.positions.look(self._wanted)
        more, vain = 0, 0
        while look is not None:
            need = max(0, self._request.limit - len(self._taken))
            rows = picking.pick(look, need + more, self._budget.remaining)
            aside = self._sort_out(rows)
            if self._full or self._is_at_locked_group:
                break
            if max(self._parked, self._left_there) >= PARK_LIMIT:
                break
            if aside:
                # Jobs of a full group are in the way: read past them in longer and longer strides.
                more = min(MAX_READ_AHEAD, 2 * more + 16)
                continue
            vain += 1
            if picking.seen <= len(rows) or vain > MAX_SCANS:
                look = self._look_again(look)
        self._job_rows.write()
        if self._running:
            change_running(
                self._tx, self._cached, {name: self._entered[name] for name in self._running}
            )
        return self._lease() if self._taken else []

    @property
    def _full(self) -> bool:
        return len(self._taken) >= self._request.limit or self._budget.reached

    def _look_again(self, look: Scan) -> Scan | None:
        """If nothing was found behind the positions, look from further back, once."""
        if look.full or self._taken or self._again:
            return None
        self._again = True
        return self._cached.positions.rescan(self._wanted)

    def _sort_out(self, rows: list[Row]) -> int:
        """Take jobs whose groups have room; returns how many were set aside."""
        groups = {row[_GROUP] for row in rows if row[_GROUP] is not None}
        if groups and self._tx.is_borrowed:
            raise CannotJoin(
                f"{self._cached.key} has jobs of groups, whose places would stay locked until you "
                "commit: claim kinds= without groups, or not in a transaction; nothing was done"
            )
        unknown = {decode_name(group) for group in groups} - self._running.keys() - self._busy
        if unknown:
            self._running |= lock_free_groups(self._tx, self._cached, unknown)
            self._busy |= unknown - self._running.keys()
        if not groups and len(self._taken) + len(rows) <= self._request.limit:
            for row in rows if self._budget.has_limit else ():
                self._budget.add(_size(row))
            self._taken += rows
            return 0
        aside = 0
        for row in rows:
            if self._full:
                self._put_back(row)
            elif row[_GROUP] is None or self._enter(row, decode_name(row[_GROUP])):
                self._taken.append(row)
                self._budget.add(_size(row))
            else:
                aside += 1
        return aside

    def _enter(self, row: Row, group: str) -> bool:
        """Take a place in a job's group; if none is free, the job is set aside."""
        if group in self._busy:
            # Not parked: the lock's holder may already have let the group's parked jobs into line.
            self._put_back(row)
            self._left_there += 1
            return False
        if self._running[group] + self._entered[group] >= self._group_limit:
            self._job_rows.park(
                row[_JOB], decode_name(row[_KIND]), group, row[_RANK], last_lease_of(row)
            )
            self._parked += 1
            return False
        self._entered[group] += 1
        return True

    def _put_back(self, row: Row) -> None:
        self._job_rows.ready(
            row[_JOB], decode_name(row[_KIND]), UNORDERED_LANE, row[_RANK], last_lease_of(row)
        )

    def _lease(self) -> list[Record]:
        tx, cached, worker = self._tx, self._cached, self._request.worker
        records = _records(cached, self._request, self._taken, self._tokens(), tx.now)
        cached.without_options = all(row[_OPTIONS] is None for row in self._taken)
        rows_of: dict[tuple[float, int], list[Row]] = {}
        for row, record in zip(self._taken, records, strict=True):
            rows_of.setdefault((record.deadline or 0.0, record.token), []).append(row)
        for (deadline, token), rows in rows_of.items():
            values = {"token": token, "queue": cached.num, "worker": worker.encode()}
            values |= {"started": tx.now, "deadline": deadline, "cancel_requested": Ints([])}
            values |= _lease_arrays(rows)
            tx.send("add_lease", values)
            cached.lease_scan.lower(deadline)
        changes = tx.changes_of(cached.key, cached.num)
        tx.change_counts(cached.num, _QUEUED, _PROCESSING, len(records))
        changes.entries += [
            Entry(_CLAIM, job.id, job.kind, _QUEUED, _PROCESSING, job.attempts, job.token, worker)
            for job in records
        ]
        return records

    def _tokens(self) -> list[int]:
        """A token for each job: the same for all, except for kinds that are leased one by one."""
        tokens = [self._above(max(row[_TOKEN] or 0 for row in self._taken))] * len(self._taken)
        kinds = self._cached.single_lease_kinds
        apart = [
            n for n, row in enumerate(self._taken) if kinds and decode_name(row[_KIND]) in kinds
        ]
        if apart and not self._tx.is_borrowed:
            # Rows of their own are not enough: a SERIALIZABLE transaction conflicts with every
            # change of a row that it has read on its way, such as other rows of the same token.
            more = self._tx.rows("more_tokens", {"count": len(apart)})
            for n, (token,) in zip(apart, more, strict=True):
                tokens[n] = token
        return tokens

    def _above(self, highest: int) -> int:
        """A token above those that the jobs had before."""
        if self._token <= highest:
            self._token = self._tx.next_token(highest)
        return self._token


def _size(row: Row) -> int:
    return len(row[_PAYLOAD]) + len(row[_OPTIONS] or b"")


def _lease_arrays(rows: list[Row]) -> dict[str, Any]:
    return {
        "jobs": Ints([row[_JOB] for row in rows]),
        "attempts": Ints([(row[_ATTEMPTS] or 0) + 1 for row in rows]),
        "ranks": Floats([row[_RANK] for row in rows]),
    }


def _records(
    cached: CachedQueue, request: ClaimRequest, rows: list[Row], tokens: Iterable[int], now: float
) -> list[Record]:
    """The claimed jobs, which are also remembered."""
    records = []
    for row, token in zip(rows, tokens, strict=True):
        record = _record(row, token, request, now)
        group = row[_GROUP]
        cached.remember(
            record.id, (row[_JOB], record.kind, group and decode_name(group), row[_PRIORITY])
        )
        records.append(record)
    return records


def _record(row: Row, token: int, request: ClaimRequest, now: float) -> Record:
    kind = decode_name(row[_KIND])
    options = decode_options(row[_OPTIONS])
    return Record(
        row[_ID].decode(),
        kind,
        _PROCESSING,
        row[_PAYLOAD],
        row[_PRIORITY],
        options,
        (row[_ATTEMPTS] or 0) + 1,
        row[_CREATED],
        token,
        request.worker,
        now,
        now + request.lease_of(kind, options),
    )


logger = logging.getLogger("ackline")

LOCKED_GROUP_DELAYS = (0.001, 0.002, 0.004, 0.008)
"""Seconds before each further look at groups that others have locked: most are locked no longer."""

LOCKED_JOBS_DELAY = 0.2
"""Seconds after which to look again at jobs that others have locked: a rollback may free them."""


def claim(
    engine: Engine, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition]
) -> ClaimResult:
    """Apply the transitions, promote due jobs, lease the next in line, report lapsed ones."""
    if not transitions and (quick := _claim_in_one_statement(engine, queue, request)) is not None:
        return claim_result(engine, queue, quick)
    try:
        answer = engine.write(lambda tx: _claim(engine, tx, queue, request, transitions))
    except NeedsLookup:
        # A lease was lost, and its job may be among those that were just requested.
        answer = engine.write(
            lambda tx: _claim(engine, tx, queue, request, transitions, wait_for_leases=True)
        )
    pauses = list(LOCKED_GROUP_DELAYS)
    while answer.end is ClaimEnd.FULL_GROUPS or (
        answer.end is ClaimEnd.LOCKED_GROUP and not answer.jobs
    ):
        if answer.end is ClaimEnd.LOCKED_GROUP:
            # Between two transactions: this one's locks are gone.
            time.sleep(pauses.pop(0))
        again = functools.partial(
            _claim,
            engine,
            queue=queue,
            request=request,
            transitions=(),
            reads_past_busy=not pauses,
        )
        answer = engine.write(again)._replace(verdicts=answer.verdicts)
    return claim_result(engine, queue, answer)


def _claim_in_one_statement(
    engine: Engine, queue: QueueKey, request: ClaimRequest
) -> ClaimAnswer | None:
    """A claim in one statement and one message; None if what it met has to be handled in steps."""
    cached = engine.queues.cached(queue)
    if (
        cached is None
        or not cached.without_options
        or cached.single_lease_kinds
        or cached.settings.paused
    ):
        return None
    kinds = [kind for kind in cached.kind_ids if request.kinds is None or kind in request.kinds]
    seconds = {request.lease_of(kind, NO_OPTIONS) for kind in kinds}
    # A pooler may have `notify` run in another session, which knows of no `claim_jobs`.
    if len(seconds) != 1 or request.max_bytes is not None or not engine.address.keeps_sessions:
        return None
    look = cached.positions.look([cached.kind_ids[kind] for kind in kinds])
    values = {"worker": request.worker.encode(), "seconds": float(seconds.pop())}
    values |= entry_template(request.worker)
    began = time.monotonic()

    def send(tx: Transaction) -> tuple[PendingRows, PendingRows]:
        tx.wakeups.add(("changes", queue))
        tx.notify_if_claimed = True
        taken = tx.send(
            "claim_jobs", scan_parameters(cached, look, max(0, request.limit), tx.clock) | values
        )
        return taken, tx.send("next_times", {"queue": cached.num, "start": cached.lease_scan.start})

    answer, heads = engine.write(send)
    found = answer.fetchall()
    look.cost = time.monotonic() - began
    same, due, seen, *_, now, token, _ = found[0]
    rows = _sorted_rows(found)
    if not rows and (seen or due or not (same and look.full)):
        return None
    cached.positions.advance(look, _last_positions(rows))
    jobs = _records(cached, request, rows, [token] * len(rows), now)
    if jobs:
        cached.lease_scan.lower(jobs[0].deadline or 0.0)
    return ClaimAnswer(now, [], jobs, cached, heads)


@functools.lru_cache(maxsize=16)
def entry_template(worker: str) -> dict[str, bytes]:
    """The parts that are the same in all journal entries of a worker's claims."""
    packed = pack_entries([Entry(_CLAIM, "", "", _QUEUED, _PROCESSING, 0, 0, worker)])[1:]
    no_names, states, no_numbers = (
        pack_entries(""),
        pack_entries(_QUEUED) + pack_entries(_PROCESSING),
        pack_entries(0),
    )
    head, tail = packed.split(2 * no_names + states + 2 * no_numbers, 1)
    return {"head": head, "states": states, "tail": tail}


def claim_result(engine: Engine, queue: QueueKey, answer: ClaimAnswer) -> ClaimResult:
    """The answer, with lapsed jobs and the time of the next job as far as they can be read."""
    more = answer.end in (ClaimEnd.ENOUGH_BYTES, ClaimEnd.LOCKED_GROUP)
    only = ClaimResult(
        jobs=answer.jobs, verdicts=answer.verdicts, now=answer.now, may_have_more=more
    )
    if answer.cached is None:
        return only
    try:
        return _with_maintenance(engine, queue, answer, answer.cached, only)
    except StoreError as error:
        if not answer.jobs and not answer.verdicts:
            raise
        # The claim is committed: the caller must get its jobs and verdicts.
        logger.warning("what else %s needs is left to the next look: %s", queue, error)
        return only


def _with_maintenance(
    engine: Engine, queue: QueueKey, answer: ClaimAnswer, cached: CachedQueue, only: ClaimResult
) -> ClaimResult:
    *due, leased = _next_times(engine, cached, answer)
    now, lapsed = answer.now, list[Record]()
    if cached.settings.paused:
        due = []
    elif answer.end is ClaimEnd.LOCKED_JOBS:
        due.append(now + LOCKED_JOBS_DELAY)
    if leased is not None and leased <= now:
        lapsed = engine.read(
            lambda tx: queries.leases(tx, engine.queues, queue, None, CLAIM_MAINTENANCE_LIMIT)
        )
        leased = None
    next_at = min((time for time in (*due, leased) if time is not None), default=None)
    return msgspec.structs.replace(only, lapsed=lapsed, next_at=next_at)


def _next_times(engine: Engine, cached: CachedQueue, answer: ClaimAnswer) -> Row:
    """The times of the first scheduled, failing and leased jobs; None where not asked for."""
    if cached.lease_scan.is_due(answer.now):
        began = time.monotonic()
        everything = {"queue": cached.num, "start": -math.inf}
        [heads] = engine.read(lambda tx: tx.rows("next_times", everything))
        cached.lease_scan.finished(heads[2], answer.now, time.monotonic() - began)
        return heads
    return (None, None, None) if answer.heads is None else answer.heads.fetchall()[0]


class ClaimAnswer(NamedTuple):
    """What a claim's transaction has brought."""

    now: float
    verdicts: list[Verdict]
    jobs: list[Record]
    cached: CachedQueue | None
    heads: PendingRows | None
    """Its rows are read after the transaction, so that they cost no round trip of their own."""
    end: ClaimEnd = ClaimEnd.DONE


def claim_answer(
    tx: Transaction,
    cached: CachedQueue,
    verdicts: list[Verdict],
    jobs: list[Record],
    request: ClaimRequest,
) -> ClaimAnswer:
    """The answer of a claim; also asks when the next job is due, unless it found many at once."""
    heads = None
    if len(jobs) < max(SEND_EARLY_FROM, request.limit) and not cached.lease_scan.is_due(tx.now):
        heads = tx.send("next_times", {"queue": cached.num, "start": cached.lease_scan.start})
    return ClaimAnswer(tx.now, verdicts, jobs, cached, heads)


def _claim(
    engine: Engine,
    tx: Transaction,
    queue: QueueKey,
    request: ClaimRequest,
    transitions: Sequence[Transition],
    *,
    wait_for_leases: bool = False,
    reads_past_busy: bool = False,
) -> ClaimAnswer:
    known = engine.queues.cached(queue)
    opening = tx.send("find_queue_and_token", queue_parameters(tx, queue))
    locked, claiming = None, None
    if not wait_for_leases and known is not None and _leaves_ready_jobs_alone(known, transitions):
        # Sent in the same go: nothing is taken if the queue is no longer as remembered.
        locked = request_leases(tx, known, transitions)
        claiming = ClaimRun(tx, known, request, skip_locked_groups=reads_past_busy)
        claiming.begin()
    [row] = opening.fetchall()
    tx.now = row[3]
    cached = engine.queues.confirm(tx, queue, row)
    if claiming is not None and cached is not known:
        # The requests were made for a queue that has changed: none of their rows may be used.
        raise RetryTransaction
    if cached is None:
        return ClaimAnswer(tx.now, [NO_JOB] * len(transitions), [], None, None)
    verdicts: list[Verdict] = []
    if transitions:
        leases = (
            lock_leases(tx, cached, transitions)
            if locked is None
            else read_leases(tx, cached, locked)
        )
        finding = JobLookup(tx, cached, leases)
        verdicts = apply(
            tx, engine.queues, cached, transitions, finding, only_completions=claiming is not None
        )
    if cached.settings.paused:
        return claim_answer(tx, cached, verdicts, [], request)
    claiming = claiming or ClaimRun(tx, cached, request, skip_locked_groups=reads_past_busy)
    jobs = claiming.run(row[4])
    return claim_answer(tx, cached, verdicts, jobs, request)._replace(end=claiming.end)


def _leaves_ready_jobs_alone(cached: CachedQueue, transitions: Sequence[Transition]) -> bool:
    """Whether the jobs that are claimed next do not depend on these transitions."""
    if cached.settings.paused:
        return False
    bodies = cached.jobs
    for transition in transitions:
        body = bodies.get(transition.id)
        if transition.act is not Act.COMPLETE or body is None or body[2] is not None:
            return False
    return True
