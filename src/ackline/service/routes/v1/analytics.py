"""Analytics: what the pipeline has made of the journal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from litestar import Router
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from ackline.service.analytics import ErrorCluster, Hour, Lake, Objective, Reliability, visible_to
from ackline.service.auth.authorization import Access
from ackline.service.auth.caller import Caller
from ackline.service.handlers import get

Days = Annotated[int, QueryParameter(ge=1, le=90, description="How many days back, today too.")]
OneQueue = Annotated[str | None, QueryParameter(description="Only of this queue.")]


class Analytics(msgspec.Struct, kw_only=True):
    """The lake's figures; `made` is false as long as no pipeline has run."""

    lake: bool
    """Whether the settings name a lake."""
    made: bool
    as_of: float | None = None
    """When the last run of the pipeline began: the figures have all that happened before."""
    hours: list[Hour] = []
    errors: list[ErrorCluster] = []
    objectives: list[Objective] = []
    workers: list[Reliability] = []


@get("/analytics", summary="Read the lake's figures")
async def analytics(
    caller: NamedDependency[Caller], days: Days = 7, queue: OneQueue = None
) -> Analytics:
    """Throughput, waits and recovery by the hour, errors, objectives and workers."""
    caller.require(Access.READ_FIGURES)
    if queue is not None:
        caller.queue(queue, Access.READ_FIGURES)
    if not caller.runtime.settings.lake:
        return Analytics(lake=False, made=False)
    return await caller.slowly(_read, caller, days, queue)


def _read(caller: Caller, days: int, queue: str | None) -> Analytics:
    lake = Lake(Path(caller.runtime.settings.lake), days)
    if not lake.made():
        return Analytics(lake=True, made=False)
    queues = {queue} if queue is not None else caller.principal.queues
    own = visible_to(caller.tenant, queues, caller.principal.kinds)
    return Analytics(
        lake=True,
        made=True,
        as_of=lake.as_of(),
        hours=lake.hours(**own),
        errors=lake.errors(**own),
        objectives=lake.objectives(**own),
        workers=lake.workers(**own),
    )


router = Router("/", route_handlers=[analytics], tags=["Analytics"])
