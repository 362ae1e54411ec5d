"""Where jobs arrive that were handed over to one who waits, see `scripts/lib/handing.lua`."""

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
"""Tokens: a job that came by a message and with a claim, too, comes close together."""


class Inbox:
    """Of one listener; those who claim with it share what arrives."""

    def __init__(self) -> None:
        self.name = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._messages: deque[bytes] = deque()
        self._put_back: list[Record] = []
        self._accepted: deque[int] = deque(maxlen=REMEMBERED)
        self._moment = (0.0, 0.0)
        """The same one by `time.monotonic`, or a little before it, and by the server's clock."""

    @property
    def received(self) -> int:
        """The token of the last job that has arrived, 0 before the first."""
        with self._lock:
            return self._accepted[-1] if self._accepted else 0

    def put(self, message: bytes) -> None:
        """A message has come."""
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
        # Who was stopped meanwhile has lost them to others.
        return [job for job in jobs if self._lapses(job) > time.monotonic()]

    def put_back(self, jobs: list[Record]) -> None:
        """They could not be passed on: the next claim is to take them."""
        with self._lock:
            self._put_back += jobs

    def accept(self, packed: bytes, worker: str) -> list[Record]:
        """The job that was handed over, unless it has arrived before or there is none."""
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
        """A claim was sent at a moment of `time.monotonic`, and run at a time of the server."""
        self._moment = (asked_at, now)

    def since(self, jobs: Sequence[Record], asked_at: float) -> float:
        """From when on the leases count of these jobs, and of those that were asked for then."""
        return min(asked_at, *(self._began(job) for job in jobs))

    def _began(self, job: Record) -> float:
        """When a lease began by `time.monotonic`, or a little before.

        Not before the claim that it was handed over for: then the server's clock was set back.
        """
        here, there = self._moment
        return here + max(0.0, (job.started_at or 0.0) - there)

    def _lapses(self, job: Record) -> float:
        return self._began(job) + (job.deadline or 0.0) - (job.started_at or 0.0)

    def claimed(self, jobs: list[Record], more: bool = True) -> Claimed:
        """What has come, as the answer to a claim that did not have to be made."""
        now = max(job.started_at or 0.0 for job in jobs)
        return Claimed(
            jobs=jobs, verdicts=[], now=now, since=self.since(jobs, time.monotonic()), more=more
        )
