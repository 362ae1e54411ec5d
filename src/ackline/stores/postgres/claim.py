"""Leases: handed out, and found when they lapse."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from ackline.errors import CannotJoin
from ackline.events import Act, Entry
from ackline.job import NO_OPTIONS, QueueKey, Record, State
from ackline.lifecycle import Transition, Verdict
from ackline.stores.base import REPAIR_LIMIT, Claimed, ClaimRequest
from ackline.stores.postgres import look
from ackline.stores.postgres.apply import GONE, NotPlain, apply
from ackline.stores.postgres.arrays import Floats, Ints
from ackline.stores.postgres.codes import ODD, decode_options, name_of
from ackline.stores.postgres.engine import Engine
from ackline.stores.postgres.exchange import Row
from ackline.stores.postgres.finding import Finding, send_for_leases
from ackline.stores.postgres.groups import change_groups, running_in
from ackline.stores.postgres.hints import Look
from ackline.stores.postgres.homes import Homes
from ackline.stores.postgres.picking import Picking, past_of
from ackline.stores.postgres.queues import QueueEntry, names_of
from ackline.stores.postgres.transaction import MANY, Again, Sent, Transaction

_CLAIM, _QUEUED, _PROCESSING = Act.CLAIM, State.QUEUED, State.PROCESSING
_RANK, _JOB, _ATTEMPTS, _TOKEN = 3, 4, 7, 8
_ID, _KIND, _GROUP, _PRIORITY, _CREATED, _OPTIONS, _PAYLOAD = 9, 10, 11, 12, 13, 14, 15
"""Columns of a row of `pick`."""

LOOKS = 3
"""How often one claim looks again for jobs that others were quicker to take."""

SOON = 0.2
"""Seconds after which to look again at jobs that others have locked; they may be put back."""

STRIDE = 500
"""How many jobs more than wanted are looked at, past a group that is full."""


def claim(
    engine: Engine, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition]
) -> Claimed:
    """Apply, promote what is due, lease the next in line, tell what has lapsed."""
    try:
        answer = engine.write(lambda tx: _claim(engine, tx, queue, request, transitions))
    except NotPlain:
        # A lease was lost, and its job may be among those that were just asked for.
        answer = engine.write(
            lambda tx: _claim(engine, tx, queue, request, transitions, patient=True)
        )
    return claimed(engine, queue, answer)


def claimed(engine: Engine, queue: QueueKey, answer: Answer) -> Claimed:
    """The answer with what there is to look after."""
    if answer.entry is None:
        return Claimed(jobs=[], verdicts=answer.verdicts, now=answer.now)
    heads = _heads(engine, answer.entry, answer)
    soon = answer.now + SOON if answer.passed else None
    leased, now, lapsed = heads[2], answer.now, list[Record]()
    if leased is not None and leased <= now:
        lapsed = engine.read(lambda tx: look.leases(tx, engine.queues, queue, None, REPAIR_LIMIT))
    return Claimed(
        jobs=answer.jobs,
        verdicts=answer.verdicts,
        lapsed=lapsed,
        next_at=min((time for time in (*heads, soon) if time is not None), default=None),
        now=now,
    )


def _heads(engine: Engine, entry: QueueEntry, answer: Answer) -> Row:
    """When the first scheduled, failing and leased jobs have their time, as far as it was asked."""
    if entry.ahead.is_due(answer.now):
        began = time.monotonic()
        everything = {"queue": entry.num, "start": -math.inf}
        [heads] = engine.read(lambda tx: tx.rows("heads", everything))
        entry.ahead.saw(heads[2], answer.now, time.monotonic() - began)
        return heads
    return (None, None, None) if answer.heads is None else answer.heads.fetchall()[0]


class Answer(NamedTuple):
    """What a transaction has claimed."""

    now: float
    verdicts: list[Verdict]
    jobs: list[Record]
    entry: QueueEntry | None
    heads: Sent | None
    """Read when the transaction is over, so that nobody waits for it alone."""
    passed: bool = False
    """Whether there was nothing to take but what others had locked."""


def answered(
    tx: Transaction,
    entry: QueueEntry,
    verdicts: list[Verdict],
    jobs: list[Record],
    request: ClaimRequest,
) -> Answer:
    """The answer of a claim, which asks what comes next unless it found many and wants more."""
    heads = None
    if len(jobs) < max(MANY, request.limit) and not entry.ahead.is_due(tx.now):
        heads = tx.send("heads", {"queue": entry.num, "start": entry.ahead.start})
    return Answer(tx.now, verdicts, jobs, entry, heads)


def _claim(
    engine: Engine,
    tx: Transaction,
    queue: QueueKey,
    request: ClaimRequest,
    transitions: Sequence[Transition],
    *,
    patient: bool = False,
) -> Answer:
    known = engine.queues.remembered(queue)
    opening = tx.send("begin_claim", names_of(tx, queue))
    locked, claiming = None, None
    if not patient and known is not None and _changes_no_line(known, transitions):
        # Asked for together: it takes nothing if the queue is no longer as it is remembered.
        locked = send_for_leases(tx, known, transitions)
        claiming = Claim(tx, known, request)
        claiming.begin()
    [row] = opening.fetchall()
    tx.now = row[3]
    entry = engine.queues.confirm(tx, queue, row)
    if claiming is not None and entry is not known:
        # What was asked for belongs to a queue that has changed: not a row of it may be kept.
        raise Again
    if entry is None:
        return Answer(tx.now, [GONE] * len(transitions), [], None, None)
    verdicts: list[Verdict] = []
    if transitions:
        locked = locked if locked is not None else send_for_leases(tx, entry, transitions)
        finding = Finding(tx, entry, locked)
        verdicts = apply(
            tx, engine.queues, entry, transitions, finding, only_plain=claiming is not None
        )
    if entry.settings.paused:
        return answered(tx, entry, verdicts, [], request)
    claiming = claiming or Claim(tx, entry, request)
    jobs = claiming.run(row[4])
    return answered(tx, entry, verdicts, jobs, request)._replace(passed=claiming.passed)


def _changes_no_line(entry: QueueEntry, transitions: Sequence[Transition]) -> bool:
    """Whether what is claimed next does not depend on these transitions."""
    if entry.settings.paused:
        return False
    bodies = entry.bodies
    for transition in transitions:
        body = bodies.get(transition.id)
        if transition.act is not Act.COMPLETE or body is None or body[2] is not None:
            return False
    return True


class Claim:
    """One claim of jobs."""

    def __init__(self, tx: Transaction, entry: QueueEntry, request: ClaimRequest) -> None:
        self._tx = tx
        self._entry = entry
        self._request = request
        self._token = 0
        self._picking = Picking(tx, entry)
        kinds, lines = request.kinds, entry.lines
        self._wanted = [line for kind, line in lines.items() if kinds is None or kind in kinds]
        self._look: Look | None = None
        self._again = False
        self._homes = Homes(tx, entry)
        self._taken: list[Row] = []
        self._entered: Counter[str] = Counter()
        self._running: dict[str, int] = {}

    @property
    def passed(self) -> bool:
        """Whether it has passed over jobs that others have locked, and taken none."""
        return not self._taken and self._picking.seen > 0

    def begin(self) -> None:
        """Ask for jobs, without waiting for the answer yet."""
        self._look = self._entry.hints.look(self._wanted)
        self._picking.send(self._look, max(0, self._request.limit))

    def run(self, token: int = 0) -> list[Record]:
        """Take the next jobs whose groups have room, and lease them."""
        self._token, picking = token, self._picking
        look: Look | None = self._look or self._entry.hints.look(self._wanted)
        more, vain = 0, 0
        while look is not None:
            need = max(0, self._request.limit - len(self._taken))
            rows = picking.pick(look, need + more)
            parked = self._sort_out(rows)
            if len(self._taken) >= self._request.limit:
                break
            if parked:
                # A full group stands ahead: look past it in longer and longer strides.
                more = min(STRIDE, 2 * more + 16)
                continue
            vain += 1
            if picking.seen <= len(rows) or vain > LOOKS:
                look = self._look_again(look)
        self._homes.write()
        if self._running:
            change_groups(
                self._tx, self._entry, {name: self._entered[name] for name in self._running}
            )
        return self._lease() if self._taken else []

    def _look_again(self, look: Look) -> Look | None:
        """Where nothing was found behind the hints, look from further back, once."""
        if look.full or self._taken or self._again:
            return None
        self._again = True
        return self._entry.hints.look_again(self._wanted)

    def _sort_out(self, rows: list[Row]) -> int:
        """Take jobs whose groups have room, park the others; answers how many were parked."""
        groups = {row[_GROUP] for row in rows if row[_GROUP] is not None}
        if groups and self._tx.callers:
            raise CannotJoin(
                f"{self._entry.key} has jobs of groups, whose places would stay locked until you "
                "commit: claim kinds= without groups, or not in a transaction; nothing was done"
            )
        unknown = {name_of(group) for group in groups} - self._running.keys()
        if unknown:
            self._running |= running_in(self._tx, self._entry, unknown)
        if not groups and len(self._taken) + len(rows) <= self._request.limit:
            self._taken += rows
            return 0
        parked = 0
        for row in rows:
            kind, rank, past = name_of(row[_KIND]), row[_RANK], past_of(row)
            if len(self._taken) >= self._request.limit:
                self._homes.ready(row[_JOB], kind, ODD, rank, past)
                continue
            if row[_GROUP] is not None:
                group = name_of(row[_GROUP])
                if self._running[group] + self._entered[group] >= self._entry.settings.group_limit:
                    self._homes.park(row[_JOB], kind, group, rank, past)
                    parked += 1
                    continue
                self._entered[group] += 1
            self._taken.append(row)
        return parked

    def _lease(self) -> list[Record]:
        tx, entry, worker = self._tx, self._entry, self._request.worker
        token = self._above(max(row[_TOKEN] or 0 for row in self._taken))
        records = [_record(row, token, self._request, tx.now) for row in self._taken]
        rows_of: dict[float, list[Row]] = {}
        for row, record in zip(self._taken, records, strict=True):
            rows_of.setdefault(record.deadline or 0.0, []).append(row)
            group = row[_GROUP]
            body = (row[_JOB], record.kind, group and name_of(group), record.priority)
            entry.remember(record.id, body)
        for deadline, rows in rows_of.items():
            values = {"token": token, "queue": entry.num, "worker": worker.encode()}
            values |= {"started": tx.now, "deadline": deadline, "asked": Ints([])}
            values |= _lease_arrays(rows)
            tx.send("add_lease", values)
            entry.ahead.lower(deadline)
        told = tx.told(entry.key, entry.num)
        tx.shift(entry.num, _QUEUED, _PROCESSING, len(records))
        told.entries += [
            Entry(_CLAIM, job.id, job.kind, _QUEUED, _PROCESSING, job.attempts, token, worker)
            for job in records
        ]
        return records

    def _above(self, highest: int) -> int:
        """A token above those that the jobs had before."""
        if self._token <= highest:
            self._token = self._tx.next_token(highest)
        return self._token


def _lease_arrays(rows: list[Row]) -> dict[str, Any]:
    return {
        "jobs": Ints([row[_JOB] for row in rows]),
        "attempts": Ints([(row[_ATTEMPTS] or 0) + 1 for row in rows]),
        "ranks": Floats([row[_RANK] for row in rows]),
    }


def _record(row: Row, token: int, request: ClaimRequest, now: float) -> Record:
    kind = name_of(row[_KIND])
    options, lease = NO_OPTIONS, request.lease_of_kind.get(kind, request.lease)
    if row[_OPTIONS] is not None:
        options = decode_options(row[_OPTIONS])
        lease = options.lease or lease
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
        now + lease,
    )
