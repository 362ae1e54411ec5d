"""Leases and heartbeats, and how the jobs of transitions are found and locked."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from ackline.core.errors import StoreUnavailable
from ackline.core.events import Act
from ackline.core.job import QueueKey, State
from ackline.core.lifecycle import Transition
from ackline.stores.contract import Heartbeat, HeartbeatReply, LeaseExtension
from ackline.stores.postgres.engine import Engine
from ackline.stores.postgres.io.pipeline import ByteStrings, Floats, Ints
from ackline.stores.postgres.io.transaction import PendingRows, Transaction
from ackline.stores.postgres.job_rows import LEASED, NO_TABLE, JobRow, job_row
from ackline.stores.postgres.queue_cache import CachedQueue, QueueCache, decode_name
from ackline.stores.shared.heartbeat import JobLease, plan_heartbeat
from ackline.stores.shared.record_encoding import encode_heartbeat


class Lease:
    """One row: those jobs of one claim that are still open and share a deadline."""

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
        """What `add_lease` and `set_lease` write."""
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
    num, token, worker, started, deadline, jobs, attempts, ranks, asked = row
    lease = Lease(num, token, decode_name(worker), started, deadline)
    lease.jobs = dict(zip(jobs, zip(attempts, ranks, strict=True), strict=True))
    lease.cancel_requested = set(asked)
    return lease


def with_lease(job: JobRow, lease: Lease) -> JobRow:
    """The same job, found in a lease."""
    job.table = job.old_table = LEASED
    job.state, job.at = State.PROCESSING, lease.deadline
    job.attempts, job.rank = lease.jobs[job.num]
    job.token, job.worker, job.started_at = lease.token, lease.worker, lease.started
    job.cancel_requested = job.num in lease.cancel_requested
    return job


class Leases:
    """The locked leases of one queue."""

    def __init__(self, tx: Transaction, cached: CachedQueue) -> None:
        self._tx = tx
        self._cached = cached
        self._rows: dict[int, Lease] = {}
        self._new: list[Lease] = []
        self._extended: dict[tuple[int, float], Lease] = {}
        """New leases, by the lease that their jobs come from and the new deadline."""
        self._by_job: dict[int, Lease] = {}

    def add_rows(self, rows: Iterable[Sequence[Any]]) -> None:
        """Take rows that were just locked."""
        for row in rows:
            if row[0] not in self._rows:
                lease = self._rows[row[0]] = lease_of(row)
                self._by_job.update(dict.fromkeys(lease.jobs, lease))

    def lock_jobs(self, nums: Sequence[int], *, wait: bool = True) -> None:
        """Lock the leases of these jobs; without `wait`, only those that nobody has locked."""
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
        """Ask a leased job to stop."""
        lease = self._by_job[num]
        lease.cancel_requested.add(num)
        lease.changed = True

    def extend(self, num: int, deadline: float) -> None:
        """Give a job another deadline; jobs that shared a row and get the same one still share one.

        No others join them: a job that was given a row of its own keeps it for itself.
        """
        old = self._by_job[num]
        if old.deadline == deadline:
            return
        # The new deadline may be earlier than the old one.
        self._cached.lease_scan.lower(deadline)
        new = self._extended.get((id(old), deadline))
        if new is None:
            new = Lease(None, old.token, old.worker, old.started, deadline)
            self._extended[id(old), deadline] = new
            self._new.append(new)
        self._move_job(num, old, new)

    def split_off(self, num: int) -> None:
        """Give a job a row of its own."""
        old = self._by_job[num]
        if len(old.jobs) > 1:
            new = Lease(None, old.token, old.worker, old.started, old.deadline)
            self._new.append(new)
            self._move_job(num, old, new)

    def shared(self, tokens: AbstractSet[int], known: AbstractSet[int] | None) -> bool:
        """Whether a lease of these tokens has several jobs, one of them `known` (None: any)."""
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
        """Write the changes; a lease whose jobs all moved to a new one leaves its row to that."""
        queue, new = self._cached.num, [lease for lease in self._new if lease.jobs]
        gone = []
        for lease in self._rows.values():
            if lease.jobs:
                if lease.changed:
                    self._tx.send("set_lease", lease.values(queue))
            elif lease.changed:
                successor = next((other for other in new if other.token == lease.token), None)
                if successor is None:
                    gone.append(lease.num)
                else:
                    new.remove(successor)
                    successor.num = lease.num
                    self._tx.send("set_lease", successor.values(queue))
        if gone:
            self._tx.send("delete_leases", {"nums": Ints(gone)})  # type: ignore[arg-type]
        for lease in new:
            self._tx.send("add_lease", lease.values(queue))


LOOKUP_ATTEMPTS = 50
"""How often a job is looked for that keeps moving between the tables."""


def request_leases(
    tx: Transaction, cached: CachedQueue, transitions: Sequence[Transition]
) -> list[PendingRows]:
    """Request the leases that these transitions name.

    Transitions that wait request only the rows of their own jobs: other rows of the same token may
    be locked for long by callers' transactions.
    """
    sent = []
    waiting, skipping = list[Transition](), list[Transition]()
    for step in transitions:
        if step.token is not None:
            (skipping if _skips_locked(cached, step) else waiting).append(step)
    if waiting:
        values = _tokens(cached, waiting) | {"jobs": _numbers(tx, cached, waiting)}
        sent.append(tx.send("lock_leases", values))
    if skipping:
        # A caller's transaction keeps its locks: again only the rows of these jobs.
        jobs = _numbers(tx, cached, skipping) if tx.is_borrowed else None
        sent.append(tx.send("lock_free_leases", _tokens(cached, skipping) | {"jobs": jobs}))
    return sent


def _skips_locked(cached: CachedQueue, skips_locked_rows: Transition) -> bool:
    """Whether to be refused instead of waiting for another transaction that is changing the lease.

    A caller's transaction may stay open for long. And what would expire a lease need not wait:
    whoever is changing it holds it.
    """
    return skips_locked_rows.act is Act.EXPIRE or cached.may_be_in_transaction(
        skips_locked_rows.id, skips_locked_rows.token
    )


def _tokens(cached: CachedQueue, steps: Sequence[Transition]) -> dict[str, Any]:
    tokens = {step.token for step in steps if step.token is not None}
    return {"queue": cached.num, "tokens": Ints(sorted(tokens))}


def _numbers(tx: Transaction, cached: CachedQueue, steps: Sequence[Transition]) -> Ints:
    return Ints(list(job_numbers(tx, cached, [step.id for step in steps]).values()))


def job_numbers(tx: Transaction, cached: CachedQueue, ids: Sequence[str]) -> dict[str, int]:
    """The numbers of the jobs of these ids, as far as they exist."""
    bodies = cached.jobs
    known = {id: body[0] for id in ids if (body := bodies.get(id)) is not None}
    if len(known) == len(ids):
        return known
    missing = sorted({id.encode() for id in ids if id not in known})
    if missing:
        rows = tx.rows("job_numbers", {"queue": cached.num, "ids": ByteStrings(missing)})
        known |= {id.decode(): num for id, num in rows}
    return known


def forget_numbers(cached: CachedQueue, ids: Iterable[str]) -> None:
    """Look these up again next time: another process may have enqueued their ids anew."""
    for id in ids:
        cached.jobs.pop(id, None)


def read_leases(tx: Transaction, cached: CachedQueue, sent: Iterable[PendingRows]) -> Leases:
    """The leases that were requested."""
    leases = Leases(tx, cached)
    for rows in sent:
        leases.add_rows(rows.fetchall())
    return leases


def lock_leases(tx: Transaction, cached: CachedQueue, steps: Sequence[Transition]) -> Leases:
    """The leases that these transitions name, even if an earlier job's number is remembered."""
    leases = read_leases(tx, cached, request_leases(tx, cached, steps))
    missed = [
        step for step in steps if step.token is not None and _is_missing(cached, leases, step)
    ]
    if missed:
        forget_numbers(cached, [step.id for step in missed])
        for sent in request_leases(tx, cached, missed):
            leases.add_rows(sent.fetchall())
    return leases


def _is_missing(cached: CachedQueue, leases: Leases, step: Transition) -> bool:
    body = cached.jobs.get(step.id)
    return body is not None and leases.find(body[0]) is None


def split_lease_rows(
    tx: Transaction,
    queues: QueueCache,
    queue: QueueKey,
    transitions: Sequence[Transition],
    *,
    all_of_them: bool = False,
) -> frozenset[int]:
    """Give leased jobs lease rows of their own, so that locking them holds up no other job.

    Returns which of them are leased. With `all_of_them`, jobs that share a row with them get rows
    of their own, too.
    """
    cached = queues.find(tx, queue)
    if cached is None:
        return frozenset()
    fenced = [step for step in transitions if step.token is not None]
    leases, parted = lock_leases(tx, cached, fenced), set[int]()
    numbers = job_numbers(tx, cached, [step.id for step in fenced])
    for step in fenced:
        num = numbers.get(step.id)
        lease = None if num is None else leases.find(num)
        if num is not None and lease is not None and lease.token == step.token:
            for job in list(lease.jobs) if all_of_them else [num]:
                leases.split_off(job)
            parted.add(num)
    leases.write()
    return frozenset(parted)


class JobLookup:
    """The jobs of one batch, each locked in its table."""

    def __init__(self, tx: Transaction, cached: CachedQueue, leases: Leases | None = None) -> None:
        self.leases = leases or Leases(tx, cached)
        self._tx = tx
        self._cached = cached
        self._jobs: dict[str, JobRow | None] = {}

    def job(self, id: str) -> JobRow | None:
        """A job that was looked for."""
        return self._jobs[id]

    def forget(self, id: str) -> None:
        """Note that a job is no longer in this queue."""
        self._jobs[id] = None

    def find_for(self, transitions: Iterable[Transition]) -> None:
        """Look for the jobs of these transitions.

        A transition with a token can change only a lease, and so waits for no other row. One that
        skips locked leases waits for nothing: a lease that is being changed counts as another's.
        """
        fenced, ids, skipping = set[str](), set[str](), set[str]()
        for step in transitions:
            (ids if step.token is None else fenced).add(step.id)
            if _skips_locked(self._cached, step):
                skipping.add(step.id)
        self.find(fenced - ids, "find_jobs", skipping)
        self.find(ids)

    def find(
        self,
        ids: Iterable[str],
        statement: str = "lock_jobs",
        skipping: AbstractSet[str] = frozenset(),
    ) -> None:
        """Look for jobs: among the remembered claimed ones, then in the tables."""
        missing = {id for id in ids if id not in self._jobs and not self._find_claimed(id)}
        for _ in range(LOOKUP_ATTEMPTS):
            if not missing:
                return
            missing = self._find_once(missing, statement, skipping)
        raise StoreUnavailable(
            "the jobs kept changing state while they were looked up; nothing was changed, try again"
        )

    def _find_claimed(self, id: str) -> bool:
        body = self._cached.jobs.get(id)
        lease = self.leases.find(body[0]) if body is not None else None
        if body is None or lease is None:
            return False
        self._jobs[id] = with_lease(JobRow(id, body), lease)
        return True

    def _find_once(self, ids: set[str], statement: str, skipping: AbstractSet[str]) -> set[str]:
        """Look once; returns the ids of jobs that were just between two homes."""
        encoded = sorted(id.encode() for id in ids)
        rows = self._tx.rows(statement, {"queue": self._cached.num, "ids": ByteStrings(encoded)})
        found = {job.id: job for job in map(job_row, rows)}
        homeless = [job for job in found.values() if job.table == NO_TABLE]
        self._find_leased(homeless, skipping)
        if found:
            nums = Ints([job.num for job in found.values()])
            priorities: dict[int, int] = dict(self._tx.rows("priorities", {"jobs": nums}))
            for job in found.values():
                job.priority = priorities.get(job.num, job.priority)
        again = {job.id for job in homeless if job.table == NO_TABLE and job.id not in skipping}
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


LOCKED_LEASE_DELAYS = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1)
"""Seconds before each further try at leases that others are changing."""

Extensions = Mapping[int, LeaseExtension]
"""Holds by their index in the worker's list."""


class ExtendResult(NamedTuple):
    """What became of holds, by their indexes."""

    lost: list[int]
    cancelled: list[int]
    busy: list[int]
    """Leases that exist, but that another transaction is changing."""


def heartbeat(
    engine: Engine, queue: QueueKey, beat: Heartbeat, holds: Sequence[LeaseExtension]
) -> HeartbeatReply:
    """Note that a worker is alive, and extend its leases.

    It never waits for a lock: a caller's transaction may hold one for long, and the other leases
    must not lapse because of that. A lease that stays locked is left as it is: it is not lost.
    """
    by_index = dict(enumerate(holds))
    found = engine.write(
        lambda tx: _save_heartbeat(tx, engine.queues.ensure(tx, queue), beat, by_index)
    )
    for pause in LOCKED_LEASE_DELAYS:
        if not found.busy:
            break
        time.sleep(pause)
        found = _extend_again(engine, queue, by_index, found)
    return HeartbeatReply(sorted(found.lost), sorted(found.cancelled))


def _extend_again(
    engine: Engine, queue: QueueKey, holds: Extensions, found: ExtendResult
) -> ExtendResult:
    left = {index: holds[index] for index in found.busy}
    more = engine.write(lambda tx: _extend(tx, engine.queues.ensure(tx, queue), left))
    return ExtendResult(found.lost + more.lost, found.cancelled + more.cancelled, more.busy)


def _save_heartbeat(
    tx: Transaction, cached: CachedQueue, beat: Heartbeat, holds: Extensions
) -> ExtendResult:
    name = {"queue": cached.num, "id": beat.id.encode()}
    if beat.ttl > 0:
        values = {
            "heartbeat": encode_heartbeat(beat),
            "last_heartbeat": tx.now,
            "expires": tx.now + beat.ttl,
        }
        tx.send("save_heartbeat", name | values)
    else:
        tx.send("remove_worker", name)
    return _extend(tx, cached, holds)


def _extend(tx: Transaction, cached: CachedQueue, holds: Extensions) -> ExtendResult:
    """Extend the leases that nobody else is changing."""
    leases = Leases(tx, cached)
    nums = job_numbers(tx, cached, [hold.id for hold in holds.values()])
    leases.add_rows(_rows(tx, cached, "lock_free_leases", holds, nums))

    def find(id: str) -> JobLease[int] | None:
        num = nums.get(id, 0)
        lease = leases.find(num)
        if lease is None:
            return None
        return (num, lease.token, lease.deadline, num in lease.cancel_requested)

    plan = plan_heartbeat(holds.items(), find, tx.now)
    for num, deadline in plan.extended:
        leases.extend(num, deadline)
    leases.write()
    found = ExtendResult([], plan.cancelled, [])
    missing = dict[int, LeaseExtension]()
    for index in plan.lost:
        hold = holds[index]
        if cached.may_be_in_transaction(hold.id, hold.token):
            continue  # neither lost nor kept: the caller's transaction ends the lease
        lease = leases.find(nums.get(hold.id, 0))
        if lease is not None and lease.token == hold.token:
            found.lost.append(index)
        else:
            missing[index] = hold
    if missing:
        _classify_missing(tx, cached, missing, found)
    return found


def _classify_missing(
    tx: Transaction, cached: CachedQueue, missing: Extensions, found: ExtendResult
) -> None:
    """Sort missing leases into lost ones and those that another transaction is changing."""
    ids = [hold.id for hold in missing.values()]
    forget_numbers(cached, ids)
    nums, leases = job_numbers(tx, cached, ids), Leases(tx, cached)
    leases.add_rows(_rows(tx, cached, "read_leases", missing, nums))
    for index, hold in missing.items():
        lease = leases.find(nums.get(hold.id, 0))
        held = lease is not None and lease.token == hold.token
        (found.busy if held else found.lost).append(index)


def _rows(
    tx: Transaction, cached: CachedQueue, statement: str, holds: Extensions, nums: Mapping[str, int]
) -> list[tuple[object, ...]]:
    """The leases of these tokens that have these jobs."""
    existing = [hold for hold in holds.values() if hold.id in nums]
    if not existing:
        return []
    tokens = Ints(sorted({hold.token for hold in existing}))
    jobs = Ints([nums[hold.id] for hold in existing])
    return tx.rows(statement, {"queue": cached.num, "tokens": tokens, "jobs": jobs})
