"""Search: a job by its id, its kind, or a piece of its payload, in all queues at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from litestar import Router, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from ackline.job import QueueKey, Record
from ackline.queue import Queue
from ackline.service.caller import Caller, Scope
from ackline.service.rows import Row, rows_of
from ackline.stores.base import Filter, Store

MOST = 50
PER_QUEUE = 10
"""Hits of one queue, so that one does not hide the others."""

NEAREST = 1000
"""Jobs of a queue whose ids are looked at for their beginning."""

PATIENCE = 2.0
"""Seconds to look through payloads."""

Searched = Annotated[
    str, QueryParameter(description="An id, a kind, or a piece of a payload.", max_length=1000)
]


class Hit(msgspec.Struct):
    """A job that was found, and by what."""

    queue: str
    by: str
    """`id`, `kind` or `payload`."""
    job: Row


class Found(msgspec.Struct):
    """What was found; `complete` tells whether all queues were looked through."""

    hits: list[Hit]
    complete: bool


@get("/search", summary="Search jobs")
async def search(caller: NamedDependency[Caller], text: Searched = "") -> Found:
    """Jobs whose id is this or begins so, then those of this kind, then by their payload.

    Ids that begin so are looked for among the first jobs of each state: a store finds whole ones.
    """
    caller.require(Scope.READ)
    if not text:
        return Found([], complete=True)
    return await caller.slowly(_search, caller, text)


def _search(caller: Caller, text: str) -> Found:
    found = caller.runtime.store.describe(caller.tenant)
    keys = [info.key for info in found if caller.may_see(info.key.name)]
    hits: dict[tuple[str, str], Hit] = {}
    until = time.monotonic() + PATIENCE
    for by in ("id", "kind", "payload"):
        for key in keys:
            if len(hits) >= MOST or time.monotonic() > until:
                return Found(list(hits.values())[:MOST], complete=False)
            line = caller.queue(key.name, Scope.READ).sync
            for row in rows_of(line, _look(caller, line, key, by, text)):
                hits.setdefault((key.name, row.id), Hit(key.name, by, row))
    return Found(list(hits.values())[:MOST], complete=True)


def _look(
    caller: Caller, line: Queue[Any, Any], key: QueueKey, by: str, text: str
) -> Iterator[Record]:
    store = line.store
    if by == "id":
        found = [one for one in store.get(key, [text]) if one is not None]
        found = found or _beginning(store, key, text)
    else:
        kinds = frozenset({text}) if by == "kind" else caller.principal.kinds
        which = Filter(kinds=kinds, text=text if by == "payload" else None)
        found = store.page(key, which, None, PER_QUEUE).jobs
    return (one for one in found if caller.may_touch(one.kind))


def _beginning(store: Store, key: QueueKey, text: str) -> list[Record]:
    near = store.page(key, Filter(), None, NEAREST).jobs
    return [one for one in near if one.id.casefold().startswith(text.casefold())][:PER_QUEUE]


router = Router("/", route_handlers=[search], tags=["Search"])
