"""All jobs of a queue that is in use, each of them once."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import islice

from ackline.errors import EventsDropped
from ackline.events import Event
from ackline.job import QueueKey, Record
from ackline.stores.base import Filter, Store

PAGE = 500
EVENTS = 5000


def each_job(
    store: Store, queue: QueueKey, which: Filter, size: int = PAGE
) -> Iterator[list[Record]]:
    """Every job that matches, in pieces; those that change meanwhile come last, as they are then.

    A list goes state by state, so a job that changes its state would be missed, or met twice. The
    journal says which ones do. A job that was there all along comes once.

    >>> [len(piece) for piece in each_job(queue.store, queue.key, Filter())]  # doctest: +SKIP
    [500, 500, 17]
    """
    changes, given = _Changes(store, queue), array("q")
    for page in _pages(store, queue, which, size):
        changes.read()  # after the page: what it met for the second time has changed by now
        quiet = [job for job in page if job.id not in changes.ids]
        given.extend(hash(job.id) for job in quiet)
        if quiet:
            yield quiet
    changes.read()
    done = _among(given, changes.ids)
    yield from _found(store, queue, which, [id for id in changes.ids if id not in done])
    if not changes.complete:
        yield from _rest(store, queue, which, size, {*given, *map(hash, changes.ids)})


class _Changes:
    """The ids of the jobs that something has happened to since this was made."""

    def __init__(self, store: Store, queue: QueueKey) -> None:
        self._store = store
        self._queue = queue
        self._cursor = store.info().cursor
        self.ids: set[str] = set()
        self.complete = True
        """Not if the journal of this queue is too short to tell."""

    def read(self) -> None:
        """Find out what has happened by now."""
        while events := self._next():
            self.ids.update(event.id for event in events)
            self._cursor = events[-1].cursor

    def _next(self) -> Sequence[Event]:
        try:
            return self._store.events(self._queue, self._cursor, EVENTS)
        except EventsDropped as error:
            self.complete, self._cursor = False, error.cursor
            return self._store.events(self._queue, self._cursor, EVENTS)


def _pages(store: Store, queue: QueueKey, which: Filter, size: int) -> Iterator[list[Record]]:
    cursor: str | None = None
    while True:
        page = store.page(queue, which, cursor, size)
        yield page.jobs
        cursor = page.cursor
        if cursor is None:
            return


def _among(given: array[int], ids: set[str]) -> set[str]:
    """Those of the ids that were given already."""
    marks = {hash(id): id for id in ids}
    return {marks[mark] for mark in given if mark in marks}


def _found(
    store: Store, queue: QueueKey, which: Filter, ids: Sequence[str]
) -> Iterator[list[Record]]:
    left = iter(ids)
    while part := list(islice(left, PAGE)):
        jobs = [job for job in store.get(queue, part) if job is not None and which.matches(job)]
        if jobs:
            yield jobs


def _rest(
    store: Store, queue: QueueKey, which: Filter, size: int, given: set[int]
) -> Iterator[list[Record]]:
    """A second look, for want of a journal."""
    for page in _pages(store, queue, which, size):
        jobs = [job for job in page if hash(job.id) not in given]
        given.update(hash(job.id) for job in jobs)
        if jobs:
            yield jobs
