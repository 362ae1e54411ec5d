"""Rows: jobs in short, for tables that follow what happens."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Router, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from ackline.job import State
from ackline.queue import Queue as Line
from ackline.service.auth.authorization import Access
from ackline.service.auth.caller import Caller
from ackline.service.paging import ListOrder, Order, read_page
from ackline.service.parameters import Cursor, IdList, KindList, PageSize, Queue, States, Text
from ackline.service.rows import Rows, rows_of
from ackline.stores.base import Filter, find_each

WorkerId = Annotated[str, QueryParameter(description="The worker's id.")]


@get("/rows", summary="List jobs in short")
async def list_rows(
    queue: Queue,
    caller: NamedDependency[Caller],
    states: States = None,
    kinds: KindList = None,
    ids: IdList = None,
    text: Text = None,
    cursor: Cursor = None,
    limit: PageSize = 100,
    order: ListOrder = Order.LINE,
) -> Rows:
    """As `…/jobs`, without payloads and results but with their beginning, and with the time.

    The time is the store's: only this clock decides whether a deadline has passed.
    """
    line = (await caller.known_queue(queue, Access.READ_JOBS)).sync
    which = Filter(
        states=frozenset(states or State),
        kinds=caller.kinds(kinds),
        ids=frozenset(ids) if ids is not None else None,
        text=text,
    )
    return await caller.slowly(_page, line, which, cursor, limit, order)


@get("/held", summary="List what a worker holds")
async def list_held(
    queue: Queue, caller: NamedDependency[Caller], worker: WorkerId = "", limit: PageSize = 100
) -> Rows:
    """The jobs of one worker that are processing, in short."""
    line = (await caller.known_queue(queue, Access.READ_JOBS)).sync
    return await caller.slowly(_held, caller, line, worker, limit)


def _page(
    line: Line[Any, Any], which: Filter, cursor: str | None, limit: int, order: Order
) -> Rows:
    page = read_page(line.store, line.key, which, cursor, limit, order)
    return Rows(line.store.now(), rows_of(line, page.jobs), page.cursor)


def _held(caller: Caller, line: Line[Any, Any], worker: str, limit: int) -> Rows:
    ids = [job.id for job in line.store.leases(line.key, worker=worker, limit=limit)]
    held = (job for job in find_each(line.store, line.key, ids) if job and job.worker == worker)
    own = (job for job in held if caller.principal.sees(job))
    return Rows(line.store.now(), rows_of(line, own), None)


router = Router("/queues/{queue:str}", route_handlers=[list_rows, list_held], tags=["Rows"])
