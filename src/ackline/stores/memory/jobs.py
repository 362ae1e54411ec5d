"""Jobs into memory, out of it and through it."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from ackline.errors import KeysChanged
from ackline.events import Act, Entry
from ackline.job import LIVE, Draft, QueueKey, State
from ackline.lifecycle import Transition, kept_until, rank
from ackline.stores.base import (
    REPAIR_LIMIT,
    BeatReply,
    Claimed,
    ClaimRequest,
    Hold,
    KeyWrite,
    Receipt,
    WorkerBeat,
)
from ackline.stores.budget import Budget
from ackline.stores.memory.apply import apply
from ackline.stores.memory.lines import Line, Shelf, StoredJob, WorkerEntry
from ackline.stores.memory.looking import lapsed
from ackline.stores.memory.operating import write_keys
from ackline.stores.memory.room import Room
from ackline.stores.shared.enqueue import plan_enqueue


def enqueue(
    room: Room, queue: QueueKey, drafts: Sequence[Draft], keys: Sequence[KeyWrite], now: float
) -> list[Receipt]:
    """Insert the jobs that are not there yet, and write the keys that came with them."""
    shelf = room.make_shelf(queue)
    settings = shelf.settings
    plan = plan_enqueue(drafts, lambda id: shelf.find(id, now), _result_of, now, settings.ageing)
    if settings.max_jobs is not None:
        counts = shelf.counts()
        plan.require_room(queue, settings, sum(counts[state] for state in LIVE))
    if keys and not write_keys(room, queue.tenant, keys):
        raise KeysChanged(str(queue))
    for draft, state, at in plan.new:
        if (old := shelf.jobs.get(draft.id)) is not None:
            shelf.drop(old)
        job = shelf.jobs[draft.id] = StoredJob(room.next_job(), draft, now)
        shelf.stand(job, state, at)
    room.write_journal(shelf, now, plan.entries)
    return plan.receipts


_result_of = attrgetter("result")


def claim(
    room: Room,
    queue: QueueKey,
    request: ClaimRequest,
    transitions: Sequence[Transition],
    now: float,
) -> Claimed:
    """Apply transitions, promote due jobs, report lapsed ones, lease the next jobs in line."""
    verdicts = apply(room, queue, transitions, now) if transitions else []
    shelf, budget = room.shelf(queue), Budget(request.max_bytes)
    taken: list[StoredJob] = []
    if not shelf.settings.paused:
        promote(room, queue, REPAIR_LIMIT, now)
        taken = _take(shelf, request, budget, now)
    journal = [
        Entry(
            Act.CLAIM,
            job.id,
            job.kind,
            State.QUEUED,
            State.PROCESSING,
            job.attempts,
            job.token,
            job.worker,
        )
        for job in taken
    ]
    room.write_journal(shelf, now, journal)
    return Claimed(
        jobs=[job.record(history=False) for job in taken],
        verdicts=verdicts,
        lapsed=lapsed(shelf, now, REPAIR_LIMIT),
        next_at=_next_at(shelf, now),
        now=now,
        more=budget.reached,
    )


def _take(shelf: Shelf, request: ClaimRequest, budget: Budget, now: float) -> list[StoredJob]:
    wanted = shelf.ready if request.kinds is None else request.kinds
    lines = [line for kind in wanted if (line := shelf.ready.get(kind)) is not None]
    taken: list[StoredJob] = []
    token = 0
    while (
        len(taken) < request.limit and not budget.reached and (job := _first_of(lines)) is not None
    ):
        group = job.group
        if group is not None:
            running = shelf.running.get(group, 0)
            if running >= shelf.settings.group_limit and not request.ignore_group_limit:
                shelf.park(job)
                continue
            shelf.running[group] = running + 1
        token = token or shelf.next_token(now)
        job.attempts += 1
        job.token = token
        job.worker = request.worker
        job.started_at = now
        job.progress = None
        shelf.stand(job, State.PROCESSING, now + request.lease_of(job.kind, job.options))
        taken.append(job)
        if budget.limited:
            budget.spend(job.size(history=False))
    return taken


def _first_of(lines: list[Line]) -> StoredJob | None:
    if len(lines) == 1:
        return lines[0].first()
    heads = [job for line in lines if (job := line.first()) is not None]
    return min(heads, key=lambda job: (job.at, job.num), default=None)


def _next_at(shelf: Shelf, now: float) -> float | None:
    due = () if shelf.settings.paused else (State.SCHEDULED, State.FAILING)
    heads = [job.at for state in due if (job := shelf.lines[state].first()) is not None]
    leased = shelf.lines[State.PROCESSING].first()
    if leased is not None and leased.at > now:
        heads.append(leased.at)
    return min(heads, default=None)


def heartbeat(
    room: Room, queue: QueueKey, beat: WorkerBeat, holds: Sequence[Hold], now: float
) -> BeatReply:
    """Note that a worker is alive, and extend its leases."""
    shelf = room.make_shelf(queue)
    if beat.ttl > 0:
        shelf.workers[beat.id] = WorkerEntry(beat, now, now + beat.ttl)
    else:
        shelf.workers.pop(beat.id, None)
    reply = BeatReply([], [])
    for index, hold in enumerate(holds):
        job = shelf.jobs.get(hold.id)
        if (
            job is None
            or job.state is not State.PROCESSING
            or job.token != hold.token
            or job.at <= now
        ):
            reply.lost.append(index)
            continue
        shelf.stand(job, State.PROCESSING, kept_until(job.at, now, hold.seconds))
        if job.cancel_requested:
            reply.cancelled.append(index)
    return reply


def promote(room: Room, queue: QueueKey, limit: int, now: float) -> int:
    """Queue the jobs that are due, in the order of their times."""
    shelf = room.shelf(queue)
    journal: list[Entry] = []
    lines = [shelf.lines[State.SCHEDULED], shelf.lines[State.FAILING]]
    while len(journal) < limit:
        heads = [job for line in lines if (job := line.first_due(now)) is not None]
        job = min(heads, key=lambda job: (job.at, job.num), default=None)
        if job is None:
            break
        source = job.state
        shelf.stand(job, State.QUEUED, rank(job.at, job.priority, shelf.settings.ageing))
        journal.append(Entry(Act.PROMOTE, job.id, job.kind, source, State.QUEUED, job.attempts))
    room.write_journal(shelf, now, journal)
    return len(journal)
