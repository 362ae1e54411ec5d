"""Apply decided transitions to jobs in memory."""

from __future__ import annotations

from ackline.events import Act, Entry
from ackline.job import LIVE, State
from ackline.lifecycle import (
    Transition,
    Verdict,
    ended_attempt,
    holds,
    landing,
    note_of,
    rank,
    repeats,
)
from ackline.stores.memory.lines import Shelf, StoredJob


def apply_one(shelf: Shelf, transition: Transition, now: float, journal: list[Entry]) -> Verdict:
    """Apply one transition (except a move) if its guard holds."""
    job = shelf.find(transition.id, now)
    if job is None:
        return Verdict(False, None)
    deadline = job.at if job.state is State.PROCESSING else None
    if not holds(transition, job.state, job.token, deadline, now):
        again = repeats(transition, job.act, job.token, job.result, job.history)
        return Verdict(again, job.state)
    journal.append(_step(shelf, job, transition, now))
    return Verdict(True, job.state)


def _step(shelf: Shelf, job: StoredJob, transition: Transition, now: float) -> Entry:
    source, to = job.state, landing(transition, job.state, job.cancel_requested)
    entry = Entry(
        transition.act,
        job.id,
        job.kind,
        source,
        to,
        job.attempts,
        job.token,
        job.worker,
        note_of(transition),
        transition.by,
    )
    if source is State.PROCESSING:
        if to is State.PROCESSING:
            _stay_leased(shelf, job, transition, now)
            return entry
        _end_lease(job, transition, now)
    if transition.attempts is not None:
        job.attempts = transition.attempts
    if transition.edit is not None and transition.edit.payload is not None:
        job.payload = transition.edit.payload
    _stand(shelf, job, transition, to, now)
    if source is not to or transition.act is Act.EDIT:
        shelf.left(job, source)
    return entry


def _stay_leased(shelf: Shelf, job: StoredJob, transition: Transition, now: float) -> None:
    match transition.act:
        case Act.EXTEND:
            shelf.stand(job, State.PROCESSING, now + transition.delay)
        case Act.PROGRESS:
            job.progress = transition.progress
        case Act.REQUEST_CANCEL:
            job.cancel_requested = True
        case _:
            raise AssertionError(f"{transition.act} does not keep a lease")


def _end_lease(job: StoredJob, transition: Transition, now: float) -> None:
    ended = ended_attempt(transition, job.attempts, job.worker, job.started_at or 0.0, now)
    if ended is not None:
        job.remember(ended)
    job.act = transition.act
    job.cancel_requested = False


def _stand(shelf: Shelf, job: StoredJob, transition: Transition, to: State, now: float) -> None:
    priority = job.priority
    if transition.edit is not None and transition.edit.priority is not None:
        job.priority = transition.edit.priority
    if transition.act is Act.EDIT:
        _stand_edited(shelf, job, transition, to, priority, now)
    elif to is State.QUEUED:
        back = transition.act is Act.RELEASE
        fresh = rank(now, job.priority, shelf.settings.ageing)
        shelf.stand(job, State.QUEUED, job.rank if back else fresh)
    elif to in LIVE:
        shelf.stand(job, to, now + transition.delay)
    else:
        job.finished_at = now
        job.result = transition.result
        shelf.stand(job, to, now + transition.keep)
    if to in LIVE:
        job.finished_at = None


def _stand_edited(
    shelf: Shelf, job: StoredJob, transition: Transition, to: State, priority: int, now: float
) -> None:
    edit = transition.edit
    assert edit is not None
    if to.terminal:
        if edit.keep is not None:
            shelf.stand(job, to, now + edit.keep)
    elif to is State.QUEUED:
        job.rank += (priority - job.priority) * shelf.settings.ageing
        parked = job.line is not shelf.ready.get(job.kind)
        if parked:
            shelf.park(job)
        else:
            shelf.stand(job, to, job.rank)
    elif edit.delay is not None:
        shelf.stand(job, to, now + edit.delay)
