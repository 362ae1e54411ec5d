"""One applied transition: how it changes where a job stands."""

from __future__ import annotations

from ackline.events import Act
from ackline.job import State
from ackline.lifecycle import Edit, Landing, Transition, ended_attempt, land, place
from ackline.stores.base import HISTORY_LIMIT
from ackline.stores.shared.records import encode_failure
from ackline.stores.sqlite.lines import Lines
from ackline.stores.sqlite.queries import sql
from ackline.stores.sqlite.standing import Standing


def step(lines: Lines, job: Standing, transition: Transition, now: float) -> None:
    """Change a job as a transition says whose guard was found to hold."""
    landing = land(transition, job.state, job.cancel != 0)
    if transition.act is Act.PROGRESS:
        job.progress = transition.progress
    elif transition.act is Act.REQUEST_CANCEL:
        job.cancel = 1
    if job.state is State.PROCESSING and landing.to is not job.state:
        _end_lease(lines, job, transition, now)
    if transition.attempts is not None:
        job.attempts = transition.attempts
    _stand(lines, job, transition, landing, now)


def _end_lease(lines: Lines, job: Standing, transition: Transition, now: float) -> None:
    ended = ended_attempt(transition, job.attempts, job.worker, job.started or 0.0, now)
    if ended is not None:
        execute = lines.tx.execute
        n = execute(sql("add_attempt"), (job.num, encode_failure(ended))).fetchall()[0][0]
        if n > HISTORY_LIMIT:
            execute(sql("forget_attempts"), (job.num, n - HISTORY_LIMIT))
    job.act = transition.act
    job.cancel = 0


def _stand(
    lines: Lines, job: Standing, transition: Transition, landing: Landing, now: float
) -> None:
    old_priority, source = job.priority, job.state
    if transition.edit is not None:
        _rewrite(lines, job, transition.edit)
    at = place(
        landing,
        now,
        at=job.at,
        old_rank=job.rank,
        old_priority=old_priority,
        priority=job.priority,
        ageing=lines.settings.ageing,
    )
    job.stand(lines, landing.to, at)
    if not landing.to.terminal:
        job.finished = None
    elif landing.to is not source:
        job.finished = now
        if transition.result is not None:
            lines.tx.execute(sql("add_result"), (job.num, transition.result))


def _rewrite(lines: Lines, job: Standing, edit: Edit) -> None:
    if edit.payload is not None:
        lines.tx.execute(sql("set_payload"), (edit.payload, job.num))
    if edit.priority is not None:
        lines.tx.execute(sql("set_priority"), (edit.priority, job.num))
        job.priority = edit.priority
