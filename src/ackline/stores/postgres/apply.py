"""Apply decided transitions, each if its guard holds."""

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
from ackline.stores.postgres.queue_cache import CachedJob, CachedQueue, QueueCache
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
_DELETE_STATEMENTS = {READY: "leave_ready", PARKED: "leave_parked", INACTIVE: "leave_rest"}


class NeedsLookup(Exception):
    """Raised if a transition needs a look at where its job stands."""


def apply(
    tx: Transaction,
    queues: QueueCache,
    entry: CachedQueue,
    transitions: Sequence[Transition],
    finding: JobLookup,
    *,
    only_plain: bool = False,
) -> list[Verdict]:
    """Apply a batch; the verdicts come in its order.

    With `only_plain`, raises `NeedsLookup` unless each of them completes a lease that was found.
    """
    tx.changes_of(entry.key, entry.num)
    batch = _ApplyPlan(tx, queues, entry, finding, len(transitions))
    ids = {transition.id for transition in transitions}
    if len(ids) == len(transitions):
        others = batch.complete(transitions)
    else:
        # One by one: a later transition must see what an earlier one did to the same job.
        others = list(enumerate(transitions))
    if only_plain and others:
        raise NeedsLookup
    finding.find_for([transition for _, transition in others])
    for index, transition in others:
        batch.apply(index, transition)
    batch.finish()
    return batch.verdicts


class _ApplyPlan(ApplyPlan[JobRow]):
    """The transitions of one call, on their way into the tables."""

    def __init__(
        self, tx: Transaction, queues: QueueCache, entry: CachedQueue, finding: JobLookup, size: int
    ) -> None:
        super().__init__(entry.key, entry.settings, size, tx.now)
        self._tx = tx
        self._queues = queues
        self._entry = entry
        self._finding = finding
        self._changed: dict[int, tuple[JobRow, bool]] = {}
        """The jobs whose rows are to be written, each with whether its rank is counted from now."""
        self._ended: list[tuple[int, Failure]] = []
        self._targets: dict[QueueKey, CachedQueue] = {}

    # --- plain completions ---

    def complete(self, transitions: Sequence[Transition]) -> list[tuple[int, Transition]]:
        """Apply all plain completions, in one statement for each lease; returns the other ones."""
        others: list[tuple[int, Transition]] = []
        done: dict[int, list[tuple[int, Transition, CachedJob]]] = {}
        leases, bodies = self._finding.leases, self._entry.jobs
        by_lease: dict[int, Lease] = {}
        for index, transition in enumerate(transitions):
            body = bodies.get(transition.id) if transition.act is _COMPLETE else None
            lease = leases.find(body[0]) if body is not None else None
            if (
                body is None
                or lease is None
                or lease.token != transition.token
                or transition.deadline is not None
            ):
                others.append((index, transition))
                continue
            by_lease[id(lease)] = lease
            done.setdefault(id(lease), []).append((index, transition, body))
        for number, lease in by_lease.items():
            self._finish_many(lease, done[number])
        return others

    def _finish_many(self, lease: Lease, done: list[tuple[int, Transition, CachedJob]]) -> None:
        now, token, worker = self.now, lease.token, lease.worker
        note, leave, attempts = self.record_completion, self._finding.leases.remove_job, []
        for index, transition, (num, kind, group, _) in done:
            attempt = lease.jobs[num][0]
            attempts.append(attempt)
            note(index, transition, num, kind, group, attempt, token, worker)
            leave(num)
            self._entry.jobs.pop(transition.id, None)
        self._tx.change_counts(self._entry.num, _PROCESSING, _COMPLETED, len(done))
        values = {
            "queue": self._entry.num,
            "token": token,
            "worker": worker.encode(),
            "started": lease.started,
            "now": now,
            "jobs": Ints([body[0] for _, _, body in done]),
            "ats": Floats([now + transition.keep for _, transition, _ in done]),
            "attempts": Ints(attempts),
            "results": ByteStrings([transition.result for _, transition, _ in done]),
        }
        self._tx.send("finish", values)
        # The server works on it while we prepare the next statements.
        self._tx.send_early(len(done))

    # --- all others ---

    def find(self, id: str) -> JobRow | None:
        return self._finding.job(id)

    def payload_of(self, job: JobRow) -> bytes:
        [(payload,)] = self._tx.rows("payload_of", {"job": job.num})
        return bytes(payload)

    def last_settling(self, job: JobRow) -> tuple[bytes | None, Sequence[Failure]]:
        # Earlier changes of this batch must be in the tables to be found there.
        self._write_jobs()
        result = self._tx.rows("result_of", {"job": job.num})
        ended = self._tx.rows("attempts_of", {"jobs": Ints([job.num])})
        return (
            result[0][0] if result else None,
            [decode_failure(failure) for _, failure in ended],
        )

    def options_of(self, jobs: Sequence[int]) -> Mapping[int, Options]:
        rows = self._tx.rows("options_of", {"jobs": Ints(jobs)})
        return {num: decode_options(data) for num, data in rows}

    def write_key(self, key: tuple[str, ...], job: JobRow) -> None:
        values = {"tenant": self.queue.tenant.encode(), "key": encode_key(key), "job": job.num}
        self._tx.send("put_key_of", values)

    def write(self, job: JobRow, transition: Transition, change: AppliedChange) -> None:
        self._write_beside(job, transition)
        landing, leases = change.destination, self._finding.leases
        if landing.state is _PROCESSING:
            if landing.position_rule is PositionRule.DELAY:
                leases.extend(job.num, job.at)
            return
        if change.source is _PROCESSING:
            if change.attempt is not None:
                self._ended.append((job.num, change.attempt))
            leases.remove_job(job.num)
            self._entry.jobs.pop(job.id, None)
        if change.source is not job.state:
            self._tx.change_counts(self._entry.num, change.source, job.state)
        if job.state is not State.QUEUED:
            job.home = INACTIVE
        elif job.home != PARKED:  # a parked job goes on waiting for its group
            job.home = READY
        self._changed[job.num] = (job, landing.position_rule is PositionRule.NEW_RANK)

    def _write_beside(self, job: JobRow, transition: Transition) -> None:
        """Write what changes beside the job's place."""
        edit = transition.edit
        if transition.act is Act.PROGRESS:
            values = {"job": job.num, "token": job.token, "data": transition.progress}
            self._tx.send("set_progress", values)
        elif transition.act is Act.REQUEST_CANCEL:
            self._finding.leases.request_cancel(job.num)
        elif edit is not None and (edit.payload is not None or edit.priority is not None):
            values = {"job": job.num, "payload": edit.payload, "priority": edit.priority}
            self._tx.send("set_body", values)

    def _write_jobs(self) -> None:
        """Write the changed jobs to their new homes."""
        if self._ended:
            self._write_ended()
        if not self._changed:
            return
        job_rows, leaving = NewRows(self._tx, self._entry), dict[int, list[int]]()
        stay: list[JobRow] = []
        for job, fresh in self._changed.values():
            if job.origin == INACTIVE and job.home == INACTIVE:
                stay.append(job)
            else:
                if job.origin in _DELETE_STATEMENTS:
                    leaving.setdefault(job.origin, []).append(job.num)
                _add_row(job_rows, job, fresh)
            job.origin = job.home
        self._changed.clear()
        for home, nums in leaving.items():
            self._tx.send(_DELETE_STATEMENTS[home], {"jobs": Ints(nums)})
        if stay:
            self._tx.send("set_rest", _inactive_columns(stay))
        job_rows.write()

    def _write_ended(self) -> None:
        nums = [num for num, _ in self._ended]
        failures = [encode_failure(failure) for _, failure in self._ended]
        self._ended.clear()
        self._tx.send("add_attempts", {"jobs": Ints(nums), "failures": ByteStrings(failures)})
        self._tx.send("forget_attempts", {"jobs": Ints(nums), "keep": HISTORY_LIMIT})

    # --- to other queues ---

    def move(self, job: JobRow, target: QueueKey) -> bool:
        self._write_jobs()
        there = self._queues.find(self._tx, target)
        self._tx.now = self.now
        if there is not None and not self._make_way(there, job.id):
            return False
        there = self._targets[target] = self._queues.ensure(self._tx, target, [job.kind])
        self._tx.now = self.now
        self._hand_over(job, there)
        self._finding.forget(job.id)
        return True

    def _make_way(self, target: CachedQueue, id: str) -> bool:
        """Drop the target's job of this id if its retention is over; False if it has to stay."""
        values = {"queue": target.num, "ids": ByteStrings([id.encode()])}
        for old in map(job_row, self._tx.rows("standings", values)):
            if old.home != INACTIVE or not old.past_retention(self.now):
                return False
            self._tx.send("drop_jobs", {"jobs": Ints([old.num])})
            self._tx.changes_of(target.key, target.num)
            self._tx.change_counts(target.num, old.state, None)
        return True

    def _hand_over(self, job: JobRow, target: CachedQueue) -> None:
        values = {"queue": target.num, "job": job.num}
        if not self._tx.rows("move_body", values):
            raise RetryTransaction
        if job.home == INACTIVE:
            self._tx.send("move_rest", values)
        else:
            self._tx.send(_DELETE_STATEMENTS[job.home], {"jobs": Ints([job.num])})
            job_rows = NewRows(self._tx, target)
            job_rows.ready(job.num, job.kind, UNORDERED_LANE, job.rank, job)
            job_rows.write()
        self._tx.changes_of(target.key, target.num)
        self._tx.change_counts(self._entry.num, job.state, None)
        self._tx.change_counts(target.num, None, job.state)

    def finish(self) -> None:
        """Write the changed jobs and leases, and note their journal entries."""
        self._write_jobs()
        self._finding.leases.write()
        self._tx.changes_of(self._entry.key, self._entry.num).entries += self.entries()
        for target, arrival in self.moved_in:
            there = self._targets[target]
            self._tx.changes_of(target, there.num).entries.append(arrival)
        free_groups(self._tx, self._entry, self.freed_groups)


def _inactive_columns(jobs: list[JobRow]) -> dict[str, Any]:
    finished = [NO_TIME if job.finished_at is None else job.finished_at for job in jobs]
    return {
        "jobs": Ints([job.num for job in jobs]),
        "states": Ints([STATE_CODES[job.state] for job in jobs]),
        "ats": Floats([job.at for job in jobs]),
        "attempts": Ints([job.attempts for job in jobs]),
        "finished": Floats(finished),
    }


def _add_row(job_rows: NewRows, job: JobRow, fresh: bool) -> None:
    if job.home == INACTIVE:
        job_rows.inactive(job.num, job.state, job.at, job, job.finished_at, job.result)
    elif job.home == PARKED:
        job_rows.park(job.num, job.kind, job.group or "", job.rank, job)
    else:
        job_rows.ready(job.num, job.kind, job.priority if fresh else UNORDERED_LANE, job.rank, job)
