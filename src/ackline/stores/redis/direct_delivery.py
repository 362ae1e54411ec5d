"""Direct delivery: an enqueue leases its job to a waiting worker in the script that stores it.

A worker whose claim names its listener and gets fewer jobs than it could start need not claim
again: the inbox of the listener is WAITING, and the next job that is enqueued alone is sent to it.
Then the inbox is DELIVERED and gets nothing more until the worker claims again, which it does with
the call that settles the job. So a job takes two scripts, and starts after the first.

                claim that brings too few          enqueue of a single job
   (no entry) ─────────────────────────► WAITING ─────────────────────────► DELIVERED ─┐ claim: the
       ▲                                   │ ▲                                │  ▲      │ job, if it
       └───────────────────────────────────┘ └────────────────────────────────┘  └──────┘ was lost
         claim that brings enough, or none       claim that says it arrived

The states are in `lua/lib/direct_delivery.lua`. The job is leased as if the worker had just claimed
it, so a failure costs no more than it would then:

- The message is lost, for example because a connection breaks: each claim names the token of the
  last job that arrived, so the next claim, at most a second later, returns the job, again and again
  until one names its token.
- The job arrives twice, by message and by claim: the inbox remembers its tokens.
- The waiting worker is killed or hangs: nothing is delivered to an inbox without a subscriber or
  without a recent claim; a job that it already has expires like any other of a dead worker.
- It was stopped for longer than the lease: it does not start the job, which others have by now.
- A call runs twice: a repeated enqueue finds its id, a repeated claim finds the state it has left.
- The worker stops: a claim for no jobs removes the inbox, or returns the job on its way.
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

RECENT_TOKENS = 64
"""A job may arrive twice, by a message and with a claim, but then close together."""


class Inbox:
    """Receives delivered jobs; all threads of a worker share it."""

    def __init__(self) -> None:
        self.name = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._messages: deque[bytes] = deque()
        self._received: deque[int] = deque(maxlen=RECENT_TOKENS)
        self._clock_reference = (0.0, 0.0)
        """One moment by `time.monotonic` (or slightly earlier) and by the server's clock."""

    @property
    def received_token(self) -> int:
        """The token of the last job that has arrived; 0 before the first."""
        with self._lock:
            return self._received[-1] if self._received else 0

    def add_message(self, message: bytes) -> None:
        """Add a message that has arrived, or what a claim has returned in its place."""
        self._messages.append(message)

    def set_clock_reference(self, sent_at: float, now: float) -> None:
        """Record when a claim was sent, by `time.monotonic`, and run, by the server's clock."""
        self._clock_reference = (sent_at, now)

    def take(self, worker: str) -> DeliveredJobs:
        """The jobs that have arrived since the last call, each once."""
        jobs: list[Record] = []
        while self._messages:
            try:
                message = self._messages.popleft()
            except IndexError:
                break  # another thread was faster
            jobs += self._read(message, worker)
        # If this process was suspended, leases may have lapsed: other workers get these jobs.
        jobs = [job for job in jobs if self._lapses_at(job) > time.monotonic()]
        return DeliveredJobs(jobs, min(map(self._leased_at, jobs), default=0.0))

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

    def _leased_at(self, job: Record) -> float:
        """When the lease started by `time.monotonic`, or slightly earlier.

        Never before the claim that let it be delivered, even if the server's clock was set back.
        """
        monotonic, server = self._clock_reference
        return monotonic + max(0.0, (job.started_at or 0.0) - server)

    def _lapses_at(self, job: Record) -> float:
        return self._leased_at(job) + (job.deadline or 0.0) - (job.started_at or 0.0)


class DeliveryListener(RedisListener):
    """A listener for one queue's ready jobs, which can also be delivered to it."""

    def __init__(
        self,
        connection: Connection,
        channels: Sequence[str],
        request_wakeups: Callable[[], None],
        on_close: Callable[[PubSubConnection], None],
        inbox: Inbox,
    ) -> None:
        self.inbox = inbox
        super().__init__(connection, channels, request_wakeups, on_close)

    def delivered(self, worker: str) -> DeliveredJobs:
        return self.inbox.take(worker)

    def _receive(self, channel: bytes, message: bytes) -> None:
        """Keep a delivered job; other messages are empty and only say that it is time to claim."""
        del channel
        if message:
            self.inbox.add_message(message)
