"""One applied transition: how it changes where a job stands."""

from __future__ import annotations

from ackline.events import Act
from ackline.job import LIVE, State
from ackline.lifecycle import Edit, Transition, ended_attempt, landing, rank
from ackline.stores.base import HISTORY_LIMIT
from ackline.stores.sqlite.lines import Lines
from ackline.stores.sqlite.queries import sql
from ackline.stores.sqlite.rows import encode_failure
from ackline.stores.sqlite.standing import Standing


def step(lines: Lines, job: Standing, transition: Transition, now: float) -> None:
    """Take the step; the guard holds."""
    to = landing(transition, job.state, job.cancel != 0)
    if job.state is State.PROCESSING:
        if to is State.PROCESSING:
            _stay_leased(job, transition, now)
            return
        _end_lease(lines, job, transition, now)
    if transition.attempts is not None:
        job.attempts = transition.attempts
    before = job.priority
    if transition.edit is not None:
        _rewrite(lines, job, transition.edit)
    if transition.act is Act.EDIT and transition.edit is not None:
        _stand_edited(lines, job, transition.edit, to, before, now)
    else:
        _stand(lines, job, transition, to, now)


def _stay_leased(job: Standing, transition: Transition, now: float) -> None:
    match transition.act:
        case Act.EXTEND:
            job.at = now + transition.delay
        case Act.PROGRESS:
            job.progress = transition.progress
        case Act.REQUEST_CANCEL:
            job.cancel = 1
        case _:
            raise AssertionError(f"{transition.act} does not keep a lease")


def _end_lease(lines: Lines, job: Standing, transition: Transition, now: float) -> None:
    ended = ended_attempt(transition, job.attempts, job.worker, job.started or 0.0, now)
    if ended is not None:
        execute = lines.tx.execute
        n = execute(sql("add_attempt"), (job.num, encode_failure(ended))).fetchall()[0][0]
        if n > HISTORY_LIMIT:
            execute(sql("forget_attempts"), (job.num, n - HISTORY_LIMIT))
    job.act = transition.act
    job.cancel = 0


def _rewrite(lines: Lines, job: Standing, edit: Edit) -> None:
    if edit.payload is not None:
        lines.tx.execute(sql("set_payload"), (edit.payload, job.num))
    if edit.priority is not None:
        lines.tx.execute(sql("set_priority"), (edit.priority, job.num))
        job.priority = edit.priority


def _stand(lines: Lines, job: Standing, transition: Transition, to: State, now: float) -> None:
    if to is State.QUEUED:
        back = transition.act is Act.RELEASE
        fresh = rank(now, job.priority, lines.settings.ageing)
        job.stand(lines, to, job.rank if back else fresh)
    elif to in LIVE:
        job.stand(lines, to, now + transition.delay)
    else:
        job.stand(lines, to, now + transition.keep)
        if transition.result is not None:
            lines.tx.execute(sql("add_result"), (job.num, transition.result))
    job.finished = None if to in LIVE else now


def _stand_edited(
    lines: Lines, job: Standing, edit: Edit, to: State, priority: int, now: float
) -> None:
    if to.terminal:
        if edit.keep is not None:
            job.stand(lines, to, now + edit.keep)
    elif to is State.QUEUED:
        # It keeps its line, for it may be parked, and the moment from which it waits.
        job.rank += (priority - job.priority) * lines.settings.ageing
        job.at = job.rank
    elif edit.delay is not None:
        job.stand(lines, to, now + edit.delay)
