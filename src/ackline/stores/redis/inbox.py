"""Where jobs arrive that were handed over to a waiting worker, see `scripts/lib/handing.lua`."""

from __future__ import annotations

import struct
import threading
import time
import uuid
from collections import deque
from collections.abc import Sequence

from ackline.job import Record
from ackline.stores.base import Claimed
from ackline.stores.redis.packing import Body, leased

_HANDED = struct.Struct(">QddIBH")

REMEMBERED = 64
"""How many tokens: a job may come twice, by a message and with a claim, but then close together."""


class Inbox:
    """The inbox of one listener; all claims with this listener share the jobs that arrive."""

    def __init__(self) -> None:
        self.name = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._messages: deque[bytes] = deque()
        self._put_back: list[Record] = []
        self._accepted: deque[int] = deque(maxlen=REMEMBERED)
        self._moment = (0.0, 0.0)
        """One moment, by `time.monotonic` (or a little before it) and by the server's clock."""

    @property
    def received(self) -> int:
        """The token of the last job that has arrived, 0 before the first."""
        with self._lock:
            return self._accepted[-1] if self._accepted else 0

    def put(self, message: bytes) -> None:
        """Keep a message that has come."""
        self._messages.append(message)

    def take(self, worker: str) -> list[Record]:
        """The jobs that have come, each once."""
        with self._lock:
            jobs, self._put_back = self._put_back, []
        while self._messages:
            try:
                message = self._messages.popleft()
            except IndexError:
                break  # another courier was quicker
            jobs += self.accept(message, worker)
        # If this process was stopped meanwhile, leases may have lapsed: others get these jobs.
        return [job for job in jobs if self._lapses(job) > time.monotonic()]

    def put_back(self, jobs: list[Record]) -> None:
        """Keep jobs for the next claim, because they could not be passed on."""
        with self._lock:
            self._put_back += jobs

    def accept(self, packed: bytes, worker: str) -> list[Record]:
        """The job that was handed over, if there is one and it has not arrived before."""
        if not packed:
            return []
        token, started, deadline, attempts, flags, size = _HANDED.unpack_from(packed)
        with self._lock:
            if token in self._accepted:
                return []
            self._accepted.append(token)
        at = _HANDED.size + size
        id, body = packed[_HANDED.size : at], Body()
        body.read(packed[at:])
        return [leased(id, body, attempts, flags, token, worker, started, deadline)]

    def waits(self, asked_at: float, now: float) -> None:
        """Note when a claim was sent, by `time.monotonic`, and run, by the server's clock."""
        self._moment = (asked_at, now)

    def since(self, jobs: Sequence[Record], asked_at: float) -> float:
        """When the first lease began, of these handed-over jobs and those claimed at `asked_at`."""
        return min(asked_at, *(self._began(job) for job in jobs))

    def _began(self, job: Record) -> float:
        """When a lease began, by `time.monotonic`, or a little before.

        Never before the claim that it was handed over for, even if the server's clock was set back.
        """
        here, there = self._moment
        return here + max(0.0, (job.started_at or 0.0) - there)

    def _lapses(self, job: Record) -> float:
        return self._began(job) + (job.deadline or 0.0) - (job.started_at or 0.0)

    def claimed(self, jobs: list[Record], more: bool = True) -> Claimed:
        """Jobs that have come, as the answer to a claim that did not have to be sent."""
        now = max(job.started_at or 0.0 for job in jobs)
        return Claimed(
            jobs=jobs, verdicts=[], now=now, since=self.since(jobs, time.monotonic()), more=more
        )
