"""The timeline of one job, from the journal."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence

from ackline.core.errors import EventsDropped
from ackline.core.events import Event, read_cursor
from ackline.core.job import QueueKey, Record
from ackline.journal_views.seek import cursor_before
from ackline.stores.contract import Store

PAGE = 1000
TIME_LIMIT = 0.5
"""Seconds to search a long journal, which is ordered by time and not by job."""

PRECISION = 0.01
"""Seconds by which the time of an event usually differs from that of the job, at most."""

MARGIN = 5.0
"""… and by how much it may differ: by the length of a transaction, for example."""

MAX_ATTEMPTS = 5
"""The number of attempts, the last ones, whose events are read if not all can be."""


def timeline(store: Store, key: QueueKey, job: Record) -> tuple[list[Event], bool]:
    """The events of a job, and whether the search was complete.

    The journal is read from where the job was created. If that takes too long, it is read only
    around the times that the job has.
    """
    search = _Search(store, key, job.id)
    finished_at = job.finished_at if job.finished_at is not None else math.inf
    complete = search.read(job.created_at - PRECISION, finished_at + MARGIN, TIME_LIMIT)
    if complete and not search.found_creation:
        complete = search.read(job.created_at - MARGIN, job.created_at, TIME_LIMIT)
    if not complete:
        for at in _times_of(job):
            search.read(at - PRECISION, at + PRECISION)
    return search.events, complete


class _Search:
    """Collects the events of one job from several parts of the journal."""

    def __init__(self, store: Store, key: QueueKey, id: str) -> None:
        self._store = store
        self._key = key
        self._id = id
        self._found: dict[str, Event] = {}

    @property
    def events(self) -> list[Event]:
        """The events found so far, in order."""
        return sorted(self._found.values(), key=lambda event: read_cursor(event.cursor))

    @property
    def found_creation(self) -> bool:
        """Whether the event that created the job here was found."""
        return any(event.source is None for event in self._found.values())

    def read(self, since: float, until: float, time_limit: float = math.inf) -> bool:
        """Read the events between two times; returns whether there was enough time for all."""
        deadline = time.monotonic() + time_limit
        cursor = cursor_before(self._store, since, self._key)
        while page := self._page(cursor):
            self._found |= {event.cursor: event for event in page if event.id == self._id}
            cursor = page[-1].cursor
            if page[-1].at > until:
                break
            if time.monotonic() > deadline:
                return False
        return True

    def _page(self, cursor: str) -> Sequence[Event]:
        try:
            return self._store.events(self._key, cursor, PAGE)
        except EventsDropped as error:  # pruned meanwhile
            return self._store.events(self._key, error.cursor, PAGE)


def _times_of(job: Record) -> Iterator[float]:
    """The times at which something has happened to the job, without all but the last attempts."""
    times = [job.created_at, job.started_at, job.finished_at]
    for attempt in job.history[-MAX_ATTEMPTS:]:
        times += [attempt.started_at, attempt.at]
    yield from dict.fromkeys(at for at in times if at)
