"""Apply decided transitions, each if its guard holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ackline.events import Act
from ackline.job import Failure, Options, QueueKey, State
from ackline.lifecycle import Stands, Transition, Verdict
from ackline.stores.base import HISTORY_LIMIT
from ackline.stores.keys import encode_key
from ackline.stores.postgres.groups import leave_groups
from ackline.stores.postgres.job_rows import (
    NO_TIME,
    PARKED,
    READY,
    REST,
    JobRows,
    Standing,
    resting,
)
from ackline.stores.postgres.leases import Finding, Lease
from ackline.stores.postgres.pipeline import Blobs, Floats, Ints
from ackline.stores.postgres.queues import Body, QueueEntry, Queues
from ackline.stores.postgres.scan_position import ODD
from ackline.stores.postgres.transaction import Again, Transaction
from ackline.stores.shared.apply import ApplyBatch, Change
from ackline.stores.shared.records import CODE, decode_failure, decode_options, encode_failure

_COMPLETE, _COMPLETED, _PROCESSING = Act.COMPLETE, State.COMPLETED, State.PROCESSING
_LEAVE = {READY: "leave_ready", PARKED: "leave_parked", REST: "leave_rest"}


class NotPlain(Exception):
    """Raised if a transition needs a look at where its job stands."""


def apply(
    tx: Transaction,
    queues: Queues,
    entry: QueueEntry,
    transitions: Sequence[Transition],
    finding: Finding,
    *,
    only_plain: bool = False,
) -> list[Verdict]:
    """Apply a batch; the verdicts come in its order.

    With `only_plain`, raises `NotPlain` unless each of them completes a lease that was found.
    """
    tx.changes_of(entry.key, entry.num)
    batch = _Batch(tx, queues, entry, finding, len(transitions))
    ids = {transition.id for transition in transitions}
    if len(ids) == len(transitions):
        others = batch.complete(transitions)
    else:
        # One by one: a later transition must see what an earlier one did to the same job.
        others = list(enumerate(transitions))
    if only_plain and others:
        raise NotPlain
    finding.find_for([transition for _, transition in others])
    for index, transition in others:
        batch.apply(index, transition)
    batch.finish()
    return batch.verdicts


class _Batch(ApplyBatch[Standing]):
    """The transitions of one call, on their way into the tables."""

    def __init__(
        self, tx: Transaction, queues: Queues, entry: QueueEntry, finding: Finding, size: int
    ) -> None:
        super().__init__(entry.key, entry.settings, size, tx.now)
        self._tx = tx
        self._queues = queues
        self._entry = entry
        self._finding = finding
        self._changed: dict[int, tuple[Standing, bool]] = {}
        """The jobs whose rows are to be written, each with whether its rank is counted from now."""
        self._ended: list[tuple[int, Failure]] = []
        self._targets: dict[QueueKey, QueueEntry] = {}

    # --- plain completions ---

    def complete(self, transitions: Sequence[Transition]) -> list[tuple[int, Transition]]:
        """Apply all plain completions, in one statement for each lease; returns the other ones."""
        others: list[tuple[int, Transition]] = []
        done: dict[int, list[tuple[int, Transition, Body]]] = {}
        leases, bodies = self._finding.leases, self._entry.bodies
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

    def _finish_many(self, lease: Lease, done: list[tuple[int, Transition, Body]]) -> None:
        now, token, worker = self.now, lease.token, lease.worker
        note, leave, attempts = self.note_completion, self._finding.leases.leave, []
        for index, transition, (num, kind, group, _) in done:
            attempt = lease.open[num][0]
            attempts.append(attempt)
            note(index, transition, num, kind, group, attempt, token, worker)
            leave(num)
            self._entry.bodies.pop(transition.id, None)
        self._tx.shift(self._entry.num, _PROCESSING, _COMPLETED, len(done))
        values = {
            "queue": self._entry.num,
            "token": token,
            "worker": worker.encode(),
            "started": lease.started,
            "now": now,
            "jobs": Ints([body[0] for _, _, body in done]),
            "ats": Floats([now + transition.keep for _, transition, _ in done]),
            "attempts": Ints(attempts),
            "results": Blobs([transition.result for _, transition, _ in done]),
        }
        self._tx.send("finish", values)
        # The server works on it while we prepare the next statements.
        self._tx.push(len(done))

    # --- all others ---

    def find(self, id: str) -> Standing | None:
        return self._finding.job(id)

    def payload_of(self, job: Standing) -> bytes:
        [(payload,)] = self._tx.rows("payload_of", {"job": job.num})
        return bytes(payload)

    def ends_of(self, job: Standing) -> tuple[bytes | None, Sequence[Failure]]:
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

    def put_key(self, key: tuple[str, ...], job: Standing) -> None:
        values = {"tenant": self.queue.tenant.encode(), "key": encode_key(key), "job": job.num}
        self._tx.send("put_key_of", values)

    def write(self, job: Standing, transition: Transition, change: Change) -> None:
        self._write_beside(job, transition)
        landing, leases = change.landing, self._finding.leases
        if landing.to is _PROCESSING:
            if landing.stands is Stands.AFTER:
                leases.extend(job.num, job.at)
            return
        if change.source is _PROCESSING:
            if change.ended is not None:
                self._ended.append((job.num, change.ended))
            leases.leave(job.num)
            self._entry.bodies.pop(job.id, None)
        if change.source is not job.state:
            self._tx.shift(self._entry.num, change.source, job.state)
        if job.state is not State.QUEUED:
            job.home = REST
        elif job.home != PARKED:  # a parked job goes on waiting for its group
            job.home = READY
        self._changed[job.num] = (job, landing.stands is Stands.FRESH)

    def _write_beside(self, job: Standing, transition: Transition) -> None:
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
        job_rows, leaving = JobRows(self._tx, self._entry), dict[int, list[int]]()
        stay: list[Standing] = []
        for job, fresh in self._changed.values():
            if job.origin == REST and job.home == REST:
                stay.append(job)
            else:
                if job.origin in _LEAVE:
                    leaving.setdefault(job.origin, []).append(job.num)
                _settle_in(job_rows, job, fresh)
            job.origin = job.home
        self._changed.clear()
        for home, nums in leaving.items():
            self._tx.send(_LEAVE[home], {"jobs": Ints(nums)})
        if stay:
            self._tx.send("set_rest", _resting(stay))
        job_rows.write()

    def _write_ended(self) -> None:
        nums = [num for num, _ in self._ended]
        failures = [encode_failure(failure) for _, failure in self._ended]
        self._ended.clear()
        self._tx.send("add_attempts", {"jobs": Ints(nums), "failures": Blobs(failures)})
        self._tx.send("forget_attempts", {"jobs": Ints(nums), "keep": HISTORY_LIMIT})

    # --- to other queues ---

    def move(self, job: Standing, target: QueueKey) -> bool:
        self._write_jobs()
        there = self._queues.begin(self._tx, target)
        self._tx.now = self.now
        if there is not None and not self._make_way(there, job.id):
            return False
        there = self._targets[target] = self._queues.make(self._tx, target, [job.kind])
        self._tx.now = self.now
        self._hand_over(job, there)
        self._finding.forget(job.id)
        return True

    def _make_way(self, target: QueueEntry, id: str) -> bool:
        """Drop the target's job of this id if its retention is over; False if it has to stay."""
        values = {"queue": target.num, "ids": Blobs([id.encode()])}
        for old in map(resting, self._tx.rows("standings", values)):
            if old.home != REST or not old.over(self.now):
                return False
            self._tx.send("drop_jobs", {"jobs": Ints([old.num])})
            self._tx.changes_of(target.key, target.num)
            self._tx.shift(target.num, old.state, None)
        return True

    def _hand_over(self, job: Standing, target: QueueEntry) -> None:
        values = {"queue": target.num, "job": job.num}
        if not self._tx.rows("move_body", values):
            raise Again
        if job.home == REST:
            self._tx.send("move_rest", values)
        else:
            self._tx.send(_LEAVE[job.home], {"jobs": Ints([job.num])})
            job_rows = JobRows(self._tx, target)
            job_rows.ready(job.num, job.kind, ODD, job.rank, job)
            job_rows.write()
        self._tx.changes_of(target.key, target.num)
        self._tx.shift(self._entry.num, job.state, None)
        self._tx.shift(target.num, None, job.state)

    def finish(self) -> None:
        """Write the changed jobs and leases, and note their journal entries."""
        self._write_jobs()
        self._finding.leases.write()
        self._tx.changes_of(self._entry.key, self._entry.num).entries += self.entries()
        for target, arrival in self.arrivals:
            there = self._targets[target]
            self._tx.changes_of(target, there.num).entries.append(arrival)
        leave_groups(self._tx, self._entry, self.left)


def _resting(jobs: list[Standing]) -> dict[str, Any]:
    finished = [NO_TIME if job.finished_at is None else job.finished_at for job in jobs]
    return {
        "jobs": Ints([job.num for job in jobs]),
        "states": Ints([CODE[job.state] for job in jobs]),
        "ats": Floats([job.at for job in jobs]),
        "attempts": Ints([job.attempts for job in jobs]),
        "finished": Floats(finished),
    }


def _settle_in(job_rows: JobRows, job: Standing, fresh: bool) -> None:
    if job.home == REST:
        job_rows.rest(job.num, job.state, job.at, job, job.finished_at, job.result)
    elif job.home == PARKED:
        job_rows.park(job.num, job.kind, job.group or "", job.rank, job)
    else:
        job_rows.ready(job.num, job.kind, job.priority if fresh else ODD, job.rank, job)
