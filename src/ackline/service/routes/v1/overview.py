"""The overview: everything at a glance, in one request; and who the caller is."""

from __future__ import annotations

import msgspec
from litestar import Router
from litestar.di import NamedDependency

from ackline.core.job import State
from ackline.journal_views.throughput import Throughput
from ackline.service.auth.caller import Caller
from ackline.service.auth.job_acts import JobAct, acts_by_state
from ackline.service.auth.permissions import Permission, Scope
from ackline.service.routes.decorators import get
from ackline.service.views.overview import OverviewSnapshot
from ackline.stores.contract import HealthIssue, QueueInfo, StoreInfo


class QueueOverview(msgspec.Struct, kw_only=True):
    """A queue at a glance."""

    queue: str
    paused: bool
    counts: dict[State, int]
    oldest: float | None
    """How long the first job in line has been there, in seconds."""
    workers: int
    """Those that are alive."""
    rate_in: float
    """Jobs a second over the last minute."""
    rate_out: float
    throughput: Throughput


class StoreOverview(msgspec.Struct):
    """What keeps the jobs, and what an answered enqueue survives."""

    name: str
    version: str
    durability: str
    issues: list[HealthIssue]
    """Only shown to admins."""


class Overview(msgspec.Struct, kw_only=True):
    """All queues at a glance; each bucket of `throughput` is `bucket` seconds, the last one now."""

    now: float
    bucket: int
    complete: bool
    """Whether the journal has been read to its end; if not, ask again."""
    store: StoreOverview
    workers: int
    """Those that are alive, each counted once however many queues it works for."""
    queues: list[QueueOverview]


class Me(msgspec.Struct, kw_only=True):
    """Who the service takes the caller for, and what it may."""

    tenant: str
    name: str
    scopes: list[Scope]
    queues: list[str] | None
    kinds: list[str] | None
    acts: dict[State, list[JobAct]]
    """What it may do to a job of each state."""
    until: float | None
    """When it has to authenticate again."""
    auth: bool
    """Whether callers have to authenticate at all."""
    now: float
    """The store's time."""
    cursor: str
    """The end of the journal."""


@get("/overview", summary="Everything at a glance")
async def overview(caller: NamedDependency[Caller]) -> Overview:
    """Each queue's counts, rates, age and workers; rates are counted from the journal."""
    caller.require(Permission.READ_STATS)
    look = await caller.runtime.overview.of(caller.tenant, caller.run_slow)
    return await caller.run_slow(_overview, caller, look)


@get("/me", summary="Who am I?")
async def me(caller: NamedDependency[Caller]) -> Me:
    """Who the token or key belongs to, what it allows, and the store's time."""
    who = caller.principal
    info = await caller.runtime.call(caller.runtime.store.info)
    return Me(
        tenant=who.tenant,
        name=who.name,
        scopes=sorted(who.scopes),
        queues=sorted(who.queues) if who.queues is not None else None,
        kinds=sorted(who.kinds) if who.kinds is not None else None,
        acts=acts_by_state(who),
        until=who.until,
        auth=caller.runtime.settings.auth,
        now=info.now,
        cursor=info.cursor,
    )


def _overview(caller: Caller, look: OverviewSnapshot) -> Overview:
    queues = [one for one in look.queues if caller.principal.can_see(one)]
    alive = {queue.key: look.alive(queue.key) for queue in queues}
    return Overview(
        now=look.now,
        bucket=caller.runtime.throughput.bucket,
        complete=look.complete,
        store=_store(caller.principal.redact_store(look.store)),
        workers=len(frozenset().union(*alive.values())),
        queues=[_queue_overview(caller, look, queue, len(alive[queue.key])) for queue in queues],
    )


def _store(info: StoreInfo) -> StoreOverview:
    return StoreOverview(info.name, info.version, info.durability, list(info.issues))


def _queue_overview(
    caller: Caller, look: OverviewSnapshot, info: QueueInfo, workers: int
) -> QueueOverview:
    reader = caller.runtime.throughput
    throughput = reader.of(info.key, look.now)
    return QueueOverview(
        queue=info.key.name,
        paused=info.settings.paused,
        counts=dict(info.counts),
        oldest=look.oldest(info.key),
        workers=workers,
        rate_in=reader.rate(throughput.enqueued),
        rate_out=reader.rate(throughput.completed),
        throughput=throughput,
    )


router = Router("/", route_handlers=[overview, me], tags=["Overview"])
