"""Direct delivery: an enqueue leases its job to a waiting worker, in the step that stores it.

A worker whose claim names its listener and gets fewer jobs than it could begin need not claim
again: the inbox of the listener is WAITING, and the next job that is enqueued alone comes to it.
Then the inbox is DELIVERED, and gets nothing more until the worker claims again, which it does with
the call that settles the job. So a job takes two scripts, and starts after the first.

                claim that brings too few          enqueue of a single job
   (no entry) ─────────────────────────► WAITING ─────────────────────────► DELIVERED ─┐ claim: the
       ▲                                   │ ▲                                │  ▲      │ job, if it
       └───────────────────────────────────┘ └────────────────────────────────┘  └──────┘ was lost
         claim that brings enough, or none       claim that says it arrived

The states are in `lua/lib/direct_delivery.lua`. The job is leased as if the worker had just
claimed it, so whatever goes wrong costs no more than it would then:

- The message does not arrive, as when a connection breaks: each claim names the last token that
  did, so the next one, a second later at most, brings the job, and again if its answer is lost.
- It arrives twice, by message and by claim: the inbox remembers its tokens.
- The waiting worker is killed or hangs: an inbox that nobody hears, or that has not claimed for a
  while, gets nothing; a job that it already has is taken back as any other of a dead worker.
- It was stopped for longer than the lease: it does not begin the job, which others have by now.
- A call runs twice: a repeated enqueue finds its id known, a repeated claim the state it left.
- The worker stops: a claim for no jobs removes the entry, or brings what was on its way.
"""

from __future__ import annotations

import struct
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence

from ackline.core.job import Record
from ackline.stores.contract import DeliveredJobs
from ackline.stores.redis.encode_jobs import BodyDecoder, leased_record
from ackline.stores.redis.io.connection import Connection
from ackline.stores.redis.notify import PubSubConnection, RedisListener

_DELIVERED_JOB = struct.Struct(">QddIBH")

REMEMBERED_TOKENS = 64
"""How many tokens: a job may come twice, by a message and with a claim, but then close together."""


class Inbox:
    """Where delivered jobs arrive; all claims of a worker's threads share it."""

    def __init__(self) -> None:
        self.name = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._messages: deque[bytes] = deque()
        self._received: deque[int] = deque(maxlen=REMEMBERED_TOKENS)
        self._moment = (0.0, 0.0)
        """One moment, by `time.monotonic` (or a little before it) and by the server's clock."""

    @property
    def received(self) -> int:
        """The token of the last job that has arrived, 0 before the first."""
        with self._lock:
            return self._received[-1] if self._received else 0

    def add_message(self, message: bytes) -> None:
        """Keep a message that has come, or what a claim has brought in its place."""
        self._messages.append(message)

    def set_clock_reference(self, sent_at: float, now: float) -> None:
        """Note when a claim was sent, by `time.monotonic`, and run, by the server's clock."""
        self._moment = (sent_at, now)

    def take(self, worker: str) -> DeliveredJobs:
        """The jobs that have come since the last call, each once."""
        jobs: list[Record] = []
        while self._messages:
            try:
                message = self._messages.popleft()
            except IndexError:
                break  # another thread was quicker
            jobs += self._read(message, worker)
        # If this process was stopped meanwhile, leases may have lapsed: others get these jobs.
        jobs = [job for job in jobs if self._lapses(job) > time.monotonic()]
        return DeliveredJobs(jobs, min(map(self._began, jobs), default=0.0))

    def _read(self, message: bytes, worker: str) -> list[Record]:
        """The job of a message, unless it has arrived before."""
        token, started, deadline, attempts, flags, size = _DELIVERED_JOB.unpack_from(message)
        with self._lock:
            if token in self._received:
                return []
            self._received.append(token)
        at = _DELIVERED_JOB.size + size
        id, body = message[_DELIVERED_JOB.size : at], BodyDecoder()
        body.read(message[at:])
        return [leased_record(id, body, attempts, flags, token, worker, started, deadline)]

    def _began(self, job: Record) -> float:
        """When a lease began, by `time.monotonic`, or a little before.

        Never before the claim that it was delivered for, even if the server's clock was set back.
        """
        here, there = self._moment
        return here + max(0.0, (job.started_at or 0.0) - there)

    def _lapses(self, job: Record) -> float:
        return self._began(job) + (job.deadline or 0.0) - (job.started_at or 0.0)


class DeliveryListener(RedisListener):
    """A listener to one queue's `ready` to which jobs can be delivered; see `DirectDelivery`."""

    def __init__(
        self,
        connection: Connection,
        channels: Sequence[str],
        arm: Callable[[], None],
        forget: Callable[[PubSubConnection], None],
        inbox: Inbox,
    ) -> None:
        self.inbox = inbox
        super().__init__(connection, channels, arm, forget)

    def delivered(self, worker: str) -> DeliveredJobs:
        return self.inbox.take(worker)

    def _receive(self, channel: bytes, message: bytes) -> None:
        """Keep a delivered job; other messages are empty, and only say that it is time to claim."""
        del channel
        if message:
            self.inbox.add_message(message)
