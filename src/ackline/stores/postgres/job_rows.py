"""The rows of a job: where it stands, the rows that a transaction adds, and its record."""

from __future__ import annotations

from typing import Any

from ackline.events import Act
from ackline.job import Failure, Record, State
from ackline.stores.postgres.pipeline import Blobs, Floats, Ints, Row
from ackline.stores.postgres.queues import Body, QueueEntry, name_of
from ackline.stores.postgres.transaction import Transaction
from ackline.stores.shared.records import (
    ACT_CODE,
    CODE,
    SETTLING,
    STATES,
    decode_options,
    make_record,
)


class Past:
    """What a job keeps of its last lease."""

    __slots__ = ("act", "attempts", "started", "token", "worker")

    def __init__(
        self,
        attempts: int = 0,
        token: int = 0,
        worker: str = "",
        started: float | None = None,
        act: Act | None = None,
    ) -> None:
        self.attempts = attempts
        self.token = token
        self.worker = worker
        self.started = started
        self.act = act


NO_PAST = Past()


class Homes:
    """The rows of one queue that a transaction adds."""

    def __init__(self, tx: Transaction, entry: QueueEntry) -> None:
        self._tx = tx
        self._entry = entry
        self._ready: list[tuple[Any, ...]] = []
        self._parked: list[tuple[Any, ...]] = []
        self._rest: list[tuple[Any, ...]] = []

    def ready(self, num: int, kind: str, lane: int, rank: float, past: Past = NO_PAST) -> None:
        """Let a job stand in line."""
        self._ready.append((self._entry.lines[kind], lane, rank, num, past))

    def park(self, num: int, kind: str, group: str, rank: float, past: Past) -> None:
        """Let a queued job wait for its group."""
        self._parked.append((group.encode(), self._entry.lines[kind], rank, num, past))

    def rest(
        self,
        num: int,
        state: State,
        at: float,
        past: Past = NO_PAST,
        finished: float | None = None,
        result: bytes | None = None,
    ) -> None:
        """Let a job wait for its time, or stay as it ended."""
        self._rest.append((num, CODE[state], at, past, finished, result))

    def write(self) -> None:
        """Add the rows."""
        if self._ready:
            self._write_ready()
        if self._parked:
            self._write_parked()
        if self._rest:
            self._write_rest()

    def _write_ready(self) -> None:
        lines, lanes, ranks, nums, pasts = zip(*self._ready, strict=True)
        values = {"lines": Ints(lines), "lanes": Ints(lanes), "ranks": Floats(ranks)}
        self._tx.send("add_ready", values | {"jobs": Ints(nums)} | _columns(pasts))
        hints, places = self._entry.hints, self._tx.places
        for line, lane, rank, num, _ in self._ready:
            places[line, lane] = min((rank, num), places.get((line, lane), (rank, num)))

        def lower() -> None:
            for (line, lane), place in places.items():
                hints.lower(line, lane, place)

        self._tx.committed.append(lower)

    def _write_parked(self) -> None:
        groups, lines, ranks, nums, pasts = zip(*self._parked, strict=True)
        values = {"queue": self._entry.num, "groups": Blobs(groups), "lines": Ints(lines)}
        values |= {"ranks": Floats(ranks), "jobs": Ints(nums)}
        self._tx.send("park", values | _columns(pasts))

    def _write_rest(self) -> None:
        nums, states, ats, pasts, finished, results = zip(*self._rest, strict=True)
        values = {"queue": self._entry.num, "jobs": Ints(nums), "states": Ints(states)}
        values |= {"ats": Floats(ats), "results": Blobs(results)}
        values["finished"] = Floats([NO_TIME if at is None else at for at in finished])
        self._tx.send("add_rest", values | _columns(pasts))


NO_TIME = float("-inf")
"""Stands for no time, because an array of times has no NULL."""


def _columns(pasts: tuple[Past, ...]) -> dict[str, Any]:
    if all(past is NO_PAST for past in pasts):
        nothing, never = Ints([]), Floats([])
        # Shorter lists are filled up with NULL.
        return {
            "attempts": nothing, "tokens": nothing, "acts": nothing, "workers": Blobs([]),
            "starts": never,
        }  # fmt: skip
    return {
        "attempts": Ints([past.attempts for past in pasts]),
        "tokens": Ints([past.token for past in pasts]),
        "workers": Blobs([past.worker.encode() for past in pasts]),
        "starts": Floats([NO_TIME if past.started is None else past.started for past in pasts]),
        "acts": Ints([-1 if past.act is None else ACT_CODE[past.act] for past in pasts]),
    }


NOWHERE, READY, PARKED, REST, LEASED = range(5)
"""A job's home, the table in which it stands, as `standings` numbers them."""


class Standing:
    """A job within a batch of transitions; its changes are written at the end of the batch."""

    __slots__ = (
        "act", "at", "attempts", "cancel_requested", "finished", "group", "home", "id", "kind",
        "num", "origin", "priority", "rank", "result", "started", "state", "token", "worker",
    )  # fmt: skip

    def __init__(self, id: str, body: Body) -> None:
        self.id = id
        self.num, self.kind, self.group, self.priority = body
        self.home = self.origin = NOWHERE
        self.state = State.QUEUED
        self.at = self.rank = 0.0
        self.attempts = self.token = 0
        self.worker = ""
        self.started: float | None = None
        self.finished: float | None = None
        self.act: Act | None = None
        self.cancel_requested = False
        self.result: bytes | None = None

    def over(self, now: float) -> bool:
        """Whether its retention has ended, so that it counts as gone."""
        return self.state.terminal and self.at <= now

    def past(self) -> Past:
        """What its home keeps of its last lease."""
        return Past(self.attempts, self.token, self.worker, self.started, self.act)


def resting(row: tuple[Any, ...]) -> Standing:
    """A job from a row of `standings`; its home may be unknown."""
    num, id, kind, group, priority, home, state, at, *past = row
    body = (num, name_of(kind), None if group is None else name_of(group), priority)
    job = Standing(id.decode(), body)
    if home is not None:
        attempts, token, worker, started, act, finished = past
        job.home = job.origin = home
        job.state, job.at, job.rank = STATES[state], at, at
        job.attempts, job.token = attempts or 0, token or 0
        job.worker = name_of(worker) if worker else ""
        job.started, job.finished = started, finished
        job.act = None if act is None else SETTLING[act]
    return job


_PAYLOAD, _PROGRESS = 3, 15
"""Columns of a row of `look_up`."""


def leased_record(row: Row) -> Record:
    """A leased job, from a row of `lapsed` or `held`."""
    (
        _, id, kind, payload, priority, options, created, deadline, attempts, token, worker,
        started, asked, progress,
    ) = row  # fmt: skip
    return make_record(
        id.decode(), name_of(kind), State.PROCESSING, payload, priority, decode_options(options),
        attempts, created, token, name_of(worker), started, deadline, None, asked, progress,
    )  # fmt: skip


def without_data(row: Row) -> Row:
    """A row of `look_up` or a similar statement without what may be large."""
    return (*row[:_PAYLOAD], b"", *row[_PAYLOAD + 1 : _PROGRESS], None, None, 0)


def record_of(row: Row, history: tuple[Failure, ...] = ()) -> Record:
    """Any job, from a row of `look_up` or a similar statement."""
    (
        _, id, kind, payload, priority, options, created, code, at, attempts, token, worker,
        started, finished, asked, progress, result, _,
    ) = row  # fmt: skip
    return make_record(
        id.decode(), name_of(kind), STATES[code], payload, priority, decode_options(options),
        attempts or 0, created, token or 0, name_of(worker) if worker else "", started, at,
        finished, bool(asked), progress, result, history,
    )  # fmt: skip
