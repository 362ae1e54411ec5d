"""A claim: what is settled with it, what it takes, and what it saw to look after."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from typing import NamedTuple

from ackline.errors import StoreError
from ackline.events import Act
from ackline.job import QueueKey, Record
from ackline.lifecycle import Transition, Verdict
from ackline.stores.base import REPAIR_LIMIT, Claimed, ClaimRequest
from ackline.stores.postgres import look
from ackline.stores.postgres.apply import GONE, NotPlain, apply
from ackline.stores.postgres.engine import Engine
from ackline.stores.postgres.exchange import Row
from ackline.stores.postgres.finding import (
    Finding,
    locked_leases,
    received,
    send_for_leases,
)
from ackline.stores.postgres.queues import QueueEntry, names_of
from ackline.stores.postgres.taking import Taking
from ackline.stores.postgres.transaction import MANY, Again, Sent, Transaction

logger = logging.getLogger("ackline")

SOON = 0.2
"""Seconds after which to look again at jobs that others have locked; they may be put back."""


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
        leased = None
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
        claiming = Taking(tx, known, request)
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
    claiming = claiming or Taking(tx, entry, request)
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
