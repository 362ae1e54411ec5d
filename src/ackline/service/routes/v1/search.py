"""Search for jobs by id, kind, tag or payload, in all queues."""

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
"""Maximum number of hits per queue, so that one queue does not hide the others."""

PAGE = 1000
TIME_LIMIT = 2.0
"""Seconds to search all queues."""

ID_TIME_LIMIT = 1.0
"""Seconds of these for id prefixes; the rest is for kinds and payloads."""

SearchText = Annotated[
    str,
    QueryParameter(description="An id, a kind, a tag, or a part of a payload.", max_length=1000),
]


class SearchHit(msgspec.Struct):
    """A job that matches, and what matched."""

    queue: str
    by: str
    """`id`, `kind`, `tag` or `payload`."""
    job: JobSummary


class SearchResults(msgspec.Struct):
    """The hits; `complete` says whether these are all."""

    hits: list[SearchHit]
    complete: bool


@get("/search", summary="Search jobs")
async def search_jobs(caller: NamedDependency[Caller], text: SearchText = "") -> SearchResults:
    """Jobs whose id is or starts with this text, then of this kind or tag, then by their payload.

    Whole ids are found immediately. For prefixes, jobs are scanned for a second; if that is not
    enough, the result is not complete.
    """
    caller.require(Permission.READ_JOBS)
    if not text:
        return SearchResults([], complete=True)
    return await caller.run_slow(_Search(caller, text).run)


class _Search:
    """A search for one text in every queue that the caller can see."""

    def __init__(self, caller: Caller, text: str) -> None:
        self._caller = caller
        self._text = text
        self._started_at = time.monotonic()
        self._complete = True
        self._hits: dict[tuple[str, str], SearchHit] = {}

    def run(self) -> SearchResults:
        caller = self._caller
        known = caller.runtime.store.describe(caller.tenant)
        keys = [info.key for info in known if caller.principal.can_see(info)]
        for by in ("id", "kind", "tag", "payload"):
            if by == "kind" and not caller.principal.may_use_kind(self._text):
                continue
            for key in keys:
                if len(self._hits) >= MAX_HITS or self._elapsed() > TIME_LIMIT:
                    return self._found(complete=False)
                self._search_queue(key, by)
        return self._found(complete=self._complete)

    def _search_queue(self, key: QueueKey, by: str) -> None:
        queue = self._caller.queue(key.name, Permission.READ_JOBS).sync
        for row in self._by_id(queue) if by == "id" else self._page(queue, by):
            self._hits.setdefault((key.name, row.id), SearchHit(key.name, by, row))

    def _by_id(self, queue: AnyQueue) -> list[JobSummary]:
        [job] = queue.store.get(queue.key, [self._text])
        if job is not None and self._caller.principal.can_see(job):
            return summarize(queue, [job])
        return self._by_id_prefix(queue)

    def _by_id_prefix(self, queue: AnyQueue) -> list[JobSummary]:
        prefix, found, cursor = self._text.casefold(), list[JobSummary](), None
        job_filter = Filter(kinds=self._caller.principal.kinds)
        while True:
            page = queue.store.page(queue.key, job_filter, cursor, PAGE)
            matching = (job for job in page.jobs if job.id.casefold().startswith(prefix))
            found += summarize(queue, matching)
            cursor = page.cursor
            if cursor is None and len(found) <= MAX_HITS_PER_QUEUE:
                return found
            if len(found) >= MAX_HITS_PER_QUEUE:
                self._complete = False
                return found[:MAX_HITS_PER_QUEUE]
            if self._elapsed() > ID_TIME_LIMIT:
                self._complete = False
                return found

    def _page(self, queue: AnyQueue, by: str) -> list[JobSummary]:
        kinds = frozenset({self._text}) if by == "kind" else self._caller.principal.kinds
        job_filter = Filter(
            kinds=kinds,
            text=self._text if by == "payload" else None,
            tags=frozenset({self._text}) if by == "tag" else None,
        )
        found, cursor, limit = list[JobSummary](), None, MAX_HITS_PER_QUEUE + 1
        # One more than is shown tells whether there are more.
        while len(found) < limit:
            page = queue.store.page(queue.key, job_filter, cursor, limit - len(found))
            found += summarize(queue, page.jobs)
            cursor = page.cursor
            if cursor is None:
                break
        self._complete &= len(found) <= MAX_HITS_PER_QUEUE
        return found[:MAX_HITS_PER_QUEUE]

    def _elapsed(self) -> float:
        return time.monotonic() - self._started_at

    def _found(self, *, complete: bool) -> SearchResults:
        return SearchResults(list(self._hits.values())[:MAX_HITS], complete)


router = Router("/", route_handlers=[search_jobs], tags=["Search"])
