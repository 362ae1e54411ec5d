"""Reads all jobs of a queue in use, each exactly once."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import islice

from ackline.core.errors import EventsDropped
from ackline.core.events import Event
from ackline.core.job import QueueKey, Record
from ackline.stores.contract import MAX_ANSWER_BYTES, Filter, Store, find_each_job
from ackline.stores.shared.byte_limit import ByteLimit

PAGE_SIZE = 500
EVENTS_PAGE_SIZE = 5000


def snapshot_jobs(
    store: Store, queue: QueueKey, which: Filter, size: int = PAGE_SIZE
) -> Iterator[list[Record]]:
    """Every job that matches, in batches; those that change meanwhile come last, as they are then.

    Pages go state by state, so a job that changes its state could be missed, or read twice. The
    journal says which jobs do. A job that exists all the time is yielded once.

    >>> [len(batch) for batch in snapshot_jobs(queue.store, queue.key, Filter())]  # doctest: +SKIP
    [500, 500, 17]
    """
    changes, yielded = _ChangedJobs(store, queue), array("q")
    for page in _pages(store, queue, which, size):
        changes.read()  # after the page: a job that is in a second page has changed by now
        unchanged = [job for job in page if job.id not in changes.ids]
        yielded.extend(hash(job.id) for job in unchanged)
        if unchanged:
            yield unchanged
    changes.read()
    done = _already_yielded(yielded, changes.ids)
    yield from _read_again(store, queue, which, [id for id in changes.ids if id not in done])
    if not changes.complete:
        yield from _second_pass(store, queue, which, size, {*yielded, *map(hash, changes.ids)})


class _ChangedJobs:
    """The ids of the jobs that something has happened to since this was made."""

    def __init__(self, store: Store, queue: QueueKey) -> None:
        self._store = store
        self._queue = queue
        self._cursor = store.info().cursor
        self.ids: set[str] = set()
        self.complete = True
        """False if the journal of this queue no longer has all changes."""

    def read(self) -> None:
        """Add the jobs that something has happened to by now."""
        while events := self._next():
            self.ids.update(event.id for event in events)
            self._cursor = events[-1].cursor

    def _next(self) -> Sequence[Event]:
        try:
            return self._store.events(self._queue, self._cursor, EVENTS_PAGE_SIZE)
        except EventsDropped as error:
            self.complete, self._cursor = False, error.cursor
            return self._store.events(self._queue, self._cursor, EVENTS_PAGE_SIZE)


def _pages(store: Store, queue: QueueKey, which: Filter, size: int) -> Iterator[list[Record]]:
    cursor: str | None = None
    while True:
        page = store.page(queue, which, cursor, size)
        yield page.jobs
        cursor = page.cursor
        if cursor is None:
            return


def _already_yielded(yielded: array[int], ids: set[str]) -> set[str]:
    """Those of the ids that were yielded already, by their hashes."""
    by_hash = {hash(id): id for id in ids}
    return {by_hash[hashed] for hashed in yielded if hashed in by_hash}


def _read_again(
    store: Store, queue: QueueKey, which: Filter, ids: Sequence[str]
) -> Iterator[list[Record]]:
    found = find_each_job(store, queue, ids)
    matching = (job for job in found if job is not None and which.matches(job))
    while jobs := list(ByteLimit(MAX_ANSWER_BYTES).limit(islice(matching, PAGE_SIZE), _size)):
        yield jobs


def _size(job: Record) -> int:
    return len(job.payload) + len(job.result or b"")


def _second_pass(
    store: Store, queue: QueueKey, which: Filter, size: int, yielded: set[int]
) -> Iterator[list[Record]]:
    """Read all pages again, because the journal does not say which jobs have changed."""
    for page in _pages(store, queue, which, size):
        jobs = [job for job in page if hash(job.id) not in yielded]
        yielded.update(hash(job.id) for job in jobs)
        if jobs:
            yield jobs
