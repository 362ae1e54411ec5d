"""One queue of a store under test, with short methods for the cases."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from ackline.core.clock import ManualClock
from ackline.core.config import Policy, QueueSettings, ResolvedPolicy, resolve_policy
from ackline.core.events import Act, Event
from ackline.core.job import Draft, Failure, Options, QueueKey, Record, State
from ackline.core.lifecycle import Transition, Verdict, complete, expire, fail
from ackline.core.limits import DEFAULT_PRIORITY
from ackline.core.retry import fixed
from ackline.stores.contract import (
    ClaimRequest,
    ClaimResult,
    Filter,
    Heartbeat,
    HeartbeatReply,
    KeyWrite,
    LeaseExtension,
    Receipt,
    Store,
    WorkerRecord,
)

LEASE = 30.0
BACKOFF = 10.0
ALL_JOBS = Filter()
NO_LIMIT = 10_000

_POLICY = QueueSettings(policy=Policy(backoff=fixed(BACKOFF)))


def policy_of(job: Record) -> ResolvedPolicy:
    """The policy in the cases: the job's own options, else 3 attempts and 10 s of backoff."""
    return resolve_policy(job, _POLICY)


def failure(job: Record, message: str = "boom") -> Failure:
    """An error that a handler might have raised."""
    return Failure(act=Act.FAIL, attempt=job.attempts, type="ValueError", message=message)


def draft(
    id: str,
    *,
    kind: str = "mail",
    payload: bytes = b"{}",
    priority: int = DEFAULT_PRIORITY,
    delay: float = 0.0,
    run_at: float | None = None,
    assume_new: bool = False,
    replaces: frozenset[str] | None = None,
    **options: Any,
) -> Draft:
    """A job to enqueue; all further keyword arguments are its `Options`."""
    return Draft(
        id, kind, payload, priority, delay, run_at, Options(**options), assume_new, replaces
    )


class QueueDriver:
    """A queue, its store, and the clock that the store uses."""

    def __init__(self, store: Store, clock: ManualClock, queue: QueueKey) -> None:
        self.store = store
        self.clock = clock
        self.queue = queue

    def other_queue(self, name: str, tenant: str | None = None) -> QueueDriver:
        """Another queue of the same store."""
        return QueueDriver(self.store, self.clock, QueueKey(tenant or self.queue.tenant, name))

    def workers(self) -> list[WorkerRecord]:
        """The queue's workers, as the store knows them."""
        return self.store.workers([self.queue])[0]

    # --- enqueue and claim ---

    def enqueue(self, id: str, **more: Any) -> Receipt:
        """Enqueue one job."""
        return self.store.enqueue(self.queue, [draft(id, **more)])[0]

    def enqueue_all(self, ids: Iterable[str], **more: Any) -> list[Receipt]:
        """Enqueue jobs that differ in nothing but their id, in one batch."""
        return self.store.enqueue(self.queue, [draft(id, **more) for id in ids])

    def claim(
        self,
        limit: int = 1,
        *,
        worker: str = "w1",
        lease: float = LEASE,
        kinds: Iterable[str] | None = None,
        transitions: Iterable[Transition] = (),
        max_bytes: int | None = None,
        ignore_group_limit: bool = False,
    ) -> ClaimResult:
        """Claim, and return the whole result."""
        request = ClaimRequest(
            worker=worker,
            limit=limit,
            lease=lease,
            kinds=None if kinds is None else frozenset(kinds),
            max_bytes=max_bytes,
            ignore_group_limit=ignore_group_limit,
        )
        return self.store.claim(self.queue, request, list(transitions))

    def claim_jobs(self, limit: int = 1, **more: Any) -> list[Record]:
        """Claim, and return only the jobs."""
        return self.claim(limit, **more).jobs

    def claim_one(self, **more: Any) -> Record:
        """Claim one job, which must exist."""
        [job] = self.claim_jobs(1, **more)
        return job

    def claim_ids(self, limit: int = NO_LIMIT, **more: Any) -> list[str]:
        """Claim, and return the ids in the order in which the jobs came."""
        return [job.id for job in self.claim_jobs(limit, **more)]

    def enqueue_and_claim(self, id: str, **more: Any) -> Record:
        """Enqueue and claim a job."""
        self.enqueue(id, **more)
        job = self.claim_one()
        assert job.id == id
        return job

    # --- transitions ---

    def apply(self, *transitions: Transition) -> list[Verdict]:
        """Apply transitions in one batch."""
        return self.store.apply(self.queue, transitions)

    def apply_one(self, transition: Transition) -> Verdict:
        """Apply one transition."""
        return self.apply(transition)[0]

    def complete(self, job: Record, result: bytes | None = b"1") -> Verdict:
        """Complete a job."""
        return self.apply_one(complete(job, result, policy_of(job)))

    def fail(self, job: Record, delay: float | None = None) -> Verdict:
        """Fail an attempt."""
        step = fail(job, failure(job), policy_of(job), random.Random(0), delay)
        return self.apply_one(step)

    def expire(self, *jobs: Record) -> list[Verdict]:
        """Expire leases as they were read."""
        return self.apply(*(expire(job, policy_of(job)) for job in jobs))

    def sweep(self) -> list[Verdict]:
        """Expire leases past their deadline, as the maintenance loop does."""
        return self.expire(*self.store.leases(self.queue))

    def dead_letter(self, id: str, **more: Any) -> Record:
        """Enqueue a job whose only attempt fails."""
        job = self.enqueue_and_claim(id, **{"max_attempts": 1, **more})
        assert self.fail(job) == Verdict(True, State.FAILED)
        return job

    def heartbeat(self, *jobs: Record, worker: str = "w1", ttl: float = 15.0) -> HeartbeatReply:
        """Send a heartbeat that extends the lease of each of the jobs."""
        heartbeat = Heartbeat(
            id=worker, host="h", pid=1, started_at=0.0, concurrency=1, kinds=None, ttl=ttl
        )
        extensions = [LeaseExtension(job.id, job.token, LEASE) for job in jobs]
        return self.store.heartbeat(self.queue, heartbeat, extensions)

    # --- reading ---

    def find(self, id: str) -> Record | None:
        """A job as stored, or None."""
        return self.store.get(self.queue, [id])[0]

    def get(self, id: str) -> Record:
        """A job as stored; it must exist."""
        job = self.find(id)
        assert job is not None, f"the store has no job {id!r}"
        return job

    def state(self, id: str) -> State | None:
        """The state of a job, or None."""
        job = self.find(id)
        return job.state if job is not None else None

    def counts(self) -> dict[State, int]:
        """The store's counts by state; states without jobs are left out."""
        [queue] = self.store.describe(self.queue.tenant, self.queue.name)
        return {state: count for state, count in queue.counts.items() if count}

    def listed(
        self, which: Filter = ALL_JOBS, page: int = NO_LIMIT, *, newest_first: bool = False
    ) -> list[Record]:
        """All jobs that match, page by page."""
        found: list[Record] = []
        cursor: str | None = None
        while True:
            found_page = self.store.page(self.queue, which, cursor, page, newest_first)
            found += found_page.jobs
            cursor = found_page.cursor
            if cursor is None:
                return found

    def journal(self) -> list[Event]:
        """The whole journal of this queue."""
        return list(self.store.events(self.queue, None, NO_LIMIT))

    def steps(self, id: str) -> list[tuple[Act, State | None, State | None]]:
        """The journal entries of one job, as (act, source, to)."""
        return [(event.act, event.source, event.to) for event in self.journal() if event.id == id]

    # --- operating ---

    def configure(self, **settings: Any) -> None:
        """Replace the settings of this queue."""
        self.store.configure(self.queue, QueueSettings(**settings))

    def keys(self, *prefix: str) -> dict[tuple[str, ...], bytes]:
        """The tenant's keys under a prefix."""
        found = self.store.read_keys(self.queue.tenant, prefix, NO_LIMIT)
        return {entry.key: entry.value for entry in found}

    def write(self, *key: str, value: bytes | None, version: int | None = None) -> bool:
        """Write one key of the tenant."""
        return self.store.write_keys(
            self.queue.tenant, [KeyWrite(key=key, value=value, version=version)]
        )
