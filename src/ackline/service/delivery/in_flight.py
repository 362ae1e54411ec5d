"""Jobs that this process has sent to clients and that are not settled yet."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

import msgspec

from ackline.core.job import QueueKey, Record

MAX_JOBS = 100_000
"""Maximum number of jobs to remember; older ones are read from the store."""


JobKey = tuple[QueueKey, str]
"""A queue and an id: two queues may have jobs with the same id."""


class InFlightJob(msgspec.Struct, frozen=True, gc=False):
    """A job that was sent to a client, and its queue."""

    queue: QueueKey
    job: Record

    @property
    def key(self) -> JobKey:
        """Its queue and its id."""
        return self.queue, self.job.id


class PrefetchWindow:
    """The jobs that one stream has sent and that are not settled yet."""

    def __init__(self, size: int, on_capacity: Callable[[QueueKey], None]) -> None:
        self.size = size
        self.jobs: dict[JobKey, Record] = {}
        self._deadlines: dict[JobKey, float] = {}
        self._on_capacity = on_capacity

    @property
    def capacity(self) -> int:
        """How many more jobs may be sent."""
        return self.size - len(self.jobs)

    def add(self, sent: InFlightJob) -> None:
        """Add a job that was sent."""
        job = self.jobs[sent.key] = sent.job
        self.extend(sent.key, (job.deadline or 0.0) - (job.started_at or 0.0))

    def extend(self, key: JobKey, seconds: float) -> None:
        """Set the remaining lease of a job."""
        self._deadlines[key] = time.monotonic() + seconds

    def drop(self, key: JobKey, token: int) -> None:
        """Drop a job that is settled, or whose lease is lost."""
        job = self.jobs.get(key)
        if job is not None and job.token == token:
            del self.jobs[key], self._deadlines[key]
            self._on_capacity(key[0])

    @property
    def next_expiry(self) -> float:
        """Seconds until the first of its leases expires."""
        first = min(self._deadlines.values(), default=float("inf"))
        return max(0.0, first - time.monotonic())


class InFlightJobs:
    """Remembers the jobs that this process has sent, so that settling one needs no lookup."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[JobKey, tuple[Record, PrefetchWindow | None]] = OrderedDict()

    def add(self, jobs: Iterable[InFlightJob], window: PrefetchWindow | None = None) -> None:
        """Add jobs that were sent."""
        for sent in jobs:
            job = sent.job.without_handler_data()
            self._jobs[sent.key] = (job, window)
            if window is not None:
                window.add(InFlightJob(sent.queue, job))
        while len(self._jobs) > MAX_JOBS:
            self._jobs.popitem(last=False)

    def find(self, key: QueueKey, id: str, token: int) -> Record | None:
        """A job as it was sent with this token.

        Another process may have sent it again since, so its id alone is not enough.
        """
        found = self._jobs.get((key, id))
        return found[0] if found is not None and found[0].token == token else None

    def extended(self, key: QueueKey, id: str, seconds: float) -> None:
        """Record that a lease was extended."""
        found = self._jobs.get((key, id))
        if found is not None and found[1] is not None and (key, id) in found[1].jobs:
            found[1].extend((key, id), seconds)

    def settled(self, key: QueueKey, id: str, token: int) -> None:
        """Forget a job whose lease has ended."""
        found = self._jobs.get((key, id))
        if found is not None and found[0].token == token:
            del self._jobs[key, id]
            if found[1] is not None:
                found[1].drop((key, id), token)
