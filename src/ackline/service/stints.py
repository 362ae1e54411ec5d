"""Acts on many jobs, a stint at a time: each request is answered before its client gives up."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec

from ackline.job import Record
from ackline.queue import Queue
from ackline.service.problems import Unfit
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

    def on_pages(self, act: Callable[[Sequence[Record], Place], int]) -> Done:
        """Act on one page of jobs after another; `act` returns how many it acted on."""

        def step(place: Place) -> Done:
            page = self._page(place.page)
            count = act(page.jobs, place)
            return Done(count, place.after(count, page.cursor) if page.cursor else None)

        return self._take(step) if self.which.states else Done(0)

    def delete(self, by: str) -> Done:
        """Delete all that match."""
        queue = self.queue

        def step(place: Place) -> Done:
            gone = queue.store.purge(queue.key, self.which, STEP, by)
            return Done(gone, place.after(gone) if gone else None)

        return self._take(step)

    def _take(self, step: Callable[[Place], Done]) -> Done:
        """Take one step after another until nothing is left, time is up or the service stops."""
        until = time.monotonic() + PATIENCE
        count, place = 0, self.place
        while True:
            done = step(place)
            count += done.count
            if done.rest is None or time.monotonic() >= until or self.stopping():
                return Done(count, done.rest)
            place = done.rest

    def _page(self, cursor: str | None) -> Page:
        try:
            return self.queue.store.page(self.queue.key, self.which, cursor, STEP)
        except msgspec.DecodeError:
            raise _strange() from None


def place_of(cursor: str | None, queue: Queue[Any, Any]) -> Place:
    """Where a client begins, or goes on. This blocks."""
    if cursor is None:
        return Place(queue.store.info().now)
    try:
        return _read(cursor)
    except msgspec.DecodeError:
        raise _strange() from None


def _strange() -> Unfit:
    return Unfit("this is not a cursor that this act answered with", at="$.cursor")


_read = msgspec.json.Decoder(Place).decode
