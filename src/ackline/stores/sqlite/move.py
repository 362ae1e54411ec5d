"""Hand a job to another queue."""

from __future__ import annotations

from ackline.events import Act, Entry
from ackline.lifecycle import Transition, holds
from ackline.stores.sqlite.drop import drop_jobs
from ackline.stores.sqlite.lines import Lines, make_lines
from ackline.stores.sqlite.queries import sql
from ackline.stores.sqlite.standing import Standing, save


def move(lines: Lines, job: Standing, transition: Transition, now: float) -> Entry | None:
    """Move a job, unless it is leased or the other queue has its id; answers the entry here."""
    assert transition.target is not None
    target = make_lines(lines.tx, transition.target)
    if target.num == lines.num or not holds(transition, job.state, job.token, None):
        return None
    for row in lines.tx.execute(sql("standing"), (target.num, job.id)).fetchall():
        old = Standing(row)
        if not old.over(now):
            return None
        drop_jobs(target, [(old.num, old.slot)])
    lines.shift(job.slot, None)
    lines.tx.execute(sql("set_queue"), (target.num, job.num))
    slot = target.ready(job.kind) if job.slot > 0 else target.slot(job.state)
    target.shift(None, slot)
    job.slot = slot
    save(target, [job])
    if job.token > target.last_token:
        # A job's tokens grow, whichever queue hands them out.
        lines.tx.execute(sql("set_last_token"), (job.token, target.num))
    return _tell(lines, target, job, transition, now)


def _tell(lines: Lines, target: Lines, job: Standing, transition: Transition, now: float) -> Entry:
    by, state = transition.by, job.state
    here = f"from {lines.key}"
    target.write_journal(
        now, [Entry(Act.MOVE, job.id, job.kind, None, state, job.attempts, note=here, by=by)]
    )
    target.flush()
    target.tx.wake(target.key, "ready")
    away = f"to {target.key}"
    return Entry(Act.MOVE, job.id, job.kind, state, None, job.attempts, note=away, by=by)
