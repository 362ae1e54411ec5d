"""Apply a batch of transitions, each if its guard holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ackline.core.events import Act
from ackline.core.job import Failure, Options, QueueKey, State
from ackline.core.lifecycle import PositionRule, Transition, Verdict
from ackline.stores.contract import HISTORY_LIMIT
from ackline.stores.postgres.groups import free_groups
from ackline.stores.postgres.io.pipeline import ByteStrings, Floats, Ints
from ackline.stores.postgres.io.transaction import RetryTransaction, Transaction
from ackline.stores.postgres.job_rows import (
    INACTIVE,
    NO_TIME,
    PARKED,
    READY,
    JobRow,
    NewRows,
    job_row,
)
from ackline.stores.postgres.leases import JobLookup, Lease
from ackline.stores.postgres.queue_cache import JOB_NUMBER, CachedJob, CachedQueue, QueueCache
from ackline.stores.postgres.scan_position import UNORDERED_LANE
from ackline.stores.shared.apply import AppliedChange, ApplyPlan
from ackline.stores.shared.key_encoding import encode_key
from ackline.stores.shared.record_encoding import (
    STATE_CODES,
    decode_failure,
    decode_options,
    encode_failure,
)

_COMPLETE, _COMPLETED, _PROCESSING = Act.COMPLETE, State.COMPLETED, State.PROCESSING
_DELETE_STATEMENTS = {READY: "delete_ready", PARKED: "delete_parked", INACTIVE: "delete_inactive"}


class NeedsLookup(Exception):
    """Raised if the job of a transition has to be looked up first."""


def apply(
    tx: Transaction,
    queues: QueueCache,
    cached: CachedQueue,
    transitions: Sequence[Transition],
    lookup: JobLookup,
    *,
    only_completions: bool = False,
) -> list[Verdict]:
    """Apply a batch; returns the verdicts in its order.

    With `only_completions`, raises `NeedsLookup` unless each one completes a lease that was found.
    """
    tx.changes_of(cached.key, cached.num)
    plan = _ApplyPlan(tx, queues, cached, lookup, len(transitions))
    ids = {transition.id for transition in transitions}
    if len(ids) == len(transitions):
        others = plan.complete(transitions)
    else:
        # One by one: a later transition must see how an earlier one changed the same job.
        others = list(enumerate(transitions))
    if only_completions and others:
        raise NeedsLookup
    lookup.find_for([transition for _, transition in others])
    for index, transition in others:
        plan.apply(index, transition)
    plan.finish()
    return plan.verdicts


class _ApplyPlan(ApplyPlan[JobRow]):
    """The transitions of one call, and the rows that they change."""

    def __init__(
        self, tx: Transaction, queues: QueueCache, cached: CachedQueue, lookup: JobLookup, size: int
    ) -> None:
        super().__init__(cached.key, cached.settings, size, tx.now)
        self._tx = tx
        self._queues = queues
        self._cached = cached
        self._lookup = lookup
        self._changed: dict[int, tuple[JobRow, bool]] = {}
        """Job → its changed row, and whether it gets a new rank."""
        self._failures: list[tuple[int, Failure]] = []
        self._targets: dict[QueueKey, CachedQueue] = {}

    # --- plain completions ---

    def complete(self, transitions: Sequence[Transition]) -> list[tuple[int, Transition]]:
        """Apply plain completions, with one statement per lease; returns the other transitions."""
        others: list[tuple[int, Transition]] = []
        completed: dict[int, list[tuple[int, Transition, CachedJob]]] = {}
        leases, cached_jobs = self._lookup.leases, self._cached.jobs
        leases_by_id: dict[int, Lease] = {}
        for index, transition in enumerate(transitions):
            cached_job = cached_jobs.get(transition.id) if transition.act is _COMPLETE else None
            lease = leases.find(cached_job[JOB_NUMBER]) if cached_job is not None else None
            if cached_job is None or lease is None or lease.token != transition.token:
                others.append((index, transition))
                continue
            leases_by_id[id(lease)] = lease
            completed.setdefault(id(lease), []).append((index, transition, cached_job))
        for number, lease in leases_by_id.items():
            self._finish_many(lease, completed[number])
        return others

    def _finish_many(
        self, lease: Lease, completed: list[tuple[int, Transition, CachedJob]]
    ) -> None:
        now, token, worker = self.now, lease.token, lease.worker
        record, remove, attempts = self.record_completion, self._lookup.leases.remove_job, []
        for index, transition, (num, kind, group, _) in completed:
            attempt = lease.jobs[num][0]
            attempts.append(attempt)
            record(index, transition, num, kind, group, attempt, token, worker)
            remove(num)
            self._cached.jobs.pop(transition.id, None)
        self._tx.change_counts(self._cached.num, _PROCESSING, _COMPLETED, len(completed))
        values = {
            "queue": self._cached.num,
            "token": token,
            "worker": worker.encode(),
            "started": lease.started,
            "now": now,
            "jobs": Ints([cached_job[JOB_NUMBER] for _, _, cached_job in completed]),
            "times": Floats([now + transition.keep for _, transition, _ in completed]),
            "attempts": Ints(attempts),
            "results": ByteStrings([transition.result for _, transition, _ in completed]),
        }
        self._tx.send("complete_jobs", values)
        # The server works on it while the next statements are prepared.
        self._tx.send_early(len(completed))

    # --- other transitions ---

    def find(self, id: str) -> JobRow | None:
        return self._lookup.job(id)

    def payload_of(self, job: JobRow) -> bytes:
        [(payload,)] = self._tx.rows("payload_of", {"job": job.num})
        return bytes(payload)

    def result_and_history(self, job: JobRow) -> tuple[bytes | None, Sequence[Failure]]:
        # Write earlier changes of this batch first, so that the queries find them.
        self._write_jobs()
        result = self._tx.rows("result_of", {"job": job.num})
        failures = self._tx.rows("attempts_of", {"jobs": Ints([job.num])})
        return (
            result[0][0] if result else None,
            [decode_failure(failure) for _, failure in failures],
        )

    def options_of(self, jobs: Sequence[int]) -> Mapping[int, Options]:
        rows = self._tx.rows("options_of", {"jobs": Ints(jobs)})
        return {num: decode_options(data) for num, data in rows}

    def write_key(self, key: tuple[str, ...], job: JobRow) -> None:
        values = {"tenant": self.queue.tenant.encode(), "key": encode_key(key), "job": job.num}
        self._tx.send("copy_payload_to_key", values)

    def write(self, job: JobRow, transition: Transition, change: AppliedChange) -> None:
        self._write_edits(job, transition)
        destination, leases = change.destination, self._lookup.leases
        if destination.state is _PROCESSING:
            if destination.position_rule is PositionRule.DELAY:
                leases.extend(job.num, job.at)
            return
        if change.source is _PROCESSING:
            if change.attempt is not None:
                self._failures.append((job.num, change.attempt))
            leases.remove_job(job.num)
            self._cached.jobs.pop(job.id, None)
        if change.source is not job.state:
            self._tx.change_counts(self._cached.num, change.source, job.state)
        if job.state is not State.QUEUED:
            job.table = INACTIVE
        elif job.table != PARKED:  # a parked job stays parked
            job.table = READY
        self._changed[job.num] = (job, destination.position_rule is PositionRule.NEW_RANK)

    def _write_edits(self, job: JobRow, transition: Transition) -> None:
        """Write progress, a requested cancellation, or an edited payload or priority."""
        edit = transition.edit
        if transition.act is Act.PROGRESS:
            values = {"job": job.num, "token": job.token, "data": transition.progress}
            self._tx.send("set_progress", values)
        elif transition.act is Act.REQUEST_CANCEL:
            self._lookup.leases.request_cancel(job.num)
        elif edit is not None and (edit.payload is not None or edit.priority is not None):
            values = {"job": job.num, "payload": edit.payload, "priority": edit.priority}
            self._tx.send("edit_job", values)

    def _write_jobs(self) -> None:
        """Write the changed jobs to their tables."""
        if self._failures:
            self._write_ended()
        if not self._changed:
            return
        job_rows, to_delete = NewRows(self._tx, self._cached), dict[int, list[int]]()
        unmoved: list[JobRow] = []
        for job, new_rank in self._changed.values():
            if job.old_table == INACTIVE and job.table == INACTIVE:
                unmoved.append(job)
            else:
                if job.old_table in _DELETE_STATEMENTS:
                    to_delete.setdefault(job.old_table, []).append(job.num)
                _add_row(job_rows, job, new_rank)
            job.old_table = job.table
        self._changed.clear()
        for table, nums in to_delete.items():
            self._tx.send(_DELETE_STATEMENTS[table], {"jobs": Ints(nums)})
        if unmoved:
            self._tx.send("update_inactive", _inactive_columns(unmoved))
        job_rows.write()

    def _write_ended(self) -> None:
        nums = [num for num, _ in self._failures]
        failures = [encode_failure(failure) for _, failure in self._failures]
        self._failures.clear()
        self._tx.send("add_attempts", {"jobs": Ints(nums), "failures": ByteStrings(failures)})
        self._tx.send("trim_attempts", {"jobs": Ints(nums), "keep": HISTORY_LIMIT})

    # --- moves to other queues ---

    def move(self, job: JobRow, target: QueueKey) -> bool:
        self._write_jobs()
        existing = self._queues.find(self._tx, target)
        self._tx.now = self.now
        if existing is not None and not self._drop_replaced(existing, job.id):
            return False
        moved_to = self._targets[target] = self._queues.ensure(self._tx, target, [job.kind])
        self._tx.now = self.now
        self._move_job(job, moved_to)
        self._lookup.remove(job.id)
        return True

    def _drop_replaced(self, target: CachedQueue, id: str) -> bool:
        """Delete the target's job of this id if it is past its retention; False if it must stay."""
        values = {"queue": target.num, "ids": ByteStrings([id.encode()])}
        for old in map(job_row, self._tx.rows("lock_jobs", values)):
            if old.table != INACTIVE or not old.past_retention(self.now):
                return False
            self._tx.send("delete_jobs", {"jobs": Ints([old.num])})
            self._tx.changes_of(target.key, target.num)
            self._tx.change_counts(target.num, old.state, None)
        return True

    def _move_job(self, job: JobRow, target: CachedQueue) -> None:
        values = {"queue": target.num, "job": job.num}
        if not self._tx.rows("move_job", values):
            raise RetryTransaction
        if job.table == INACTIVE:
            self._tx.send("move_inactive", values)
        else:
            self._tx.send(_DELETE_STATEMENTS[job.table], {"jobs": Ints([job.num])})
            job_rows = NewRows(self._tx, target)
            job_rows.ready(job.num, job.kind, UNORDERED_LANE, job.rank, job)
            job_rows.write()
        self._tx.changes_of(target.key, target.num)
        self._tx.change_counts(self._cached.num, job.state, None)
        self._tx.change_counts(target.num, None, job.state)

    def finish(self) -> None:
        """Write the changed jobs and leases, and add the journal entries."""
        self._write_jobs()
        self._lookup.leases.write()
        self._tx.changes_of(self._cached.key, self._cached.num).entries += self.entries()
        for target, arrival in self.moved_in:
            num = self._targets[target].num
            self._tx.changes_of(target, num).entries.append(arrival)
        free_groups(self._tx, self._cached, self.freed_groups)


def _inactive_columns(jobs: list[JobRow]) -> dict[str, Any]:
    finished = [NO_TIME if job.finished_at is None else job.finished_at for job in jobs]
    return {
        "jobs": Ints([job.num for job in jobs]),
        "states": Ints([STATE_CODES[job.state] for job in jobs]),
        "times": Floats([job.at for job in jobs]),
        "attempts": Ints([job.attempts for job in jobs]),
        "finished": Floats(finished),
    }


def _add_row(job_rows: NewRows, job: JobRow, new_rank: bool) -> None:
    if job.table == INACTIVE:
        job_rows.inactive(job.num, job.state, job.at, job, job.finished_at, job.result)
    elif job.table == PARKED:
        job_rows.park(job.num, job.kind, job.group or "", job.rank, job)
    else:
        job_rows.ready(
            job.num, job.kind, job.priority if new_rank else UNORDERED_LANE, job.rank, job
        )
