"""A claim: the transitions it applies, the jobs it takes, the due and lapsed ones it reports."""

from __future__ import annotations

import functools
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

PAUSES = (0.001, 0.002, 0.004, 0.008)
"""Seconds before each further look at groups that others have locked: most are locked no longer."""

SOON = 0.2
"""Seconds after which to look again at jobs that others have locked: a rollback may free them."""


def claim(
    engine: Engine, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition]
) -> Claimed:
    """Apply the transitions, promote due jobs, lease the next in line, report lapsed ones."""
    try:
        answer = engine.write(lambda tx: _claim(engine, tx, queue, request, transitions))
    except NotPlain:
        # A lease was lost, and its job may be among those that were just requested.
        answer = engine.write(
            lambda tx: _claim(engine, tx, queue, request, transitions, patient=True)
        )
    pauses = list(PAUSES)
    while answer.cut_short or (answer.stopped and not answer.jobs):
        if answer.stopped:
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
    return claimed(engine, queue, answer)


def claimed(engine: Engine, queue: QueueKey, answer: Answer) -> Claimed:
    """The answer, with lapsed jobs and the time of the next job as far as they can be read."""
    only = Claimed(jobs=answer.jobs, verdicts=answer.verdicts, now=answer.now, more=answer.more)
    if answer.entry is None:
        return only
    try:
        return _looked_after(engine, queue, answer, answer.entry)
    except StoreError as error:
        if not answer.jobs and not answer.verdicts:
            raise
        # The claim is committed: the caller must get its jobs and verdicts.
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
        more=answer.more,
    )


def _heads(engine: Engine, entry: QueueEntry, answer: Answer) -> Row:
    """The times of the first scheduled, failing and leased jobs; None where not asked for."""
    if entry.ahead.is_due(answer.now):
        began = time.monotonic()
        everything = {"queue": entry.num, "start": -math.inf}
        [heads] = engine.read(lambda tx: tx.rows("heads", everything))
        entry.ahead.saw(heads[2], answer.now, time.monotonic() - began)
        return heads
    return (None, None, None) if answer.heads is None else answer.heads.fetchall()[0]


class Answer(NamedTuple):
    """What a claim's transaction has brought."""

    now: float
    verdicts: list[Verdict]
    jobs: list[Record]
    entry: QueueEntry | None
    heads: Sent | None
    """Its rows are read after the transaction, so that they cost no round trip of their own."""
    passed: bool = False
    """Whether it took no job, and passed over jobs that others had locked."""
    more: bool = False
    """Whether it has stopped early, because of the size of the jobs or at a locked group."""
    cut_short: bool = False
    """Whether it has stopped after parking many jobs of full groups, and has taken none yet."""
    stopped: bool = False
    """Whether it has stopped at a group that others had locked."""


def answered(
    tx: Transaction,
    entry: QueueEntry,
    verdicts: list[Verdict],
    jobs: list[Record],
    request: ClaimRequest,
) -> Answer:
    """The answer of a claim; also asks when the next job is due, unless it found many at once."""
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
    reads_past_busy: bool = False,
) -> Answer:
    known = engine.queues.remembered(queue)
    opening = tx.send("begin_claim", names_of(tx, queue))
    locked, claiming = None, None
    if not patient and known is not None and _changes_no_line(known, transitions):
        # Sent in the same go: nothing is taken if the queue is no longer as remembered.
        locked = send_for_leases(tx, known, transitions)
        claiming = Taking(tx, known, request, reads_past_busy=reads_past_busy)
        claiming.begin()
    [row] = opening.fetchall()
    tx.now = row[3]
    entry = engine.queues.confirm(tx, queue, row)
    if claiming is not None and entry is not known:
        # The requests were made for a queue that has changed: none of their rows may be used.
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
    claiming = claiming or Taking(tx, entry, request, reads_past_busy=reads_past_busy)
    jobs = claiming.run(row[4])
    return answered(tx, entry, verdicts, jobs, request)._replace(
        passed=claiming.passed,
        more=claiming.more,
        cut_short=claiming.cut_short,
        stopped=claiming.stopped,
    )


def _changes_no_line(entry: QueueEntry, transitions: Sequence[Transition]) -> bool:
    """Whether the jobs that are claimed next do not depend on these transitions."""
    if entry.settings.paused:
        return False
    bodies = entry.bodies
    for transition in transitions:
        body = bodies.get(transition.id)
        if transition.act is not Act.COMPLETE or body is None or body[2] is not None:
            return False
    return True
