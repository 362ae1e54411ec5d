"""Search: a job by its id, its kind, or a piece of its payload, in all queues at once."""

from __future__ import annotations

import time
from typing import Annotated, Any

import msgspec
from litestar import Router
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from ackline.job import QueueKey
from ackline.queue import Queue
from ackline.service.auth.authorization import Access
from ackline.service.auth.caller import Caller
from ackline.service.handlers import get
from ackline.service.job_summary import JobSummary, summaries
from ackline.stores.base import Filter

Line = Queue[Any, Any]

MOST = 50
PER_QUEUE = 10
"""Hits of one queue at most, so that one queue does not hide the others."""

STEP = 1000
PATIENCE = 2.0
"""Seconds to look through all queues."""

PATIENCE_FOR_IDS = 1.0
"""Seconds of these for ids that begin so: the rest is for kinds and payloads."""

Searched = Annotated[
    str, QueryParameter(description="An id, a kind, or a piece of a payload.", max_length=1000)
]


class Hit(msgspec.Struct):
    """A job that was found, and by what."""

    queue: str
    by: str
    """`id`, `kind` or `payload`."""
    job: JobSummary


class Found(msgspec.Struct):
    """What was found; `complete` tells whether these are all that match."""

    hits: list[Hit]
    complete: bool


@get("/search", summary="Search jobs")
async def search(caller: NamedDependency[Caller], text: Searched = "") -> Found:
    """Jobs whose id is this or begins so, then those of this kind, then by their payload.

    A store finds whole ids at once. For those that only begin so it looks from job to job for a
    second, and then says that the search is not complete.
    """
    caller.require(Access.READ_JOBS)
    if not text:
        return Found([], complete=True)
    return await caller.slowly(_Search(caller, text).run)


class _Search:
    """One text, looked for in every queue that the caller may see."""

    def __init__(self, caller: Caller, text: str) -> None:
        self._caller = caller
        self._text = text
        self._began = time.monotonic()
        self._complete = True
        self._hits: dict[tuple[str, str], Hit] = {}

    def run(self) -> Found:
        caller = self._caller
        known = caller.runtime.store.describe(caller.tenant)
        keys = [info.key for info in known if caller.principal.sees(info)]
        for by in ("id", "kind", "payload"):
            if by == "kind" and not caller.principal.may_use_kind(self._text):
                continue
            for key in keys:
                if len(self._hits) >= MOST or self._took() > PATIENCE:
                    return self._found(complete=False)
                self._look(key, by)
        return self._found(complete=self._complete)

    def _look(self, key: QueueKey, by: str) -> None:
        line = self._caller.queue(key.name, Access.READ_JOBS).sync
        for row in self._by_id(line) if by == "id" else self._page(line, by):
            self._hits.setdefault((key.name, row.id), Hit(key.name, by, row))

    def _by_id(self, line: Line) -> list[JobSummary]:
        [job] = line.store.get(line.key, [self._text])
        if job is not None and self._caller.principal.sees(job):
            return summaries(line, [job])
        return self._beginning(line)

    def _beginning(self, line: Line) -> list[JobSummary]:
        start, found, cursor = self._text.casefold(), list[JobSummary](), None
        which = Filter(kinds=self._caller.principal.kinds)
        while True:
            page = line.store.page(line.key, which, cursor, STEP)
            begin_so = (job for job in page.jobs if job.id.casefold().startswith(start))
            found += summaries(line, begin_so)
            cursor = page.cursor
            if cursor is None and len(found) <= PER_QUEUE:
                return found
            if len(found) >= PER_QUEUE:
                self._complete = False
                return found[:PER_QUEUE]
            if self._took() > PATIENCE_FOR_IDS:
                self._complete = False
                return found

    def _page(self, line: Line, by: str) -> list[JobSummary]:
        kinds = frozenset({self._text}) if by == "kind" else self._caller.principal.kinds
        which = Filter(kinds=kinds, text=self._text if by == "payload" else None)
        found, cursor, most = list[JobSummary](), None, PER_QUEUE + 1
        # One more than is shown tells whether there are more.
        while len(found) < most:
            page = line.store.page(line.key, which, cursor, most - len(found))
            found += summaries(line, page.jobs)
            cursor = page.cursor
            if cursor is None:
                break
        self._complete &= len(found) <= PER_QUEUE
        return found[:PER_QUEUE]

    def _took(self) -> float:
        return time.monotonic() - self._began

    def _found(self, *, complete: bool) -> Found:
        return Found(list(self._hits.values())[:MOST], complete)


router = Router("/", route_handlers=[search], tags=["Search"])
