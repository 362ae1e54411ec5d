"""Search: a job by its id, its kind, or a piece of its payload, in all queues at once."""

from __future__ import annotations

import time
from typing import Annotated, Any

import msgspec
from litestar import Router
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from ackline.core.job import QueueKey
from ackline.queue import Queue
from ackline.service.auth.caller import Caller
from ackline.service.auth.permissions import Permission
from ackline.service.routes.decorators import get
from ackline.service.views.job_summary import JobSummary, summarize
from ackline.stores.contract import Filter

AnyQueue = Queue[Any, Any]

MAX_HITS = 50
MAX_HITS_PER_QUEUE = 10
"""Hits of one queue at most, so that one queue does not hide the others."""

PAGE = 1000
TIME_LIMIT = 2.0
"""Seconds to look through all queues."""

ID_TIME_LIMIT = 1.0
"""Seconds of these for ids that begin so: the rest is for kinds and payloads."""

SearchText = Annotated[
    str, QueryParameter(description="An id, a kind, or a piece of a payload.", max_length=1000)
]


class SearchHit(msgspec.Struct):
    """A job that was found, and by what."""

    queue: str
    by: str
    """`id`, `kind` or `payload`."""
    job: JobSummary


class SearchResults(msgspec.Struct):
    """What was found; `complete` tells whether these are all that match."""

    hits: list[SearchHit]
    complete: bool


@get("/search", summary="Search jobs")
async def search(caller: NamedDependency[Caller], text: SearchText = "") -> SearchResults:
    """Jobs whose id is this or begins so, then those of this kind, then by their payload.

    A store finds whole ids at once. For those that only begin so it looks from job to job for a
    second, and then says that the search is not complete.
    """
    caller.require(Permission.READ_JOBS)
    if not text:
        return SearchResults([], complete=True)
    return await caller.run_slow(_Search(caller, text).run)


class _Search:
    """One text, looked for in every queue that the caller may see."""

    def __init__(self, caller: Caller, text: str) -> None:
        self._caller = caller
        self._text = text
        self._began = time.monotonic()
        self._complete = True
        self._hits: dict[tuple[str, str], SearchHit] = {}

    def run(self) -> SearchResults:
        caller = self._caller
        known = caller.runtime.store.describe(caller.tenant)
        keys = [info.key for info in known if caller.principal.can_see(info)]
        for by in ("id", "kind", "payload"):
            if by == "kind" and not caller.principal.may_use_kind(self._text):
                continue
            for key in keys:
                if len(self._hits) >= MAX_HITS or self._took() > TIME_LIMIT:
                    return self._found(complete=False)
                self._search_queue(key, by)
        return self._found(complete=self._complete)

    def _search_queue(self, key: QueueKey, by: str) -> None:
        line = self._caller.queue(key.name, Permission.READ_JOBS).sync
        for row in self._by_id(line) if by == "id" else self._page(line, by):
            self._hits.setdefault((key.name, row.id), SearchHit(key.name, by, row))

    def _by_id(self, line: AnyQueue) -> list[JobSummary]:
        [job] = line.store.get(line.key, [self._text])
        if job is not None and self._caller.principal.can_see(job):
            return summarize(line, [job])
        return self._by_id_prefix(line)

    def _by_id_prefix(self, line: AnyQueue) -> list[JobSummary]:
        start, found, cursor = self._text.casefold(), list[JobSummary](), None
        which = Filter(kinds=self._caller.principal.kinds)
        while True:
            page = line.store.page(line.key, which, cursor, PAGE)
            begin_so = (job for job in page.jobs if job.id.casefold().startswith(start))
            found += summarize(line, begin_so)
            cursor = page.cursor
            if cursor is None and len(found) <= MAX_HITS_PER_QUEUE:
                return found
            if len(found) >= MAX_HITS_PER_QUEUE:
                self._complete = False
                return found[:MAX_HITS_PER_QUEUE]
            if self._took() > ID_TIME_LIMIT:
                self._complete = False
                return found

    def _page(self, line: AnyQueue, by: str) -> list[JobSummary]:
        kinds = frozenset({self._text}) if by == "kind" else self._caller.principal.kinds
        which = Filter(kinds=kinds, text=self._text if by == "payload" else None)
        found, cursor, most = list[JobSummary](), None, MAX_HITS_PER_QUEUE + 1
        # One more than is shown tells whether there are more.
        while len(found) < most:
            page = line.store.page(line.key, which, cursor, most - len(found))
            found += summarize(line, page.jobs)
            cursor = page.cursor
            if cursor is None:
                break
        self._complete &= len(found) <= MAX_HITS_PER_QUEUE
        return found[:MAX_HITS_PER_QUEUE]

    def _took(self) -> float:
        return time.monotonic() - self._began

    def _found(self, *, complete: bool) -> SearchResults:
        return SearchResults(list(self._hits.values())[:MAX_HITS], complete)


router = Router("/", route_handlers=[search], tags=["Search"])
