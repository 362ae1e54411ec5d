"""Analytics: the statistics that the pipeline computes from the journal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from litestar import Router
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from ackline.service.auth.caller import Caller
from ackline.service.auth.permissions import Permission
from ackline.service.routes.decorators import get
from ackline.service.views.lake_stats import (
    HourlyStats,
    LakeErrorGroup,
    LakeStats,
    Objective,
    WorkerReliability,
    visibility_parameters,
)

Days = Annotated[int, QueryParameter(ge=1, le=90, description="Number of days, today included.")]
QueueFilter = Annotated[str | None, QueryParameter(description="Only this queue.")]


class Analytics(msgspec.Struct, kw_only=True):
    """The statistics of the lake; `available` is false until a pipeline has run."""

    lake: bool
    """Whether a lake is configured."""
    available: bool
    as_of: float | None = None
    """When the last run of the pipeline started: statistics include everything before."""
    hours: list[HourlyStats] = []
    errors: list[LakeErrorGroup] = []
    objectives: list[Objective] = []
    workers: list[WorkerReliability] = []


@get("/analytics", summary="Read the statistics of the lake")
async def get_analytics(
    caller: NamedDependency[Caller], days: Days = 7, queue: QueueFilter = None
) -> Analytics:
    """Throughput, wait times and recovery by hour, errors, objectives and workers."""
    caller.require(Permission.READ_STATS)
    if queue is not None:
        caller.queue(queue, Permission.READ_STATS)
    if not caller.runtime.settings.lake:
        return Analytics(lake=False, available=False)
    return await caller.run_slow(_read, caller, days, queue)


def _read(caller: Caller, days: int, queue: str | None) -> Analytics:
    lake = LakeStats(Path(caller.runtime.settings.lake), days)
    if not lake.exists():
        return Analytics(lake=True, available=False)
    queues = {queue} if queue is not None else caller.principal.queues
    visible = visibility_parameters(caller.tenant, queues, caller.principal.kinds)
    return Analytics(
        lake=True,
        available=True,
        as_of=lake.as_of(),
        hours=lake.hours(**visible),
        errors=lake.errors(**visible),
        objectives=lake.objectives(**visible),
        workers=lake.workers(**visible),
    )


router = Router("/", route_handlers=[get_analytics], tags=["Analytics"])
