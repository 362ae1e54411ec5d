"""Jobs into memory, out of it and through it."""

from __future__ import annotations

from collections.abc import Sequence

from ackline.errors import KeysChanged, StoreFull
from ackline.events import Act, Entry
from ackline.job import LIVE, Draft, QueueKey, State
from ackline.lifecycle import (
    Transition,
    Verdict,
    arrive,
    holds,
    keeps_id,
    kept_until,
    keys_of,
    may_move,
    rank,
)
from ackline.stores.base import (
    REPAIR_LIMIT,
    BeatReply,
    Claimed,
    ClaimRequest,
    Hold,
    KeyWrite,
    Receipt,
    Topic,
    WorkerBeat,
    move_entries,
)
from ackline.stores.budget import Budget
from ackline.stores.memory.apply import apply_one
from ackline.stores.memory.lines import Line, Shelf, StoredJob, WorkerEntry
from ackline.stores.memory.looking import lapsed
from ackline.stores.memory.operating import write_keys
from ackline.stores.memory.room import Room


def enqueue(
    room: Room, queue: QueueKey, drafts: Sequence[Draft], keys: Sequence[KeyWrite], now: float
) -> list[Receipt]:
    """Insert the jobs that are not there yet, and write the keys that came with them."""
    shelf = room.make_shelf(queue)
    _require_room(shelf, drafts, now)
    if not write_keys(room, queue.tenant, keys):
        raise KeysChanged(str(queue))
    receipts: list[Receipt] = []
    journal: list[Entry] = []
    for draft in drafts:
        there = shelf.find(draft.id, now)
        if there is not None and keeps_id(draft, there.state, there.kind):
            receipts.append(Receipt(draft.id, False, there.state, there.result))
            continue
        state = _insert(room, shelf, draft, now)
        source = there.state if there is not None else None
        journal.append(
            Entry(Act.ENQUEUE, draft.id, draft.kind, source, state, priority=draft.priority)
        )
        receipts.append(Receipt(draft.id, True, state))
    room.write_journal(shelf, now, journal)
    return receipts


def _require_room(shelf: Shelf, drafts: Sequence[Draft], now: float) -> None:
    limit = shelf.settings.max_jobs
    if limit is None:
        return
    new = len({draft.id for draft in drafts if _is_new(shelf, draft, now)})
    counts = shelf.counts()
    if new and sum(counts[state] for state in LIVE) + new > limit:
        raise StoreFull.of_queue(shelf.key, limit)


def _is_new(shelf: Shelf, draft: Draft, now: float) -> bool:
    there = shelf.find(draft.id, now)
    return there is None or not keeps_id(draft, there.state, there.kind)


def _insert(room: Room, shelf: Shelf, draft: Draft, now: float) -> State:
    if (old := shelf.jobs.get(draft.id)) is not None:
        shelf.drop(old)
    job = shelf.jobs[draft.id] = StoredJob(room.next_job(), draft, now)
    shelf.stand(job, *arrive(draft, now, shelf.settings.ageing))
    return job.state


def claim(
    room: Room, queue: QueueKey, request: ClaimRequest, verdicts: list[Verdict], now: float
) -> Claimed:
    """Promote due jobs, report lapsed ones, lease the next jobs in line."""
    shelf, budget = room.shelf(queue), Budget(request.max_bytes)
    taken: list[StoredJob] = []
    if not shelf.settings.paused:
        promote(room, queue, now, REPAIR_LIMIT)
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
        group = job.options.group
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


def apply(
    room: Room, queue: QueueKey, transitions: Sequence[Transition], now: float
) -> list[Verdict]:
    """Apply each transition whose guard holds."""
    shelf = room.shelf(queue)
    journal: list[Entry] = []
    arrivals: list[tuple[Shelf, Entry]] = []
    verdicts = []
    for transition in transitions:
        if transition.act is Act.MOVE:
            verdicts.append(_move(room, shelf, transition, now, journal, arrivals))
            continue
        entries_before = len(journal)
        verdicts.append(apply_one(shelf, transition, now, journal))
        # Not if it was applied before: keys that were cleaned up since must not come back.
        if len(journal) > entries_before and transition.keys:
            job = shelf.jobs[transition.id]
            for key in keys_of(transition, job.state):
                room.put_key(queue.tenant, key, job.payload)
    room.write_journal(shelf, now, journal)
    for target, arrival in arrivals:
        room.write_journal(target, now, [arrival])
    return verdicts


def _move(
    room: Room,
    shelf: Shelf,
    transition: Transition,
    now: float,
    journal: list[Entry],
    arrivals: list[tuple[Shelf, Entry]],
) -> Verdict:
    job = shelf.find(transition.id, now)
    if job is None:
        return Verdict(False, None)
    assert transition.target is not None
    allowed = may_move(shelf.key, transition.target)
    taken = room.shelf(transition.target).find(job.id, now) is not None
    if taken or not allowed or not holds(transition, job.state, job.token, None, now):
        return Verdict(False, job.state)
    target = room.make_shelf(transition.target)
    shelf.drop(job)
    shelf.left(job, job.state)
    if (old := target.jobs.get(job.id)) is not None:
        target.drop(old)
    target.take_in(job)
    target.last_token = max(target.last_token, job.token)
    target.stand(job, job.state, job.at)
    away, here = move_entries(
        shelf.key, transition, job.kind, job.state, job.attempts, job.priority
    )
    journal.append(away)
    arrivals.append((target, here))
    return Verdict(True, job.state)


def heartbeat(shelf: Shelf, beat: WorkerBeat, holds: Sequence[Hold], now: float) -> BeatReply:
    """Note that a worker is alive, and extend its leases."""
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


def promote(room: Room, queue: QueueKey, now: float, limit: int) -> int:
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


def topics_of(transitions: Sequence[Transition]) -> set[Topic]:
    """The topics whose listeners must be woken for applied transitions."""
    topics: set[Topic] = {"changes"}
    for transition in transitions:
        if transition.act is Act.REQUEST_CANCEL:
            topics.add("signals")
        if transition.act is not Act.COMPLETE:
            topics.add("ready")
        if transition.act not in (Act.EXTEND, Act.PROGRESS):
            topics.add("ends")
    return topics
