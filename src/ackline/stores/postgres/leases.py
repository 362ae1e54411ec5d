"""Leases, and how the jobs of transitions are found and locked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from ackline.core.errors import StoreUnavailable
from ackline.core.events import Act
from ackline.core.job import QueueKey, State
from ackline.core.lifecycle import Transition
from ackline.stores.postgres.io.pipeline import ByteStrings, Floats, Ints
from ackline.stores.postgres.io.transaction import PendingRows, Transaction
from ackline.stores.postgres.job_rows import LEASED, NO_TABLE, JobRow, job_row
from ackline.stores.postgres.queue_cache import JOB_NUMBER, CachedQueue, QueueCache, decode_name


class Lease:
    """A row of the table `lease`: jobs of one claim with the same deadline."""

    __slots__ = (
        "cancel_requested",
        "changed",
        "deadline",
        "jobs",
        "num",
        "started",
        "token",
        "worker"
    )  # fmt: skip

    def __init__(
        self, num: int | None, token: int, worker: str, started: float, deadline: float
    ) -> None:
        self.num = num
        self.token = token
        self.worker = worker
        self.started = started
        self.deadline = deadline
        self.jobs: dict[int, tuple[int, float]] = {}
        """Job → attempts and rank."""
        self.cancel_requested: set[int] = set()
        self.changed = False

    def values(self, queue: int) -> dict[str, Any]:
        """The parameters of `add_lease` and `set_lease`."""
        return {
            "num": self.num,
            "token": self.token,
            "queue": queue,
            "worker": self.worker.encode(),
            "started": self.started,
            "deadline": self.deadline,
            "jobs": Ints(list(self.jobs)),
            "attempts": Ints([attempts for attempts, _ in self.jobs.values()]),
            "ranks": Floats([rank for _, rank in self.jobs.values()]),
            "cancel_requested": Ints(sorted(self.cancel_requested)),
        }


def lease_of(row: Sequence[Any]) -> Lease:
    """A lease, from a row of `lock_leases`."""
    num, token, worker, started, deadline, jobs, attempts, ranks, cancel_requested = row
    lease = Lease(num, token, decode_name(worker), started, deadline)
    lease.jobs = dict(zip(jobs, zip(attempts, ranks, strict=True), strict=True))
    lease.cancel_requested = set(cancel_requested)
    return lease


def with_lease(job: JobRow, lease: Lease) -> JobRow:
    """Fill in a job from its lease."""
    job.table = job.old_table = LEASED
    job.state, job.at = State.PROCESSING, lease.deadline
    job.attempts, job.rank = lease.jobs[job.num]
    job.token, job.worker, job.started_at = lease.token, lease.worker, lease.started
    job.cancel_requested = job.num in lease.cancel_requested
    return job


class Leases:
    """The leases of one queue that a transaction has locked."""

    def __init__(self, tx: Transaction, cached: CachedQueue) -> None:
        self._tx = tx
        self._cached = cached
        self._rows: dict[int, Lease] = {}
        self._new: list[Lease] = []
        self._extended: dict[tuple[int, float], Lease] = {}
        """New leases, by the lease that their jobs come from and the new deadline."""
        self._by_job: dict[int, Lease] = {}

    def add_rows(self, rows: Iterable[Sequence[Any]]) -> None:
        """Add rows that were just locked."""
        for row in rows:
            if row[0] not in self._rows:
                lease = self._rows[row[0]] = lease_of(row)
                self._by_job.update(dict.fromkeys(lease.jobs, lease))

    def lock_jobs(self, nums: Sequence[int], *, wait: bool = True) -> None:
        """Lock the leases of these jobs; without `wait`, skip those that others have locked."""
        values = {"queue": self._cached.num, "jobs": Ints(nums)}
        self.add_rows(self._tx.rows("lock_leases_of" if wait else "lock_free_leases_of", values))

    def find(self, num: int) -> Lease | None:
        """The lease of a job."""
        return self._by_job.get(num)

    def remove_job(self, num: int) -> None:
        """End the lease of a job."""
        lease = self._by_job.pop(num)
        del lease.jobs[num]
        lease.cancel_requested.discard(num)
        lease.changed = True

    def request_cancel(self, num: int) -> None:
        """Request the cancellation of a leased job."""
        lease = self._by_job[num]
        lease.cancel_requested.add(num)
        lease.changed = True

    def extend(self, num: int, deadline: float) -> None:
        """Change a job's deadline; jobs that share a row and get the same one still share a row.

        Other rows are not merged: a job that was split off keeps a row of its own.
        """
        old = self._by_job[num]
        if old.deadline == deadline:
            return
        # The new deadline may be earlier than the old one.
        self._cached.lease_scan.include(deadline)
        new = self._extended.get((id(old), deadline))
        if new is None:
            new = Lease(None, old.token, old.worker, old.started, deadline)
            self._extended[id(old), deadline] = new
            self._new.append(new)
        self._move_job(num, old, new)

    def split_off(self, num: int) -> None:
        """Give a job a lease row of its own."""
        old = self._by_job[num]
        if len(old.jobs) > 1:
            new = Lease(None, old.token, old.worker, old.started, old.deadline)
            self._new.append(new)
            self._move_job(num, old, new)

    def shared(self, tokens: AbstractSet[int], known: AbstractSet[int] | None) -> bool:
        """Whether a lease of these tokens has several jobs, one of them in `known` (None: any)."""
        return any(
            lease.token in tokens
            and len(lease.jobs) > 1
            and (known is None or not known.isdisjoint(lease.jobs))
            for lease in self._rows.values()
        )

    def _move_job(self, num: int, old: Lease, new: Lease) -> None:
        new.jobs[num] = old.jobs.pop(num)
        if num in old.cancel_requested:
            old.cancel_requested.remove(num)
            new.cancel_requested.add(num)
        old.changed = new.changed = True
        self._by_job[num] = new

    def write(self) -> None:
        """Write the changes; a lease whose jobs have all moved to a new one passes its row on."""
        queue, new = self._cached.num, [lease for lease in self._new if lease.jobs]
        deleted = []
        for lease in self._rows.values():
            if lease.jobs:
                if lease.changed:
                    self._tx.send("set_lease", lease.values(queue))
            elif lease.changed:
                successor = next((other for other in new if other.token == lease.token), None)
                if successor is None:
                    deleted.append(lease.num)
                else:
                    new.remove(successor)
                    successor.num = lease.num
                    self._tx.send("set_lease", successor.values(queue))
        if deleted:
            self._tx.send("delete_leases", {"nums": Ints(deleted)})  # type: ignore[arg-type]
        for lease in new:
            self._tx.send("add_lease", lease.values(queue))


LOOKUP_ATTEMPTS = 50
"""How many times to look up a job that keeps moving between tables."""


def request_leases(
    tx: Transaction, cached: CachedQueue, transitions: Sequence[Transition]
) -> list[PendingRows]:
    """Request the leases of these transitions.

    Those that wait for locks request only the rows of their own jobs, because other rows of the
    same token may be locked by borrowed transactions for long.
    """
    sent = []
    waiting, skipping = list[Transition](), list[Transition]()
    for transition in transitions:
        if transition.token is not None:
            (skipping if _skips_locked_rows(cached, transition) else waiting).append(transition)
    if waiting:
        values = _tokens(cached, waiting) | {"jobs": _numbers(tx, cached, waiting)}
        sent.append(tx.send("lock_leases", values))
    if skipping:
        # A borrowed transaction keeps its locks, so it too locks only the rows of these jobs.
        jobs = _numbers(tx, cached, skipping) if tx.is_borrowed else None
        sent.append(tx.send("lock_free_leases", _tokens(cached, skipping) | {"jobs": jobs}))
    return sent


def _skips_locked_rows(cached: CachedQueue, transition: Transition) -> bool:
    """Whether a transition is refused instead of waiting for a locked lease.

    A borrowed transaction may stay open for long. And to expire a lease need not wait, because a
    lease that is being changed is still in use.
    """
    return transition.act is Act.EXPIRE or cached.may_be_in_transaction(
        transition.id, transition.token
    )


def _tokens(cached: CachedQueue, transitions: Sequence[Transition]) -> dict[str, Any]:
    tokens = {transition.token for transition in transitions if transition.token is not None}
    return {"queue": cached.num, "tokens": Ints(sorted(tokens))}


def _numbers(tx: Transaction, cached: CachedQueue, transitions: Sequence[Transition]) -> Ints:
    return Ints(
        list(job_numbers(tx, cached, [transition.id for transition in transitions]).values())
    )


def job_numbers(tx: Transaction, cached: CachedQueue, ids: Sequence[str]) -> dict[str, int]:
    """Id → number, for the jobs that exist."""
    jobs = cached.jobs
    known = {id: job[0] for id in ids if (job := jobs.get(id)) is not None}
    if len(known) == len(ids):
        return known
    missing = sorted({id.encode() for id in ids if id not in known})
    if missing:
        rows = tx.rows("job_numbers", {"queue": cached.num, "ids": ByteStrings(missing)})
        known |= {id.decode(): num for id, num in rows}
    return known


def evict_jobs(cached: CachedQueue, ids: Iterable[str]) -> None:
    """Remove jobs from the cache, because their ids may have been enqueued again."""
    for id in ids:
        cached.jobs.pop(id, None)


def read_leases(tx: Transaction, cached: CachedQueue, sent: Iterable[PendingRows]) -> Leases:
    """Read the leases that were requested."""
    leases = Leases(tx, cached)
    for rows in sent:
        leases.add_rows(rows.fetchall())
    return leases


def lock_leases(tx: Transaction, cached: CachedQueue, transitions: Sequence[Transition]) -> Leases:
    """Lock the leases of these transitions, even if the cache has an earlier job of an id."""
    leases = read_leases(tx, cached, request_leases(tx, cached, transitions))
    missed = [
        transition
        for transition in transitions
        if transition.token is not None and _is_missing(cached, leases, transition)
    ]
    if missed:
        evict_jobs(cached, [transition.id for transition in missed])
        for sent in request_leases(tx, cached, missed):
            leases.add_rows(sent.fetchall())
    return leases


def _is_missing(cached: CachedQueue, leases: Leases, transition: Transition) -> bool:
    cached_job = cached.jobs.get(transition.id)
    return cached_job is not None and leases.find(cached_job[JOB_NUMBER]) is None


def split_lease_rows(
    tx: Transaction,
    queues: QueueCache,
    queue: QueueKey,
    transitions: Sequence[Transition],
    *,
    with_shared: bool = False,
) -> frozenset[int]:
    """Give leased jobs lease rows of their own, so that their locks block no other job.

    Returns the numbers of those that are leased. With `with_shared`, jobs that share a row with
    them get rows of their own, too.
    """
    cached = queues.find(tx, queue)
    if cached is None:
        return frozenset()
    fenced = [transition for transition in transitions if transition.token is not None]
    leases, split = lock_leases(tx, cached, fenced), set[int]()
    numbers = job_numbers(tx, cached, [transition.id for transition in fenced])
    for transition in fenced:
        num = numbers.get(transition.id)
        lease = None if num is None else leases.find(num)
        if num is not None and lease is not None and lease.token == transition.token:
            for job in list(lease.jobs) if with_shared else [num]:
                leases.split_off(job)
            split.add(num)
    leases.write()
    return frozenset(split)


class JobLookup:
    """Finds the jobs of a batch and locks their rows."""

    def __init__(self, tx: Transaction, cached: CachedQueue, leases: Leases | None = None) -> None:
        self.leases = leases or Leases(tx, cached)
        self._tx = tx
        self._cached = cached
        self._jobs: dict[str, JobRow | None] = {}

    def job(self, id: str) -> JobRow | None:
        """A job that was looked up before."""
        return self._jobs[id]

    def remove(self, id: str) -> None:
        """Record that a job is no longer in this queue."""
        self._jobs[id] = None

    def find_for(self, transitions: Iterable[Transition]) -> None:
        """Look up the jobs of these transitions.

        A transition with a token can change only a lease, so it locks no other row. One that skips
        locked rows waits for nothing: a lease that is being changed counts as another's.
        """
        fenced, ids, skipping = set[str](), set[str](), set[str]()
        for transition in transitions:
            (ids if transition.token is None else fenced).add(transition.id)
            if _skips_locked_rows(self._cached, transition):
                skipping.add(transition.id)
        self.find(fenced - ids, "find_jobs", skipping)
        self.find(ids)

    def find(
        self,
        ids: Iterable[str],
        statement: str = "lock_jobs",
        skipping: AbstractSet[str] = frozenset(),
    ) -> None:
        """Look up jobs in the cache of claimed jobs, then in the tables."""
        missing = {id for id in ids if id not in self._jobs and not self._find_claimed(id)}
        for _ in range(LOOKUP_ATTEMPTS):
            if not missing:
                return
            missing = self._find_once(missing, statement, skipping)
        raise StoreUnavailable(
            "the jobs kept changing state while they were looked up; nothing was changed, try again"
        )

    def _find_claimed(self, id: str) -> bool:
        cached_job = self._cached.jobs.get(id)
        lease = self.leases.find(cached_job[JOB_NUMBER]) if cached_job is not None else None
        if cached_job is None or lease is None:
            return False
        self._jobs[id] = with_lease(JobRow(id, cached_job), lease)
        return True

    def _find_once(self, ids: set[str], statement: str, skipping: AbstractSet[str]) -> set[str]:
        """Look up once; returns the ids of jobs that were moving between two tables."""
        encoded = sorted(id.encode() for id in ids)
        rows = self._tx.rows(statement, {"queue": self._cached.num, "ids": ByteStrings(encoded)})
        found = {job.id: job for job in map(job_row, rows)}
        without_table = [job for job in found.values() if job.table == NO_TABLE]
        self._find_leased(without_table, skipping)
        if found:
            nums = Ints([job.num for job in found.values()])
            priorities: dict[int, int] = dict(self._tx.rows("priorities", {"jobs": nums}))
            for job in found.values():
                job.priority = priorities.get(job.num, job.priority)
        again = {
            job.id for job in without_table if job.table == NO_TABLE and job.id not in skipping
        }
        self._jobs.update({id: found.get(id) for id in ids - again})
        return again

    def _find_leased(self, without_table: list[JobRow], skipping: AbstractSet[str]) -> None:
        for wait in (True, False):
            nums = [job.num for job in without_table if (job.id not in skipping) is wait]
            unlocked = [num for num in nums if self.leases.find(num) is None]
            if unlocked:
                self.leases.lock_jobs(unlocked, wait=wait)
        for job in without_table:
            lease = self.leases.find(job.num)
            if lease is not None:
                with_lease(job, lease)
            elif job.id in skipping:
                job.state = State.PROCESSING
