"""Acts on many jobs, a stint at a time: each request is answered before its client gives up."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec

from ackline.job import Record, State
from ackline.queue import Queue
from ackline.service.problems import Unfit
from ackline.service.slow_work import Steps
from ackline.stores.base import Filter, Page

STEP = 500

PATIENCE = 10.0
"""Seconds that a stint may take; what is left is for the next request."""


class Place(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where a stint, or a step of it, begins."""

    began: float
    """When the first stint began: the caller has not seen what changed since."""
    done: Annotated[int, msgspec.Meta(ge=0)] = 0
    """How many jobs the stints before have acted on."""
    page: str | None = None

    def after(self, count: int, page: str | None = None) -> Place:
        """The place after acting on `count` more."""
        return Place(self.began, self.done + count, page)


class Done(msgspec.Struct, frozen=True):
    """How many jobs were acted on, and where to go on; None if nothing is left."""

    count: int
    rest: Place | None = None

    @property
    def cursor(self) -> str | None:
        """The rest as text, which the client sends back with its next request."""
        return msgspec.json.encode(self.rest).decode() if self.rest is not None else None


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

        def step(place: Place) -> Done:
            page = self._page(place.page)
            count = act([job for job in page.jobs if _changed_at(job) <= place.began], place)
            return Done(count, place.after(count, page.cursor) if page.cursor else None)

        return (yield from self._take(step)) if self.which.states else Done(0)

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


def place_of(cursor: str | None, as_of: float | None, queue: Queue[Any, Any]) -> Place:
    """Where a client begins, `as_of` its preview if it had one, or goes on. This blocks."""
    if cursor is None:
        return Place(queue.store.info().now if as_of is None else as_of)
    try:
        return _read(cursor)
    except msgspec.DecodeError:
        raise _strange() from None


def _changed_at(job: Record) -> float:
    """The latest change of a job's state that its record tells of."""
    times = [job.created_at, job.started_at, job.finished_at]
    times += [failure.at for failure in job.history[-1:]]
    if job.state is State.QUEUED:
        times.append(job.run_at)
    return max(at for at in times if at is not None)


def _strange() -> Unfit:
    return Unfit("this is not a cursor that this act answered with", at="$.cursor")


_read = msgspec.json.Decoder(Place).decode
