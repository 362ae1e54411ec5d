"""Apply decided transitions, each if its guard holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ackline.events import Act, Entry
from ackline.job import WAITING, Failure, State
from ackline.lifecycle import (
    Edit,
    Landing,
    Seen,
    Stands,
    Transition,
    Verdict,
    ended_attempt,
    ends_calling_back,
    holds,
    keys_of,
    land,
    may_move,
    note_of,
    place,
    repeats,
    seen_now,
    told_priority,
)
from ackline.stores.base import HISTORY_LIMIT, move_entries
from ackline.stores.callbacks import tell_callbacks
from ackline.stores.keys import encode_key
from ackline.stores.postgres.groups import leave_groups
from ackline.stores.postgres.job_rows import (
    LEASED,
    NO_TIME,
    PARKED,
    READY,
    REST,
    Homes,
    Standing,
    resting,
)
from ackline.stores.postgres.leases import Finding, Lease, Leases
from ackline.stores.postgres.pipeline import Blobs, Floats, Ints
from ackline.stores.postgres.queues import Body, QueueEntry, Queues
from ackline.stores.postgres.scan_position import ODD
from ackline.stores.postgres.transaction import Again, Transaction
from ackline.stores.shared.records import CODE, decode_failure, decode_options, encode_failure

_LEAVE = {READY: "leave_ready", PARKED: "leave_parked", REST: "leave_rest"}


class Steps:
    """The steps of one batch; the jobs change homes when the steps are written."""

    def __init__(self, tx: Transaction, entry: QueueEntry, leases: Leases) -> None:
        self._tx = tx
        self._entry = entry
        self._leases = leases
        self._changed: dict[int, tuple[Standing, bool]] = {}
        self._ended: list[tuple[int, Failure]] = []

    def take(self, job: Standing, transition: Transition) -> None:
        """Change a job as a transition says whose guard was found to hold."""
        landing = land(transition, job.state, job.cancel_requested)
        if transition.act is Act.PROGRESS:
            values = {"job": job.num, "token": job.token, "data": transition.progress}
            self._tx.send("set_progress", values)
        elif transition.act is Act.REQUEST_CANCEL:
            job.cancel_requested = True
            self._leases.request_cancel(job.num)
        if job.state is State.PROCESSING and landing.to is not job.state:
            self._end_lease(job, transition)
        if transition.attempts is not None:
            job.attempts = transition.attempts
        self._stand(job, transition, landing)

    def _end_lease(self, job: Standing, transition: Transition) -> None:
        now = self._tx.now
        ended = ended_attempt(transition, job.attempts, job.worker, job.started or 0.0, now)
        if ended is not None:
            self._ended.append((job.num, ended))
        job.act = transition.act
        job.cancel_requested = False
        self._leases.leave(job.num)
        self._entry.bodies.pop(job.id, None)

    def _stand(self, job: Standing, transition: Transition, landing: Landing) -> None:
        old_priority, source = job.priority, job.state
        if transition.edit is not None:
            self._rewrite(job, transition.edit)
        at = place(
            landing,
            self._tx.now,
            at=job.at,
            old_rank=job.rank,
            old_priority=old_priority,
            priority=job.priority,
            ageing=self._entry.settings.ageing,
        )
        if landing.to is State.PROCESSING:
            if landing.stands is Stands.AFTER:
                self._leases.extend(job.num, at)
                job.at = at
            return
        job.state, job.at = landing.to, at
        if landing.to is State.QUEUED:
            job.rank = at
            # A parked job goes on waiting for its group.
            job.home = PARKED if job.home == PARKED else READY
        else:
            job.home = REST
        if not landing.to.terminal:
            job.finished = None
        elif landing.to is not source:
            job.finished, job.result = self._tx.now, transition.result
        self._changed[job.num] = (job, landing.stands is Stands.FRESH)

    def _rewrite(self, job: Standing, edit: Edit) -> None:
        if edit.payload is not None or edit.priority is not None:
            values = {"job": job.num, "payload": edit.payload, "priority": edit.priority}
            self._tx.send("set_body", values)
        if edit.priority is not None:
            job.priority = edit.priority

    def write(self) -> None:
        """Write the changed jobs to their new homes."""
        if self._ended:
            self._write_ended()
        if not self._changed:
            return
        homes, leaving = Homes(self._tx, self._entry), dict[int, list[int]]()
        stay: list[Standing] = []
        for job, fresh in self._changed.values():
            if job.origin == REST and job.home == REST:
                stay.append(job)
            else:
                if job.origin != LEASED:
                    leaving.setdefault(job.origin, []).append(job.num)
                _settle_in(homes, job, fresh)
            job.origin = job.home
        self._changed.clear()
        for home, nums in leaving.items():
            self._tx.send(_LEAVE[home], {"jobs": Ints(nums)})
        if stay:
            self._tx.send("set_rest", _resting(stay))
        homes.write()

    def _write_ended(self) -> None:
        nums = [num for num, _ in self._ended]
        failures = [encode_failure(failure) for _, failure in self._ended]
        self._ended.clear()
        self._tx.send("add_attempts", {"jobs": Ints(nums), "failures": Blobs(failures)})
        self._tx.send("forget_attempts", {"jobs": Ints(nums), "keep": HISTORY_LIMIT})


def _resting(jobs: list[Standing]) -> dict[str, Any]:
    finished = [NO_TIME if job.finished is None else job.finished for job in jobs]
    return {
        "jobs": Ints([job.num for job in jobs]),
        "states": Ints([CODE[job.state] for job in jobs]),
        "ats": Floats([job.at for job in jobs]),
        "attempts": Ints([job.attempts for job in jobs]),
        "finished": Floats(finished),
    }


def _settle_in(homes: Homes, job: Standing, fresh: bool) -> None:
    if job.home == REST:
        homes.rest(job.num, job.state, job.at, job.past(), job.finished, job.result)
    elif job.home == PARKED:
        homes.park(job.num, job.kind, job.group or "", job.rank, job.past())
    else:
        homes.ready(job.num, job.kind, job.priority if fresh else ODD, job.rank, job.past())


class Arrivals:
    """Moves the jobs of a batch to other queues, and keeps the entries for their journals."""

    def __init__(self, tx: Transaction, queues: Queues, source: QueueEntry) -> None:
        self._tx = tx
        self._queues = queues
        self._source = source
        self._arrived: list[tuple[QueueEntry, Entry]] = []

    def move(self, job: Standing, transition: Transition) -> Entry | None:
        """Move a job, unless it is leased or the other queue has a job of its id."""
        assert transition.target is not None
        now = self._tx.now
        if not may_move(self._source.key, transition.target) or not holds(
            transition, job.state, job.token, None, now
        ):
            return None
        there = self._queues.begin(self._tx, transition.target)
        self._tx.now = now
        if there is not None and not self._make_way(there, job.id):
            return None
        target = self._queues.make(self._tx, transition.target, [job.kind])
        self._tx.now = now
        self._hand_over(job, target)
        away, here = move_entries(
            self._source.key, transition, job.kind, job.state, job.attempts, job.priority
        )
        self._arrived.append((target, here))
        return away

    def _make_way(self, target: QueueEntry, id: str) -> bool:
        """Drop the target's job of this id if its retention is over; False if it has to stay."""
        values = {"queue": target.num, "ids": Blobs([id.encode()])}
        for old in map(resting, self._tx.rows("standings", values)):
            if old.home != REST or not old.over(self._tx.now):
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
            leave = {READY: "leave_ready", PARKED: "leave_parked"}[job.home]
            self._tx.send(leave, {"jobs": Ints([job.num])})
            homes = Homes(self._tx, target)
            homes.ready(job.num, job.kind, ODD, job.rank, job.past())
            homes.write()
        self._tx.changes_of(target.key, target.num)
        self._tx.shift(self._source.num, job.state, None)
        self._tx.shift(target.num, None, job.state)

    def report(self) -> None:
        """Note the arrivals for the other queues' journals and listeners."""
        for target, entry in self._arrived:
            self._tx.changes_of(target.key, target.num).entries.append(entry)
            self._tx.news.add(("ready", target.key))


_COMPLETE, _COMPLETED, _PROCESSING = Act.COMPLETE, State.COMPLETED, State.PROCESSING
_DONE = Verdict(True, State.COMPLETED)
GONE = Verdict(False, None)


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


class _Batch:
    """The transitions of one call, on their way into the tables."""

    def __init__(
        self, tx: Transaction, queues: Queues, entry: QueueEntry, finding: Finding, size: int
    ) -> None:
        self.verdicts = [GONE] * size
        self._tx = tx
        self._entry = entry
        self._finding = finding
        self._steps = Steps(tx, entry, finding.leases)
        self._arrivals = Arrivals(tx, queues, entry)
        self._entries: list[Entry | None] = [None] * size
        self._left: Counter[str] = Counter()
        self._calling: dict[int, int] = {}
        """Indexes of entries that end the life of a job that may call back, each with its job."""

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
        now, token, worker = self._tx.now, lease.token, lease.worker
        attempts = []
        for index, transition, (num, kind, group, _) in done:
            attempt = lease.open[num][0]
            attempts.append(attempt)
            if group is not None:
                self._left[group] += 1
            self._entries[index] = Entry(
                _COMPLETE, transition.id, kind, _PROCESSING, _COMPLETED, attempt, token, worker,
                transition.note, transition.by,
            )  # fmt: skip
            if transition.calls_back:
                self._calling[index] = num
            self.verdicts[index] = _DONE
            self._finding.leases.leave(num)
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

    def apply(self, index: int, transition: Transition) -> None:
        """Apply any one transition if its guard holds."""
        job = self._finding.job(transition.id)
        now = self._tx.now
        if job is None or job.over(now):
            return
        deadline = job.at if job.state is _PROCESSING else None
        if transition.seen is not None and transition.seen != self._look_at(job):
            self.verdicts[index] = Verdict(False, job.state)
        elif transition.act is Act.MOVE:
            self._move(index, transition, job)
        elif holds(transition, job.state, job.token, deadline, now):
            self._step(index, transition, job)
        else:
            self.verdicts[index] = Verdict(self._repeats(transition, job), job.state)

    def _look_at(self, job: Standing) -> Seen:
        [(payload,)] = self._tx.rows("payload_of", {"job": job.num})
        return seen_now(job.state, job.token, job.priority, payload, job.at)

    def _step(self, index: int, transition: Transition, job: Standing) -> None:
        source = job.state
        attempts, token, worker = job.attempts, job.token, job.worker
        self._steps.take(job, transition)
        if source is not job.state:
            self._tx.shift(self._entry.num, source, job.state)
        self._entries[index] = Entry(
            transition.act, job.id, job.kind, source, job.state, attempts, token, worker,
            note_of(transition), transition.by, told_priority(transition, job.priority),
        )  # fmt: skip
        if ends_calling_back(transition, job.state):
            self._calling[index] = job.num
        self.verdicts[index] = Verdict(True, job.state)
        self._wake(transition.act, job.state)
        self._mind_group(job, source)
        for key in keys_of(transition, job.state):
            values = {"tenant": self._entry.key.tenant.encode(), "key": encode_key(key)}
            self._tx.send("put_key_of", values | {"job": job.num})

    def _wake(self, act: Act, state: State) -> None:
        if act is Act.REQUEST_CANCEL:
            self._tx.news.add(("signals", self._entry.key))
        elif state in WAITING:
            # Claimable now, or due sooner than the workers that wait for the next due job know.
            self._tx.news.add(("ready", self._entry.key))

    def _mind_group(self, job: Standing, source: State) -> None:
        if job.group is None:
            return
        if source is _PROCESSING and job.state is not _PROCESSING:
            self._left[job.group] += 1
        elif source is State.QUEUED:
            # The job has left the line or moved in it: another of its group may be next now.
            self._left[job.group] += 0

    def _move(self, index: int, transition: Transition, job: Standing) -> None:
        self._steps.write()
        departure = self._arrivals.move(job, transition)
        self.verdicts[index] = Verdict(departure is not None, job.state)
        if departure is not None:
            self._entries[index] = departure
            self._finding.forget(job.id)
            self._mind_group(job, job.state)

    def _repeats(self, transition: Transition, job: Standing) -> bool:
        if transition.token is None:
            return False
        # Earlier changes of this batch must be in the tables to be found there.
        self._steps.write()
        result = job.result
        if job.origin == REST and job.home == REST:
            rows = self._tx.rows("result_of", {"job": job.num})
            result = rows[0][0] if rows else None
        rows = self._tx.rows("attempts_of", {"jobs": Ints([job.num])})
        history = [decode_failure(failure) for _, failure in rows]
        act = job.act if job.home != LEASED else None
        return repeats(transition, act, job.token, result, history)

    def finish(self) -> None:
        """Write the changed jobs and leases, and note their journal entries."""
        self._steps.write()
        self._finding.leases.write()
        if self._calling:
            self._tell_callbacks()
        changes = self._tx.changes_of(self._entry.key, self._entry.num)
        changes.entries += [entry for entry in self._entries if entry is not None]
        self._arrivals.report()
        leave_groups(self._tx, self._entry, self._left)

    def _tell_callbacks(self) -> None:
        rows = self._tx.rows("options_of", {"jobs": Ints(sorted(self._calling.values()))})
        options = {num: decode_options(data) for num, data in rows}
        tell_callbacks(self._entries, self._calling, options)
