"""Hand a job to another queue."""

from __future__ import annotations

from ackline.events import Entry
from ackline.lifecycle import Transition, holds, may_move
from ackline.stores.base import move_entries
from ackline.stores.sqlite.drop import drop_jobs
from ackline.stores.sqlite.lines import Lines, find_lines, make_lines
from ackline.stores.sqlite.queries import sql
from ackline.stores.sqlite.standing import Standing, save

Arrival = tuple[Lines, Entry]
"""A target queue and its entry of the arrival, to be written after the entry of the departure."""


def move(
    lines: Lines, job: Standing, transition: Transition, now: float
) -> tuple[Entry, Arrival] | None:
    """Move a job, unless it is leased or the other queue has a job of its id."""
    assert transition.target is not None
    if not may_move(lines.key, transition.target) or not holds(
        transition, job.state, job.token, None, now
    ):
        return None
    there = find_lines(lines.tx, transition.target)
    if there is not None and not _make_way(there, job.id, now):
        return None
    target = there
    if target is None or target.dropped:
        target = make_lines(lines.tx, transition.target)
    lines.shift(job.slot, None)
    lines.tx.execute(sql("set_queue"), (target.num, job.num))
    slot = target.ready(job.kind) if job.slot > 0 else target.slot(job.state)
    target.shift(None, slot)
    job.slot = slot
    save(target, [job])
    if job.token > target.last_token:
        # A job's tokens must grow, whichever queue hands them out.
        lines.tx.execute(sql("set_last_token"), (job.token, target.num))
    target.flush()
    away, here = move_entries(
        lines.key, transition, job.kind, job.state, job.attempts, job.priority
    )
    return away, (target, here)


def _make_way(target: Lines, id: str, now: float) -> bool:
    """Drop the target's job of this id if its retention is over; False if it has to stay."""
    for row in target.tx.execute(sql("standing"), (target.num, id)).fetchall():
        old = Standing(row)
        if not old.over(now):
            return False
        drop_jobs(target, [(old.num, old.slot)])
    return True


def arrive(arrivals: list[Arrival], now: float) -> None:
    """Write the arrivals into the target queues' journals, and wake their listeners."""
    for target, entry in arrivals:
        target.write_journal(now, [entry])
        target.flush()
        target.tx.wake(target.key, "ready")
