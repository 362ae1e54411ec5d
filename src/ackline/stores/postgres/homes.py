"""New homes of jobs (rows of `ready`, `parked` or `rest`), gathered and written together."""

from __future__ import annotations

from typing import Any

from ackline.events import Act
from ackline.job import State
from ackline.stores.postgres.arrays import Blobs, Floats, Ints
from ackline.stores.postgres.queues import QueueEntry
from ackline.stores.postgres.transaction import Transaction
from ackline.stores.shared.records import ACT_CODE, CODE


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
