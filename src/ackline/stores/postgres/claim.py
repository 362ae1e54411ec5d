"""A claim: apply transitions, promote due jobs, lease the next ones, report lapsed leases.

If the jobs are plain, a claim is one statement (`claim_jobs`). Otherwise, it is done in steps:
`take_jobs` removes the next jobs from the ready ones, their groups are checked, and those that may
run are leased.
"""

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
from ackline.core.lifecycle import Transition, Verdict, rank
from ackline.stores.contract import ClaimRequest, ClaimResult
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
from ackline.stores.postgres.queue_cache import (
    JOB_GROUP,
    CachedQueue,
    decode_name,
    queue_parameters,
)
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

logger = logging.getLogger("ackline")

_SAME, _DUE, _SCANNED, _RANK, _JOB, _KIND_ID, _LANE, _ATTEMPTS, _TOKEN = range(9)
_ID, _KIND, _GROUP, _PRIORITY, _CREATED, _OPTIONS, _PAYLOAD = range(9, 16)
_WORKER, _STARTED, _ACT = range(16, 19)
"""Columns of a row of `take_jobs`."""


# --- due jobs ---


def promote(tx: Transaction, cached: CachedQueue, limit: int) -> int:
    """Queue jobs that are due, the earliest first; returns how many."""
    values = {"queue": cached.num, "now": tx.now, "limit": limit, "ageing": cached.settings.ageing}
    rows = sorted(tx.rows("promote", values))
    if not rows:
        return 0
    changes, first_positions = tx.changes_of(cached.key, cached.num), dict[Lane, Position]()
    for at, num, id, kind, priority, code, attempts, kind_id in rows:
        source = STATES_BY_CODE[code]
        tx.change_counts(cached.num, source, State.QUEUED)
        changes.entries.append(
            Entry(Act.PROMOTE, id.decode(), decode_name(kind), source, State.QUEUED, attempts)
        )
        position = (rank(at, priority, cached.settings.ageing), num)
        lane = (kind_id, FIRST_PROMOTED_LANE + priority)
        first_positions[lane] = min(position, first_positions.get(lane, position))
    for (kind_id, lane_number), position in first_positions.items():
        # Not only after the commit: this transaction may be about to claim them.
        cached.positions.step_back_to(kind_id, lane_number, position)
    return len(rows)


# --- which jobs are next ---


class JobSelector:
    """Finds the next jobs for one claim, and takes them out of the ready ones."""

    def __init__(self, tx: Transaction, cached: CachedQueue) -> None:
        self.scanned = 0
        """How many jobs the last scan read, including those that others have locked."""
        self._tx = tx
        self._cached = cached
        # Jobs that are promoted in a borrowed transaction would stay locked until its end.
        self._promoted = tx.is_borrowed
        self._sent: tuple[float, PendingRows] | None = None

    def send(self, scan: Scan, limit: int, max_bytes: int | None) -> None:
        """Send the request for the next jobs; `take` reads the response."""
        started = time.monotonic()
        values = scan_parameters(self._cached, scan, limit, self._tx.clock, promoted=self._promoted)
        if max_bytes is None:
            self._sent = started, self._tx.send("take_jobs", values)
        else:
            values |= {"max_bytes": max_bytes}
            self._sent = started, self._tx.send("take_jobs_within", values)

    def take(self, scan: Scan, limit: int, max_bytes: int | None) -> list[Row]:
        """Take the next jobs, after promoting those that are due."""
        while True:
            if self._sent is None:
                self.send(scan, limit, max_bytes)
            first, rows = self._receive(scan)
            if not first[_SAME]:
                # The settings or kinds of the queue have changed.
                raise RetryTransaction
            if not first[_DUE] or self._promoted:
                break
            promote(self._tx, self._cached, self._cached.settings.repair_limit)
            self._promoted = True
            scan = self._cached.positions.start_scan(dict.fromkeys(scan.kind_ids))
        self.scanned = first[_SCANNED]
        self._record_positions(scan, rows)
        return rows

    def _receive(self, scan: Scan) -> tuple[Row, list[Row]]:
        assert self._sent is not None
        (sent_at, cursor), self._sent = self._sent, None
        rows = cursor.fetchall()
        scan.cost = time.monotonic() - sent_at
        return rows[0], _sorted_rows(rows)

    def _record_positions(self, scan: Scan, rows: list[Row]) -> None:
        positions = self._cached.positions
        self._tx.on_commit.append(lambda: positions.advance(scan, _last_positions(rows)))


def scan_parameters(
    cached: CachedQueue, scan: Scan, limit: int, clock: float | None, *, promoted: bool = False
) -> dict[str, Any]:
    """The parameters of `next_jobs`."""
    return {
        "queue": cached.num,
        "version": cached.version,
        "now": clock,
        "promoted": int(promoted),
        "kind_ids": Ints(scan.kind_ids),
        "lanes": Ints(scan.lanes),
        "ranks": Floats(scan.ranks),
        "jobs": Ints(scan.jobs),
        "limit": limit,
    }


def _sorted_rows(rows: list[Row]) -> list[Row]:
    taken = [row for row in rows if row[_JOB] is not None]
    taken.sort(key=_position_of)
    return taken


def _position_of(row: Row) -> Position:
    return row[_RANK], row[_JOB]


def _last_positions(rows: list[Row]) -> dict[Lane, Position]:
    return {(row[_KIND_ID], row[_LANE]): _position_of(row) for row in rows}


def last_lease_of(row: Row) -> LastLease:
    """The last lease of a job, from a row of `take_jobs`."""
    act = row[_ACT]
    return LastLease(
        row[_ATTEMPTS] or 0,
        row[_TOKEN] or 0,
        decode_name(row[_WORKER]) if row[_WORKER] else "",
        row[_STARTED],
        None if act is None else SETTLING_ACTS[act],
    )


# --- leasing them ---

_CLAIM, _QUEUED, _PROCESSING = Act.CLAIM, State.QUEUED, State.PROCESSING

MAX_SCANS = 3
"""How many times a claim scans again after other claims have taken the jobs first."""

MAX_READ_AHEAD = 500
"""The most jobs that a claim reads beyond its limit, to get past a full group."""

PARK_LIMIT = 5000
"""The most jobs of full groups that one transaction parks; it locks the groups."""


class ClaimEnd(enum.Enum):
    """Why a claim has not taken more jobs."""

    DONE = enum.auto()
    """It has as many as requested, or there are no more."""
    ENOUGH_BYTES = enum.auto()
    """Its jobs have reached the limit of bytes."""
    LOCKED_GROUP = enum.auto()
    """Another transaction has locked the group of the next job."""
    FULL_GROUPS = enum.auto()
    """It has taken none, and has parked `PARK_LIMIT` jobs of full groups."""
    LOCKED_JOBS = enum.auto()
    """It has taken none, and skipped jobs that others have locked."""


class ClaimRun:
    """One claim in steps: which jobs it takes, parks or puts back."""

    def __init__(
        self,
        tx: Transaction,
        cached: CachedQueue,
        request: ClaimRequest,
        *,
        skip_locked_groups: bool = True,
    ) -> None:
        """With `skip_locked_groups`, goes on after a group that another transaction has locked."""
        self._tx = tx
        self._cached = cached
        self._request = request
        limit = cached.settings.group_limit
        self._group_limit = math.inf if request.ignore_group_limit else limit
        self._skip_locked_groups = skip_locked_groups
        self._token = 0
        self._selector = JobSelector(tx, cached)
        kinds, kind_ids = request.kinds, cached.kind_ids
        self._kind_ids = [
            kind_id for kind, kind_id in kind_ids.items() if kinds is None or kind in kinds
        ]
        self._scan: Scan | None = None
        self._rescanned = False
        self._job_rows = NewRows(tx, cached)
        self._taken: list[Row] = []
        self._added_to_groups: Counter[str] = Counter()
        self._running: dict[str, int] = {}
        self._locked_groups: set[str] = set()
        self._parked = self._skipped = 0
        self._byte_limit = ByteLimit(request.max_bytes)

    @property
    def end(self) -> ClaimEnd:
        """Why it has not taken more jobs."""
        if self._byte_limit.reached:
            return ClaimEnd.ENOUGH_BYTES
        if self._is_at_locked_group:
            return ClaimEnd.LOCKED_GROUP
        if not self._taken and self._parked >= PARK_LIMIT:
            return ClaimEnd.FULL_GROUPS
        if not self._taken and (self._selector.scanned > 0 or self._locked_groups):
            return ClaimEnd.LOCKED_JOBS
        return ClaimEnd.DONE

    @property
    def _is_at_locked_group(self) -> bool:
        return bool(self._locked_groups) and not self._skip_locked_groups

    def begin(self) -> None:
        """Send the request for the first jobs, without waiting for the response."""
        self._scan = self._cached.positions.start_scan(self._kind_ids)
        self._selector.send(self._scan, max(0, self._request.limit), self._byte_limit.remaining)

    def run(self, token: int = 0) -> list[Record]:
        """Take the next jobs whose groups are not full, and lease them."""
        self._token, selector = token, self._selector
        scan: Scan | None = self._scan or self._cached.positions.start_scan(self._kind_ids)
        read_ahead, empty_scans = 0, 0
        while scan is not None:
            need = max(0, self._request.limit - len(self._taken))
            rows = selector.take(scan, need + read_ahead, self._byte_limit.remaining)
            skipped = self._apply_group_limits(rows)
            if self._full or self._is_at_locked_group:
                break
            if max(self._parked, self._skipped) >= PARK_LIMIT:
                break
            if skipped:
                # Jobs of a full group come first: read ever more to get past them.
                read_ahead = min(MAX_READ_AHEAD, 2 * read_ahead + 16)
                continue
            empty_scans += 1
            if selector.scanned <= len(rows) or empty_scans > MAX_SCANS:
                scan = self._rescan(scan)
        self._job_rows.write()
        if self._running:
            change_running(
                self._tx,
                self._cached,
                {name: self._added_to_groups[name] for name in self._running},
            )
        return self._lease() if self._taken else []

    @property
    def _full(self) -> bool:
        return len(self._taken) >= self._request.limit or self._byte_limit.reached

    def _rescan(self, scan: Scan) -> Scan | None:
        """If nothing was found after the positions, start further back, once."""
        if scan.full or self._taken or self._rescanned:
            return None
        self._rescanned = True
        return self._cached.positions.rescan(self._kind_ids)

    def _apply_group_limits(self, rows: list[Row]) -> int:
        """Take the jobs whose groups are not full; returns how many were parked or put back."""
        groups = {row[_GROUP] for row in rows if row[_GROUP] is not None}
        if groups and self._tx.is_borrowed:
            raise CannotJoin(
                f"{self._cached.key} has jobs of groups, which would be locked until you commit: "
                "claim kinds= without groups, or outside a transaction; nothing was done"
            )
        unknown = (
            {decode_name(group) for group in groups} - self._running.keys() - self._locked_groups
        )
        if unknown:
            self._running |= lock_free_groups(self._tx, self._cached, unknown)
            self._locked_groups |= unknown - self._running.keys()
        if not groups and len(self._taken) + len(rows) <= self._request.limit:
            for row in rows if self._byte_limit.has_limit else ():
                self._byte_limit.add(_size(row))
            self._taken += rows
            return 0
        skipped = 0
        for row in rows:
            if self._full:
                self._put_back(row)
            elif row[_GROUP] is None or self._take_group_slot(row, decode_name(row[_GROUP])):
                self._taken.append(row)
                self._byte_limit.add(_size(row))
            else:
                skipped += 1
        return skipped

    def _take_group_slot(self, row: Row, group: str) -> bool:
        """Take a slot of the job's group; if it is full or locked, park the job or put it back."""
        if group in self._locked_groups:
            # Not parked: the transaction that has the lock may already have unparked the group.
            self._put_back(row)
            self._skipped += 1
            return False
        if self._running[group] + self._added_to_groups[group] >= self._group_limit:
            self._job_rows.park(
                row[_JOB], decode_name(row[_KIND]), group, row[_RANK], last_lease_of(row)
            )
            self._parked += 1
            return False
        self._added_to_groups[group] += 1
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
            cached.lease_scan.include(deadline)
        changes = tx.changes_of(cached.key, cached.num)
        tx.change_counts(cached.num, _QUEUED, _PROCESSING, len(records))
        changes.entries += [
            Entry(_CLAIM, job.id, job.kind, _QUEUED, _PROCESSING, job.attempts, job.token, worker)
            for job in records
        ]
        return records

    def _tokens(self) -> list[int]:
        """A token for each job: the same one, except for kinds that are leased one by one."""
        tokens = [self._token_above(max(row[_TOKEN] or 0 for row in self._taken))] * len(
            self._taken
        )
        kinds = self._cached.single_lease_kinds
        separate = [
            n for n, row in enumerate(self._taken) if kinds and decode_name(row[_KIND]) in kinds
        ]
        if separate and not self._tx.is_borrowed:
            # Separate rows are not enough: a SERIALIZABLE transaction conflicts with changes of any
            # row that it has read, including other rows with the same token.
            more = self._tx.rows("more_tokens", {"count": len(separate)})
            for n, (token,) in zip(separate, more, strict=True):
                tokens[n] = token
        return tokens

    def _token_above(self, highest: int) -> int:
        """A token above the ones that the jobs had before."""
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
    """The records of the claimed jobs, which are also cached."""
    records = []
    for row, token in zip(rows, tokens, strict=True):
        record = _record(row, token, request, now)
        group = row[_GROUP]
        cached.cache_job(
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


# --- the whole call ---

LOCKED_GROUP_DELAYS = (0.001, 0.002, 0.004, 0.008)
"""Seconds to wait before each retry at a locked group; most locks are released sooner."""

LOCKED_JOBS_DELAY = 0.2
"""Seconds after which to retry jobs that others have locked: a rollback may release them."""


def claim(
    engine: Engine, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition]
) -> ClaimResult:
    """Apply the transitions, promote due jobs, lease the next ones, and report lapsed leases."""
    if not transitions and (answer := _claim_in_one_statement(engine, queue, request)) is not None:
        return claim_result(engine, queue, answer)
    try:
        answer = engine.write(lambda tx: _claim(engine, tx, queue, request, transitions))
    except NeedsLookup:
        # A lease was lost, and its job may be among those that were requested early.
        answer = engine.write(
            lambda tx: _claim(engine, tx, queue, request, transitions, wait_for_leases=True)
        )
    delays = list(LOCKED_GROUP_DELAYS)
    while answer.end is ClaimEnd.FULL_GROUPS or (
        answer.end is ClaimEnd.LOCKED_GROUP and not answer.jobs
    ):
        if answer.end is ClaimEnd.LOCKED_GROUP:
            # Outside a transaction, so that no locks are kept meanwhile.
            time.sleep(delays.pop(0))
        again = functools.partial(
            _claim,
            engine,
            queue=queue,
            request=request,
            transitions=(),
            skip_locked_groups=not delays,
        )
        answer = engine.write(again)._replace(verdicts=answer.verdicts)
    return claim_result(engine, queue, answer)


def _claim_in_one_statement(
    engine: Engine, queue: QueueKey, request: ClaimRequest
) -> ClaimAnswer | None:
    """A claim by one statement; None if the jobs have to be claimed in steps."""
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
    # Behind a pooler, `notify` may run in another session, without the setting of `claim_jobs`.
    if len(seconds) != 1 or request.max_bytes is not None or not engine.address.keeps_sessions:
        return None
    scan = cached.positions.start_scan([cached.kind_ids[kind] for kind in kinds])
    values = {"worker": request.worker.encode(), "seconds": float(seconds.pop())}
    values |= entry_template(request.worker)
    started = time.monotonic()

    def send(tx: Transaction) -> tuple[PendingRows, PendingRows]:
        tx.wakeups.add(("changes", queue))
        tx.notify_if_claimed = True
        taken = tx.send(
            "claim_jobs", scan_parameters(cached, scan, max(0, request.limit), tx.clock) | values
        )
        return taken, tx.send("next_times", {"queue": cached.num, "start": cached.lease_scan.start})

    answer, next_times = engine.write(send)
    found = answer.fetchall()
    scan.cost = time.monotonic() - started
    same, due, scanned, *_, now, token, _ = found[0]
    rows = _sorted_rows(found)
    if not rows and (scanned or due or not (same and scan.full)):
        return None
    cached.positions.advance(scan, _last_positions(rows))
    jobs = _records(cached, request, rows, [token] * len(rows), now)
    if jobs:
        cached.lease_scan.include(jobs[0].deadline or 0.0)
    return ClaimAnswer(now, [], jobs, cached, next_times)


@functools.lru_cache(maxsize=16)
def entry_template(worker: str) -> dict[str, bytes]:
    """The parts that all journal entries of a worker's claims have in common."""
    packed = pack_entries([Entry(_CLAIM, "", "", _QUEUED, _PROCESSING, 0, 0, worker)])[1:]
    no_names, states, no_numbers = (
        pack_entries(""),
        pack_entries(_QUEUED) + pack_entries(_PROCESSING),
        pack_entries(0),
    )
    head, tail = packed.split(2 * no_names + states + 2 * no_numbers, 1)
    return {"head": head, "states": states, "tail": tail}


def claim_result(engine: Engine, queue: QueueKey, answer: ClaimAnswer) -> ClaimResult:
    """The result, with lapsed leases and the time of the next job if these can be read."""
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
        # The claim is committed, so the caller must get its jobs and verdicts.
        logger.warning(
            "%s: could not read lapsed leases and due times; the next claim will: %s", queue, error
        )
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
        limit = cached.settings.repair_limit
        lapsed = engine.read(lambda tx: queries.leases(tx, engine.queues, queue, None, limit))
        leased = None
    next_at = min((time for time in (*due, leased) if time is not None), default=None)
    return msgspec.structs.replace(only, lapsed=lapsed, next_at=next_at)


def _next_times(engine: Engine, cached: CachedQueue, answer: ClaimAnswer) -> Row:
    """The times of the first scheduled, failing and leased job, if they were requested."""
    if cached.lease_scan.is_due(answer.now):
        started = time.monotonic()
        everything = {"queue": cached.num, "start": -math.inf}
        [next_times] = engine.read(lambda tx: tx.rows("next_times", everything))
        cached.lease_scan.finished(next_times[2], answer.now, time.monotonic() - started)
        return next_times
    return (None, None, None) if answer.next_times is None else answer.next_times.fetchall()[0]


class ClaimAnswer(NamedTuple):
    """What the transaction of a claim returned."""

    now: float
    verdicts: list[Verdict]
    jobs: list[Record]
    cached: CachedQueue | None
    next_times: PendingRows | None
    """Its rows are read after the commit, so that they cost no round trip of their own."""
    end: ClaimEnd = ClaimEnd.DONE


def claim_answer(
    tx: Transaction,
    cached: CachedQueue,
    verdicts: list[Verdict],
    jobs: list[Record],
    request: ClaimRequest,
) -> ClaimAnswer:
    """The answer of a claim; unless it has many jobs, also requests when the next one is due."""
    next_times = None
    if len(jobs) < max(SEND_EARLY_FROM, request.limit) and not cached.lease_scan.is_due(tx.now):
        next_times = tx.send("next_times", {"queue": cached.num, "start": cached.lease_scan.start})
    return ClaimAnswer(tx.now, verdicts, jobs, cached, next_times)


def _claim(
    engine: Engine,
    tx: Transaction,
    queue: QueueKey,
    request: ClaimRequest,
    transitions: Sequence[Transition],
    *,
    wait_for_leases: bool = False,
    skip_locked_groups: bool = False,
) -> ClaimAnswer:
    assumed = engine.queues.cached(queue)
    queue_row = tx.send("find_queue_and_token", queue_parameters(tx, queue))
    locked, run = None, None
    if (
        not wait_for_leases
        and assumed is not None
        and _cannot_change_ready_jobs(assumed, transitions)
    ):
        # Sent together: no jobs are taken if the queue is no longer as it was cached.
        locked = request_leases(tx, assumed, transitions)
        run = ClaimRun(tx, assumed, request, skip_locked_groups=skip_locked_groups)
        run.begin()
    [row] = queue_row.fetchall()
    tx.now = row[3]
    cached = engine.queues.confirm(tx, queue, row)
    if run is not None and cached is not assumed:
        # The requests were for an earlier version of the queue, so their rows cannot be used.
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
        lookup = JobLookup(tx, cached, leases)
        verdicts = apply(
            tx, engine.queues, cached, transitions, lookup, only_completions=run is not None
        )
    if cached.settings.paused:
        return claim_answer(tx, cached, verdicts, [], request)
    run = run or ClaimRun(tx, cached, request, skip_locked_groups=skip_locked_groups)
    jobs = run.run(row[4])
    return claim_answer(tx, cached, verdicts, jobs, request)._replace(end=run.end)


def _cannot_change_ready_jobs(cached: CachedQueue, transitions: Sequence[Transition]) -> bool:
    """Whether these transitions cannot change which jobs are next."""
    if cached.settings.paused:
        return False
    cached_jobs = cached.jobs
    for transition in transitions:
        cached_job = cached_jobs.get(transition.id)
        if (
            transition.act is not Act.COMPLETE
            or cached_job is None
            or cached_job[JOB_GROUP] is not None
        ):
            return False
    return True
