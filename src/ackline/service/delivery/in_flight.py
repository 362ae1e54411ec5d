"""Jobs that were handed out by this process: what they are, and whose window they are in."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

import msgspec

from ackline.core.job import QueueKey, Record

MAX_JOBS = 100_000
"""How many are remembered; for an older one, the store is asked."""


JobKey = tuple[QueueKey, str]
"""A queue and an id: two queues may have jobs of the same id."""


class InFlightJob(msgspec.Struct, frozen=True, gc=False):
    """A job in a client's hands, and the queue that it came from."""

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
        self._on_room = on_capacity

    @property
    def capacity(self) -> int:
        """How many more may be sent."""
        return self.size - len(self.jobs)

    def add(self, handed: InFlightJob) -> None:
        """A job was sent."""
        job = self.jobs[handed.key] = handed.job
        self.extend(handed.key, (job.deadline or 0.0) - (job.started_at or 0.0))

    def extend(self, place: JobKey, seconds: float) -> None:
        """Its lease lasts `seconds` from now."""
        self._deadlines[place] = time.monotonic() + seconds

    def drop(self, place: JobKey, token: int) -> None:
        """A job is settled, or its lease is lost."""
        held = self.jobs.get(place)
        if held is not None and held.token == token:
            del self.jobs[place], self._deadlines[place]
            self._on_room(place[0])

    @property
    def next_expiry(self) -> float:
        """In how many seconds the first of its leases lapses."""
        first = min(self._deadlines.values(), default=float("inf"))
        return max(0.0, first - time.monotonic())


class InFlightJobs:
    """Remembers the jobs that this process handed out, so that settling one needs no lookup."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[JobKey, tuple[Record, PrefetchWindow | None]] = OrderedDict()

    def add(self, jobs: Iterable[InFlightJob], window: PrefetchWindow | None = None) -> None:
        """Jobs were handed out."""
        for handed in jobs:
            job = handed.job.without_handler_data()
            self._jobs[handed.key] = (job, window)
            if window is not None:
                window.add(InFlightJob(handed.queue, job))
        while len(self._jobs) > MAX_JOBS:
            self._jobs.popitem(last=False)

    def find(self, key: QueueKey, id: str, token: int) -> Record | None:
        """A job as it was handed out under this token.

        Another process may have handed it out again since, so its id alone is not enough.
        """
        found = self._jobs.get((key, id))
        return found[0] if found is not None and found[0].token == token else None

    def extended(self, key: QueueKey, id: str, seconds: float) -> None:
        """A lease was extended."""
        found = self._jobs.get((key, id))
        if found is not None and found[1] is not None and (key, id) in found[1].jobs:
            found[1].extend((key, id), seconds)

    def settled(self, key: QueueKey, id: str, token: int) -> None:
        """A lease has ended."""
        found = self._jobs.get((key, id))
        if found is not None and found[0].token == token:
            del self._jobs[key, id]
            if found[1] is not None:
                found[1].drop((key, id), token)
