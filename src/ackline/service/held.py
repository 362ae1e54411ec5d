"""Jobs that were handed out by this process: what they are, and whose window they are in."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

from ackline.job import QueueKey, Record

MOST_HELD = 100_000
"""So many are remembered; of an older one, the store is asked."""


class Window:
    """The jobs that one stream has sent and that are not settled yet."""

    def __init__(self, size: int, on_room: Callable[[], None]) -> None:
        self.size = size
        self.jobs: dict[str, Record] = {}
        self._deadlines: dict[str, float] = {}
        self._on_room = on_room

    @property
    def room(self) -> int:
        """How many more may be sent."""
        return self.size - len(self.jobs)

    def add(self, job: Record) -> None:
        """A job was sent."""
        self.jobs[job.id] = job
        self.extend(job.id, (job.deadline or 0.0) - (job.started_at or 0.0))

    def extend(self, id: str, seconds: float) -> None:
        """Its lease runs from now on."""
        self._deadlines[id] = time.monotonic() + seconds

    def drop(self, id: str, token: int) -> None:
        """A job is settled, or its lease is lost."""
        held = self.jobs.get(id)
        if held is not None and held.token == token:
            del self.jobs[id], self._deadlines[id]
            self._on_room()

    @property
    def next_lapse(self) -> float:
        """In how many seconds the first of its leases lapses."""
        first = min(self._deadlines.values(), default=float("inf"))
        return max(0.0, first - time.monotonic())


class Held:
    """Remembers the jobs that this process handed out, so that settling one takes no look."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[tuple[QueueKey, str], tuple[Record, Window | None]] = OrderedDict()

    def add(self, key: QueueKey, jobs: Iterable[Record], window: Window | None = None) -> None:
        """Jobs were handed out."""
        for job in jobs:
            self._jobs[key, job.id] = (job, window)
            if window is not None:
                window.add(job)
        while len(self._jobs) > MOST_HELD:
            self._jobs.popitem(last=False)

    def find(self, key: QueueKey, id: str) -> Record | None:
        """A job as it was handed out last; it may have been settled elsewhere since."""
        found = self._jobs.get((key, id))
        return found[0] if found is not None else None

    def extended(self, key: QueueKey, id: str, seconds: float) -> None:
        """A lease was extended."""
        found = self._jobs.get((key, id))
        if found is not None and found[1] is not None and id in found[1].jobs:
            found[1].extend(id, seconds)

    def settled(self, key: QueueKey, id: str, token: int) -> None:
        """A lease has ended."""
        found = self._jobs.get((key, id))
        if found is not None and found[0].token == token:
            del self._jobs[key, id]
            if found[1] is not None:
                found[1].drop(id, token)
