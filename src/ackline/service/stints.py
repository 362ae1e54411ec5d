"""Acts on many jobs, a stint at a time: each request is answered before its client gives up."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec

from ackline.errors import EventsDropped
from ackline.events import Act, Entry, Events, read_cursor
from ackline.job import Record
from ackline.queue import Queue
from ackline.service.problems import Conflict, Unfit
from ackline.service.slow_work import Steps
from ackline.stores.base import Filter, Page

STEP = 500
EVENTS = 5000

PATIENCE = 10.0
"""Seconds that a stint may take; what is left is for the next request."""

CATCHING_UP = 10.0
"""Seconds to read what the journal has been told since an act, or its preview, began."""


AGAIN = "preview it again"


class Place(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where a stint, or a step of it, begins."""

    began: float
    """When the first stint began: the caller has not seen what changed since."""
    since: str
    """The end of the journal at that time, which tells of changes that jobs do not."""
    done: Annotated[int, msgspec.Meta(ge=0)] = 0
    """How many jobs the stints before have acted on."""
    page: str | None = None

    def after(self, count: int, page: str | None = None) -> Place:
        """The place after acting on `count` more."""
        return Place(self.began, self.since, self.done + count, page)

    @property
    def as_of(self) -> str:
        """When the first stint began, as text: another act can begin as of that, too."""
        return _write(Place(self.began, self.since))


class Done(msgspec.Struct, frozen=True):
    """How many jobs were acted on, and where to go on; None if nothing is left."""

    count: int
    rest: Place | None = None

    @property
    def cursor(self) -> str | None:
        """The rest as text, which the client sends back with its next request."""
        return _write(self.rest) if self.rest is not None else None


class Stint(msgspec.Struct, frozen=True):
    """One request's part of an act on all jobs of a queue that match. It blocks."""

    queue: Queue[Any, Any]
    which: Filter
    place: Place
    stopping: Callable[[], bool]
    """Whether the service is about to stop: then the rest is left to another request."""

    def on_pages(self, act: Callable[[Sequence[Record], Place], int]) -> Steps[Done]:
        """Act on one page of jobs after another; `act` returns how many it acted on.

        Jobs that have changed since the act began are left out: the caller has not seen them so.
        """
        if not self.which.states:
            return Done(0)
        changes = _Changes(self)
        yield from changes.catch_up()

        def step(place: Place) -> Done:
            page = self._page(place.page)
            changes.read_on()  # after the page: what is in it may just have come
            count = act([job for job in page.jobs if not changes.tell_of(job)], place)
            return Done(count, place.after(count, page.cursor) if page.cursor else None)

        return (yield from self._take(step))

    def purge(self, jobs: Sequence[Record], by: str) -> int:
        """Delete those of these jobs that still match."""
        if not jobs:
            return 0
        which = msgspec.structs.replace(self.which, ids=frozenset(job.id for job in jobs))
        return self.queue.store.purge(self.queue.key, which, len(jobs), by)

    def _take(self, step: Callable[[Place], Done]) -> Steps[Done]:
        """Take one step after another until nothing is left, time is up or the service stops."""
        until = time.monotonic() + PATIENCE
        count, place = 0, self.place
        while True:
            done = step(place)
            count += done.count
            if done.rest is None or time.monotonic() >= until or self.stopping():
                return Done(count, done.rest)
            place = done.rest
            yield

    def _page(self, cursor: str | None) -> Page:
        try:
            return self.queue.store.page(self.queue.key, self.which, cursor, STEP)
        except msgspec.DecodeError:
            raise _strange() from None


class _Changes:
    """The jobs that have come to be as they are since an act, or its preview, began."""

    def __init__(self, stint: Stint) -> None:
        self._store, self._key = stint.queue.store, stint.queue.key
        self._states = stint.which.states
        self._began = stint.place.began
        self._cursor = stint.place.since
        self._ids: set[str] = set()

    def catch_up(self) -> Steps[None]:
        """Read the journal up to now; refused if it cannot tell all, or not in time."""
        until = time.monotonic() + CATCHING_UP
        try:
            while self._read():
                if time.monotonic() >= until:
                    raise Conflict(f"too much has happened since the preview: {AGAIN}")
                yield
        except EventsDropped:
            raise Conflict(f"the journal no longer goes back to the preview: {AGAIN}") from None

    def read_on(self) -> None:
        """Read what has been added to the journal."""
        try:
            while self._read():
                pass
        except EventsDropped as error:  # trimmed this moment
            self._cursor = error.cursor

    def tell_of(self, job: Record) -> bool:
        """Whether a job has changed; its own times are told at once, even by a late journal."""
        return job.id in self._ids or _changed_at(job) > self._began

    def _read(self) -> bool:
        events = Events.of(self._store.events(self._key, self._cursor, EVENTS))
        for batch in events.batches:
            self._ids.update(entry.id for entry in batch.entries if self._enters(entry))
        self._cursor = events.cursor or self._cursor
        return bool(events)

    def _enters(self, entry: Entry) -> bool:
        """Whether a job may match now and not have matched before."""
        changed = entry.source is not entry.to or entry.act in (Act.EDIT, Act.MOVE)
        return changed and entry.to in self._states


def place_of(cursor: str | None, as_of: str | None, queue: Queue[Any, Any]) -> Place:
    """Where a client begins, `as_of` its preview if it had one, or goes on. This blocks."""
    if cursor is not None:
        return _read(cursor, "$.cursor")
    if as_of is not None:
        preview = _read(as_of, "$.as_of")
        return Place(preview.began, preview.since)
    info = queue.store.info()
    return Place(info.now, info.cursor)


def _changed_at(job: Record) -> float:
    """The latest change of a job's state that its record tells of."""
    times = [job.created_at, job.started_at, job.finished_at]
    times += [failure.at for failure in job.history[-1:]]
    return max(at for at in times if at is not None)


def _read(text: str, at: str) -> Place:
    try:
        place = _decoder.decode(text)
        read_cursor(place.since)
    except ValueError:
        raise _strange(at) from None
    return place


def _write(place: Place) -> str:
    return msgspec.json.encode(place).decode()


def _strange(at: str = "$.cursor") -> Unfit:
    return Unfit("this is nothing that this act answered with", at=at)


_decoder = msgspec.json.Decoder(Place)
