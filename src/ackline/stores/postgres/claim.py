"""Leases: handed out, and found when they lapse."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from ackline.errors import CannotJoin, StoreError
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
from ackline.stores.postgres.finding import (
    Finding,
    locked_leases,
    received,
    send_for_leases,
)
from ackline.stores.postgres.groups import change_groups, enter_free
from ackline.stores.postgres.hints import Look
from ackline.stores.postgres.homes import Homes
from ackline.stores.postgres.picking import Picking, past_of
from ackline.stores.postgres.queues import QueueEntry, names_of
from ackline.stores.postgres.transaction import MANY, Again, Sent, Transaction

logger = logging.getLogger("ackline")

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

MOST_PARKED = 5000
"""How many jobs of full groups one transaction puts aside: others wait for its end."""


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
    while answer.cut_short:
        further = engine.write(lambda tx: _claim(engine, tx, queue, request, ()))
        answer = further._replace(verdicts=answer.verdicts)
    return claimed(engine, queue, answer)


def claimed(engine: Engine, queue: QueueKey, answer: Answer) -> Claimed:
    """The answer with what there is to look after, as far as that can be seen."""
    only = Claimed(jobs=answer.jobs, verdicts=answer.verdicts, now=answer.now)
    if answer.entry is None:
        return only
    try:
        return _looked_after(engine, queue, answer, answer.entry)
    except StoreError as error:
        if not answer.jobs and not answer.verdicts:
            raise
        # It is done: the caller must hear of what it has got.
        logger.warning("what else %s needs is left to the next look: %s", queue, error)
        return only


def _looked_after(engine: Engine, queue: QueueKey, answer: Answer, entry: QueueEntry) -> Claimed:
    *due, leased = _heads(engine, entry, answer)
    now, lapsed = answer.now, list[Record]()
    if entry.settings.paused:
        due = []
    elif answer.passed:
        due.append(now + SOON)
    if leased is not None and leased <= now:
        lapsed = engine.read(lambda tx: look.leases(tx, engine.queues, queue, None, REPAIR_LIMIT))
    return Claimed(
        jobs=answer.jobs,
        verdicts=answer.verdicts,
        lapsed=lapsed,
        next_at=min((time for time in (*due, leased) if time is not None), default=None),
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
    cut_short: bool = False
    """Whether it has put so many jobs of full groups aside that it took none yet."""


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
        leases = (
            locked_leases(tx, entry, transitions) if locked is None else received(tx, entry, locked)
        )
        finding = Finding(tx, entry, leases)
        verdicts = apply(
            tx, engine.queues, entry, transitions, finding, only_plain=claiming is not None
        )
    if entry.settings.paused:
        return answered(tx, entry, verdicts, [], request)
    claiming = claiming or Claim(tx, entry, request)
    jobs = claiming.run(row[4])
    return answered(tx, entry, verdicts, jobs, request)._replace(
        passed=claiming.passed, cut_short=claiming.cut_short
    )


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
        self._busy: set[str] = set()
        self._parked = self._left_there = 0

    @property
    def cut_short(self) -> bool:
        """Whether it has stopped among jobs of full groups, and taken none."""
        return not self._taken and self._parked >= MOST_PARKED

    @property
    def passed(self) -> bool:
        """Whether it has passed over jobs that others have locked, and taken none."""
        return not self._taken and (self._picking.seen > 0 or bool(self._busy))

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
            aside = self._sort_out(rows)
            if len(self._taken) >= self._request.limit:
                break
            if max(self._parked, self._left_there) >= MOST_PARKED:
                break
            if aside:
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
        """Take jobs whose groups have room; answers how many were set aside."""
        groups = {row[_GROUP] for row in rows if row[_GROUP] is not None}
        if groups and self._tx.callers:
            raise CannotJoin(
                f"{self._entry.key} has jobs of groups, whose places would stay locked until you "
                "commit: claim kinds= without groups, or not in a transaction; nothing was done"
            )
        unknown = {name_of(group) for group in groups} - self._running.keys() - self._busy
        if unknown:
            self._running |= enter_free(self._tx, self._entry, unknown)
            self._busy |= unknown - self._running.keys()
        if not groups and len(self._taken) + len(rows) <= self._request.limit:
            self._taken += rows
            return 0
        aside = 0
        for row in rows:
            if len(self._taken) >= self._request.limit:
                self._put_back(row)
            elif row[_GROUP] is None or self._enter(row, name_of(row[_GROUP])):
                self._taken.append(row)
            else:
                aside += 1
        return aside

    def _enter(self, row: Row, group: str) -> bool:
        """Take a place in a job's group; if none is free, the job is set aside."""
        if group in self._busy:
            # Not parked: who has the group may have let others forward already.
            self._put_back(row)
            self._left_there += 1
            return False
        if self._running[group] + self._entered[group] >= self._entry.settings.group_limit:
            self._homes.park(row[_JOB], name_of(row[_KIND]), group, row[_RANK], past_of(row))
            self._parked += 1
            return False
        self._entered[group] += 1
        return True

    def _put_back(self, row: Row) -> None:
        self._homes.ready(row[_JOB], name_of(row[_KIND]), ODD, row[_RANK], past_of(row))

    def _lease(self) -> list[Record]:
        tx, entry, worker = self._tx, self._entry, self._request.worker
        records = [
            _record(row, token, self._request, tx.now)
            for row, token in zip(self._taken, self._tokens(), strict=True)
        ]
        rows_of: dict[tuple[float, int], list[Row]] = {}
        for row, record in zip(self._taken, records, strict=True):
            rows_of.setdefault((record.deadline or 0.0, record.token), []).append(row)
            group = row[_GROUP]
            body = (row[_JOB], record.kind, group and name_of(group), record.priority)
            entry.remember(record.id, body)
        for (deadline, token), rows in rows_of.items():
            values = {"token": token, "queue": entry.num, "worker": worker.encode()}
            values |= {"started": tx.now, "deadline": deadline, "asked": Ints([])}
            values |= _lease_arrays(rows)
            tx.send("add_lease", values)
            entry.ahead.lower(deadline)
        told = tx.told(entry.key, entry.num)
        tx.shift(entry.num, _QUEUED, _PROCESSING, len(records))
        told.entries += [
            Entry(_CLAIM, job.id, job.kind, _QUEUED, _PROCESSING, job.attempts, job.token, worker)
            for job in records
        ]
        return records

    def _tokens(self) -> list[int]:
        """A token for each job: one for all of them, but for kinds that are leased one by one."""
        tokens = [self._above(max(row[_TOKEN] or 0 for row in self._taken))] * len(self._taken)
        kinds = self._entry.apart
        apart = [n for n, row in enumerate(self._taken) if kinds and name_of(row[_KIND]) in kinds]
        if apart and not self._tx.callers:
            # Not only rows of their own: a SERIALIZABLE transaction is in conflict with whoever
            # changes any row that it has passed on its way, such as others of the same token.
            more = self._tx.rows("more_tokens", {"count": len(apart)})
            for n, (token,) in zip(apart, more, strict=True):
                tokens[n] = token
        return tokens

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
