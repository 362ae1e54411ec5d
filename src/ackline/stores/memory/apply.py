"""Apply decided transitions to jobs in memory."""

from __future__ import annotations

from ackline.events import Act, Entry
from ackline.job import State
from ackline.lifecycle import (
    Edit,
    Landing,
    Seen,
    Transition,
    Verdict,
    ended_attempt,
    ends_calling_back,
    holds,
    land,
    note_of,
    place,
    repeats,
    seen_now,
    told_priority,
)
from ackline.stores.memory.lines import Shelf, StoredJob


def apply_one(shelf: Shelf, transition: Transition, now: float, journal: list[Entry]) -> Verdict:
    """Apply one transition (except a move) if its guard holds."""
    job = shelf.find(transition.id, now)
    if job is None:
        return Verdict(False, None)
    deadline = job.at if job.state is State.PROCESSING else None
    if transition.seen is not None and transition.seen != _look_at(job):
        return Verdict(False, job.state)
    if not holds(transition, job.state, job.token, deadline, now):
        again = repeats(transition, job.act, job.token, job.result, job.history)
        return Verdict(again, job.state)
    journal.append(_step(shelf, job, transition, now))
    return Verdict(True, job.state)


def _look_at(job: StoredJob) -> Seen:
    return seen_now(job.state, job.token, job.priority, job.payload, job.at)


def _step(shelf: Shelf, job: StoredJob, transition: Transition, now: float) -> Entry:
    source, landing = job.state, land(transition, job.state, job.cancel_requested)
    attempts, token, worker = job.attempts, job.token, job.worker
    if transition.act is Act.PROGRESS:
        job.progress = transition.progress
    elif transition.act is Act.REQUEST_CANCEL:
        job.cancel_requested = True
    if source is State.PROCESSING and landing.to is not source:
        _end_lease(job, transition, now)
    if transition.attempts is not None:
        job.attempts = transition.attempts
    _stand(shelf, job, transition, landing, now)
    if source is not landing.to or transition.act is Act.EDIT:
        shelf.left(job, source)
    return Entry(
        transition.act,
        job.id,
        job.kind,
        source,
        landing.to,
        attempts,
        token,
        worker,
        note_of(transition),
        transition.by,
        told_priority(transition, job.priority),
        job.options.callback_url if ends_calling_back(transition, landing.to) else None,
    )


def _end_lease(job: StoredJob, transition: Transition, now: float) -> None:
    ended = ended_attempt(transition, job.attempts, job.worker, job.started_at or 0.0, now)
    if ended is not None:
        job.remember(ended)
    job.act = transition.act
    job.cancel_requested = False


def _stand(
    shelf: Shelf, job: StoredJob, transition: Transition, landing: Landing, now: float
) -> None:
    old_priority, source = job.priority, job.state
    if transition.edit is not None:
        _rewrite(job, transition.edit)
    at = place(
        landing,
        now,
        at=job.at,
        old_rank=job.rank,
        old_priority=old_priority,
        priority=job.priority,
        ageing=shelf.settings.ageing,
    )
    if (
        source is State.QUEUED
        and landing.to is source
        and job.line is not shelf.ready.get(job.kind)
    ):
        job.rank = at
        shelf.park(job)
    else:
        shelf.stand(job, landing.to, at)
    if not landing.to.terminal:
        job.finished_at = None
    elif landing.to is not source:
        job.finished_at = now
        job.result = transition.result


def _rewrite(job: StoredJob, edit: Edit) -> None:
    if edit.payload is not None:
        job.payload = edit.payload
    if edit.priority is not None:
        job.priority = edit.priority
