"""The rows of a job: where it stands, the rows that a transaction adds, and its record."""

from __future__ import annotations

from typing import Any, NamedTuple

from ackline.core.events import Act
from ackline.core.job import Failure, Record, State
from ackline.stores.postgres.io.pipeline import ByteStrings, Floats, Ints, Row
from ackline.stores.postgres.io.transaction import Transaction
from ackline.stores.postgres.queue_cache import CachedJob, CachedQueue, decode_name
from ackline.stores.shared.apply import MutableJob
from ackline.stores.shared.record_encoding import (
    ACT_CODES,
    SETTLING_ACTS,
    STATE_CODES,
    STATES_BY_CODE,
    decode_options,
    make_record,
)


class LastLease(NamedTuple):
    """What a job keeps of its last lease."""

    attempts: int = 0
    token: int = 0
    worker: str = ""
    started_at: float | None = None
    act: Act | None = None


NO_LEASE = LastLease()

AnyLastLease = LastLease | MutableJob
"""A job's last lease, by itself or as a part of the job."""


class NewRows:
    """The rows of one queue that a transaction adds."""

    def __init__(self, tx: Transaction, cached: CachedQueue) -> None:
        self._tx = tx
        self._cached = cached
        self._ready: list[tuple[Any, ...]] = []
        self._parked: list[tuple[Any, ...]] = []
        self._rest: list[tuple[Any, ...]] = []

    def ready(
        self, num: int, kind: str, lane: int, rank: float, last: AnyLastLease = NO_LEASE
    ) -> None:
        """Let a job stand in line."""
        self._ready.append((self._cached.kind_ids[kind], lane, rank, num, last))

    def park(self, num: int, kind: str, group: str, rank: float, last: AnyLastLease) -> None:
        """Let a queued job wait for its group."""
        self._parked.append((group.encode(), self._cached.kind_ids[kind], rank, num, last))

    def inactive(
        self,
        num: int,
        state: State,
        at: float,
        last: AnyLastLease = NO_LEASE,
        finished: float | None = None,
        result: bytes | None = None,
    ) -> None:
        """Let a job wait for its time, or stay as it ended."""
        self._rest.append((num, STATE_CODES[state], at, last, finished, result))

    def write(self) -> None:
        """Add the rows."""
        if self._ready:
            self._write_ready()
        if self._parked:
            self._write_parked()
        if self._rest:
            self._write_inactive()

    def _write_ready(self) -> None:
        lines, lanes, ranks, nums, leases = zip(*self._ready, strict=True)
        values = {"kind_ids": Ints(lines), "lanes": Ints(lanes), "ranks": Floats(ranks)}
        self._tx.send("add_ready", values | {"jobs": Ints(nums)} | _columns(leases))
        positions, places = self._cached.positions, self._tx.added_positions
        for line, lane, rank, num, _ in self._ready:
            places[line, lane] = min((rank, num), places.get((line, lane), (rank, num)))

        def lower() -> None:
            for (line, lane), place in places.items():
                positions.step_back_to(line, lane, place)

        self._tx.on_commit.append(lower)

    def _write_parked(self) -> None:
        groups, lines, ranks, nums, leases = zip(*self._parked, strict=True)
        values = {"queue": self._cached.num, "groups": ByteStrings(groups), "kind_ids": Ints(lines)}
        values |= {"ranks": Floats(ranks), "jobs": Ints(nums)}
        self._tx.send("park", values | _columns(leases))

    def _write_inactive(self) -> None:
        nums, states, ats, leases, finished, results = zip(*self._rest, strict=True)
        values = {"queue": self._cached.num, "jobs": Ints(nums), "states": Ints(states)}
        values |= {"ats": Floats(ats), "results": ByteStrings(results)}
        values["finished"] = Floats([NO_TIME if at is None else at for at in finished])
        self._tx.send("add_inactive", values | _columns(leases))


NO_TIME = float("-inf")
"""Stands for no time, because an array of times has no NULL."""


def _columns(leases: tuple[AnyLastLease, ...]) -> dict[str, Any]:
    if all(last is NO_LEASE for last in leases):
        nothing, never = Ints([]), Floats([])
        # Shorter lists are filled up with NULL.
        return {
            "attempts": nothing, "tokens": nothing, "acts": nothing, "workers": ByteStrings([]),
            "starts": never,
        }  # fmt: skip
    starts = [NO_TIME if last.started_at is None else last.started_at for last in leases]
    return {
        "attempts": Ints([last.attempts for last in leases]),
        "tokens": Ints([last.token for last in leases]),
        "workers": ByteStrings([last.worker.encode() for last in leases]),
        "starts": Floats(starts),
        "acts": Ints([-1 if last.act is None else ACT_CODES[last.act] for last in leases]),
    }


NO_TABLE, READY, PARKED, INACTIVE, LEASED = range(5)
"""A job's table, the table in which it stands, as `lock_jobs` numbers them."""


class JobRow(MutableJob):
    """A job within a batch of transitions; its changes are written at the end of the batch."""

    __slots__ = ("old_table", "table")

    def __init__(self, id: str, body: CachedJob) -> None:
        num, kind, group, priority = body
        super().__init__(num, id, kind, group, priority)
        self.table = self.old_table = NO_TABLE


def job_row(row: tuple[Any, ...]) -> JobRow:
    """A job from a row of `lock_jobs`; its table may be unknown."""
    num, id, kind, group, priority, table, state, at, *last = row
    body = (num, decode_name(kind), None if group is None else decode_name(group), priority)
    job = JobRow(id.decode(), body)
    if table is not None:
        attempts, token, worker, started, act, finished = last
        job.table = job.old_table = table
        job.state, job.at, job.rank = STATES_BY_CODE[state], at, at
        job.attempts, job.token = attempts or 0, token or 0
        job.worker = decode_name(worker) if worker else ""
        job.started_at, job.finished_at = started, finished
        job.act = None if act is None else SETTLING_ACTS[act]
    return job


_PAYLOAD, _PROGRESS = 3, 15
"""Columns of a row of `read_jobs`."""


def leased_record(row: Row) -> Record:
    """A leased job, from a row of `lapsed` or `leases_of_worker`."""
    (
        _, id, kind, payload, priority, options, created, deadline, attempts, token, worker,
        started, asked, progress,
    ) = row  # fmt: skip
    return make_record(
        id.decode(), decode_name(kind), State.PROCESSING, payload, priority,
        decode_options(options),
        attempts, created, token, decode_name(worker), started, deadline, None, asked, progress,
    )  # fmt: skip


def without_data(row: Row) -> Row:
    """A row of `read_jobs` or a similar statement without what may be large."""
    return (*row[:_PAYLOAD], b"", *row[_PAYLOAD + 1 : _PROGRESS], None, None, 0)


def record_of(row: Row, history: tuple[Failure, ...] = ()) -> Record:
    """Any job, from a row of `read_jobs` or a similar statement."""
    (
        _, id, kind, payload, priority, options, created, code, at, attempts, token, worker,
        started, finished, asked, progress, result, _,
    ) = row  # fmt: skip
    return make_record(
        id.decode(), decode_name(kind), STATES_BY_CODE[code], payload, priority,
        decode_options(options),
        attempts or 0, created, token or 0, decode_name(worker) if worker else "", started, at,
        finished, bool(asked), progress, result, history,
    )  # fmt: skip
