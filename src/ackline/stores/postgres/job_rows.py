"""The rows of jobs: read into `JobRow` and `Record`, and added by `NewRows`."""

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
    """What is stored of a job's last lease while it has none."""

    attempts: int = 0
    token: int = 0
    worker: str = ""
    started_at: float | None = None
    act: Act | None = None


NO_LEASE = LastLease()

AnyLastLease = LastLease | MutableJob
"""A last lease, or a job that has one."""


class NewRows:
    """Rows that a transaction adds to the tables of one queue."""

    def __init__(self, tx: Transaction, cached: CachedQueue) -> None:
        self._tx = tx
        self._cached = cached
        self._ready: list[tuple[Any, ...]] = []
        self._parked: list[tuple[Any, ...]] = []
        self._inactive: list[tuple[Any, ...]] = []

    def ready(
        self, num: int, kind: str, lane: int, rank: float, last: AnyLastLease = NO_LEASE
    ) -> None:
        """Add a job that can be claimed."""
        self._ready.append((self._cached.kind_ids[kind], lane, rank, num, last))

    def park(self, num: int, kind: str, group: str, rank: float, last: AnyLastLease) -> None:
        """Add a queued job whose group is full."""
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
        """Add a scheduled, failing or terminal job."""
        self._inactive.append((num, STATE_CODES[state], at, last, finished, result))

    def write(self) -> None:
        """Write the rows."""
        if self._ready:
            self._write_ready()
        if self._parked:
            self._write_parked()
        if self._inactive:
            self._write_inactive()

    def _write_ready(self) -> None:
        kind_ids, lanes, ranks, nums, leases = zip(*self._ready, strict=True)
        values = {"kind_ids": Ints(kind_ids), "lanes": Ints(lanes), "ranks": Floats(ranks)}
        self._tx.send("add_ready", values | {"jobs": Ints(nums)} | _columns(leases))
        positions, added = self._cached.positions, self._tx.added_positions
        for kind_id, lane, rank, num, _ in self._ready:
            added[kind_id, lane] = min((rank, num), added.get((kind_id, lane), (rank, num)))

        def step_back() -> None:
            for (kind_id, lane), position in added.items():
                positions.step_back_to(kind_id, lane, position)

        self._tx.on_commit.append(step_back)

    def _write_parked(self) -> None:
        groups, kind_ids, ranks, nums, leases = zip(*self._parked, strict=True)
        values = {
            "queue": self._cached.num,
            "groups": ByteStrings(groups),
            "kind_ids": Ints(kind_ids),
        }
        values |= {"ranks": Floats(ranks), "jobs": Ints(nums)}
        self._tx.send("park", values | _columns(leases))

    def _write_inactive(self) -> None:
        nums, states, times, leases, finished, results = zip(*self._inactive, strict=True)
        values = {"queue": self._cached.num, "jobs": Ints(nums), "states": Ints(states)}
        values |= {"times": Floats(times), "results": ByteStrings(results)}
        values["finished"] = Floats([NO_TIME if at is None else at for at in finished])
        self._tx.send("add_inactive", values | _columns(leases))


NO_TIME = float("-inf")
"""Stands for NULL, which an array of times cannot contain."""


def _columns(leases: tuple[AnyLastLease, ...]) -> dict[str, Any]:
    if all(last is NO_LEASE for last in leases):
        no_numbers, no_times = Ints([]), Floats([])
        # `unnest` fills shorter arrays up with NULLs.
        return {
            "attempts": no_numbers, "tokens": no_numbers, "acts": no_numbers,
            "workers": ByteStrings([]),
            "starts": no_times,
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
"""The tables that a job can be in, as `lock_jobs` numbers them."""


class JobRow(MutableJob):
    """A job during a batch of transitions; changes are written at the end of the batch."""

    __slots__ = ("old_table", "table")

    def __init__(self, id: str, cached_job: CachedJob) -> None:
        num, kind, group, priority = cached_job
        super().__init__(num, id, kind, group, priority)
        self.table = self.old_table = NO_TABLE


def job_row(row: tuple[Any, ...]) -> JobRow:
    """A job from a row of `lock_jobs`; the table is unknown if the job is leased."""
    num, id, kind, group, priority, table, state, at, *last = row
    cached_job = (num, decode_name(kind), None if group is None else decode_name(group), priority)
    job = JobRow(id.decode(), cached_job)
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
        started, cancel_requested, progress,
    ) = row  # fmt: skip
    return make_record(
        id.decode(), decode_name(kind), State.PROCESSING, payload, priority,
        decode_options(options),
        attempts, created, token, decode_name(worker), started, deadline, None,
        cancel_requested, progress,
    )  # fmt: skip


def without_data(row: Row) -> Row:
    """A row of `read_jobs` or a list without payload, progress and result, which may be large."""
    return (*row[:_PAYLOAD], b"", *row[_PAYLOAD + 1 : _PROGRESS], None, None, 0)


def record_of(row: Row, history: tuple[Failure, ...] = ()) -> Record:
    """A job, from a row of `read_jobs` or a list."""
    (
        _, id, kind, payload, priority, options, created, code, at, attempts, token, worker,
        started, finished, cancel_requested, progress, result, _,
    ) = row  # fmt: skip
    return make_record(
        id.decode(), decode_name(kind), STATES_BY_CODE[code], payload, priority,
        decode_options(options),
        attempts or 0, created, token or 0, decode_name(worker) if worker else "", started, at,
        finished, bool(cancel_requested), progress, result, history,
    )  # fmt: skip
