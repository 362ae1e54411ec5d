"""Enqueue, claim, heartbeat and promotion."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from ackline.core.errors import KeysChanged
from ackline.core.events import Act, Entry
from ackline.core.job import LIVE, Draft, QueueKey, State
from ackline.core.lifecycle import Transition, rank
from ackline.stores.contract import (
    ClaimRequest,
    ClaimResult,
    Heartbeat,
    HeartbeatReply,
    KeyWrite,
    LeaseExtension,
    Receipt,
)
from ackline.stores.memory.apply import apply
from ackline.stores.memory.data import JobList, QueueData, StoreData, StoredJob, WorkerEntry
from ackline.stores.memory.operate import write_keys
from ackline.stores.memory.queries import lapsed
from ackline.stores.shared.byte_limit import ByteLimit
from ackline.stores.shared.enqueue import plan_enqueue
from ackline.stores.shared.heartbeat import JobLease, plan_heartbeat


def enqueue(
    store: StoreData, queue: QueueKey, drafts: Sequence[Draft], keys: Sequence[KeyWrite], now: float
) -> list[Receipt]:
    """Insert the jobs that do not exist yet, and write the keys that came with them."""
    data = store.ensure_queue(queue)
    settings = data.settings
    plan = plan_enqueue(drafts, lambda id: data.find(id, now), _result_of, now, settings.ageing)
    if settings.max_jobs is not None:
        counts = data.counts()
        plan.require_capacity(queue, settings, sum(counts[state] for state in LIVE))
    if keys and not write_keys(store, queue.tenant, keys):
        raise KeysChanged(str(queue))
    for draft, state, at in plan.new:
        if (replaced := data.jobs.get(draft.id)) is not None:
            data.drop(replaced)
        job = data.jobs[draft.id] = StoredJob(store.next_job(), draft, now)
        data.set_state(job, state, at)
    store.write_journal(data, now, plan.entries)
    return plan.receipts


_result_of = attrgetter("result")


def claim(
    store: StoreData,
    queue: QueueKey,
    request: ClaimRequest,
    transitions: Sequence[Transition],
    now: float,
) -> ClaimResult:
    """Apply the transitions, promote due jobs, lease the next jobs, report lapsed leases."""
    verdicts = apply(store, queue, transitions, now) if transitions else []
    data, byte_limit = store.queue(queue), ByteLimit(request.max_bytes)
    leased: list[StoredJob] = []
    if not data.settings.paused:
        promote(store, queue, data.settings.repair_limit, now)
        leased = _lease_next(data, request, byte_limit, now)
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
        for job in leased
    ]
    store.write_journal(data, now, journal)
    return ClaimResult(
        jobs=[job.record(history=False) for job in leased],
        verdicts=verdicts,
        lapsed=lapsed(data, now, data.settings.repair_limit),
        next_at=_next_at(data, now),
        now=now,
        may_have_more=byte_limit.reached,
    )


def _lease_next(
    data: QueueData, request: ClaimRequest, byte_limit: ByteLimit, now: float
) -> list[StoredJob]:
    kinds = data.ready if request.kinds is None else request.kinds
    lists = [ready for kind in kinds if (ready := data.ready.get(kind)) is not None]
    leased: list[StoredJob] = []
    token = 0
    while (
        len(leased) < request.limit
        and not byte_limit.reached
        and (job := _next_job(lists)) is not None
    ):
        group = job.group
        if group is not None:
            running = data.running.get(group, 0)
            if running >= data.settings.group_limit and not request.ignore_group_limit:
                data.park(job)
                continue
            data.running[group] = running + 1
        token = token or data.next_token(now)
        job.attempts += 1
        job.token = token
        job.worker = request.worker
        job.started_at = now
        job.progress = None
        data.set_state(job, State.PROCESSING, now + request.lease_of(job.kind, job.options))
        leased.append(job)
        if byte_limit.has_limit:
            byte_limit.add(job.size(history=False))
    return leased


def _next_job(lists: list[JobList]) -> StoredJob | None:
    if len(lists) == 1:
        return lists[0].first()
    first_jobs = [job for one in lists if (job := one.first()) is not None]
    return min(first_jobs, key=lambda job: (job.at, job.num), default=None)


def _next_at(data: QueueData, now: float) -> float | None:
    due = () if data.settings.paused else (State.SCHEDULED, State.FAILING)
    times = [job.at for state in due if (job := data.lists[state].first()) is not None]
    leased = data.lists[State.PROCESSING].first()
    if leased is not None and leased.at > now:
        times.append(leased.at)
    return min(times, default=None)


def heartbeat(
    store: StoreData,
    queue: QueueKey,
    heartbeat: Heartbeat | None,
    extensions: Sequence[LeaseExtension],
    now: float,
) -> HeartbeatReply:
    """Record a worker's heartbeat and extend its leases."""
    data = store.ensure_queue(queue)
    if heartbeat is not None and heartbeat.ttl > 0:
        data.workers[heartbeat.id] = WorkerEntry(heartbeat, now, now + heartbeat.ttl)
    elif heartbeat is not None:
        data.workers.pop(heartbeat.id, None)

    def find(id: str) -> JobLease[StoredJob] | None:
        job = data.jobs.get(id)
        if job is None or job.state is not State.PROCESSING:
            return None
        return (job, job.token, job.at, job.cancel_requested)

    plan = plan_heartbeat(enumerate(extensions), find, now)
    for job, deadline in plan.extended:
        data.set_state(job, State.PROCESSING, deadline)
    return HeartbeatReply(plan.lost, plan.cancelled)


def promote(store: StoreData, queue: QueueKey, limit: int, now: float) -> int:
    """Queue the jobs that are due, in the order of their due times."""
    data = store.queue(queue)
    journal: list[Entry] = []
    lists = [data.lists[State.SCHEDULED], data.lists[State.FAILING]]
    while len(journal) < limit:
        due = [job for waiting in lists if (job := waiting.first_due(now)) is not None]
        job = min(due, key=lambda job: (job.at, job.num), default=None)
        if job is None:
            break
        source = job.state
        data.set_state(job, State.QUEUED, rank(job.at, job.priority, data.settings.ageing))
        journal.append(Entry(Act.PROMOTE, job.id, job.kind, source, State.QUEUED, job.attempts))
    store.write_journal(data, now, journal)
    return len(journal)
