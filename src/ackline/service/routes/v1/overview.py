"""The overview of all queues, and the caller's own identity."""

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
    """The overview of a queue."""

    queue: str
    paused: bool
    counts: dict[State, int]
    oldest: float | None
    """How long the next job has been queued, in seconds."""
    workers: int
    """Workers that are alive."""
    rate_in: float
    """Jobs per second over the last minute."""
    rate_out: float
    throughput: Throughput


class StoreOverview(msgspec.Struct):
    """The store, and how durable an enqueue is."""

    name: str
    version: str
    durability: str
    issues: list[HealthIssue]
    """Only for admins."""


class Overview(msgspec.Struct, kw_only=True):
    """The overview of all queues; each bucket of `throughput` has `bucket` seconds."""

    now: float
    bucket: int
    complete: bool
    """Whether the journal was read to its end; if not, ask again."""
    store: StoreOverview
    workers: int
    """Workers that are alive, each counted once for all its queues."""
    queues: list[QueueOverview]


class Me(msgspec.Struct, kw_only=True):
    """The authenticated identity and its permissions."""

    tenant: str
    name: str
    scopes: list[Scope]
    queues: list[str] | None
    kinds: list[str] | None
    acts: dict[State, list[JobAct]]
    """The acts that it may do on a job of each state."""
    until: float | None
    """When it has to authenticate again."""
    auth: bool
    """Whether callers have to authenticate."""
    now: float
    """The store's time."""
    cursor: str
    """The end of the journal."""


@get("/overview", summary="Overview of all queues")
async def get_overview(caller: NamedDependency[Caller]) -> Overview:
    """The counts, rates, age and workers of each queue; rates are computed from the journal."""
    caller.require(Permission.READ_STATS)
    snapshot = await caller.runtime.overview.of(caller.tenant, caller.run_slow)
    return await caller.run_slow(_overview, caller, snapshot)


@get("/me", summary="Show the caller's identity")
async def get_me(caller: NamedDependency[Caller]) -> Me:
    """The identity of the token or API key, what it allows, and the store's time."""
    principal = caller.principal
    info = await caller.runtime.call(caller.runtime.store.info)
    return Me(
        tenant=principal.tenant,
        name=principal.name,
        scopes=sorted(principal.scopes),
        queues=sorted(principal.queues) if principal.queues is not None else None,
        kinds=sorted(principal.kinds) if principal.kinds is not None else None,
        acts=acts_by_state(principal),
        until=principal.until,
        auth=caller.runtime.settings.auth,
        now=info.now,
        cursor=info.cursor,
    )


def _overview(caller: Caller, snapshot: OverviewSnapshot) -> Overview:
    queues = [one for one in snapshot.queues if caller.principal.can_see(one)]
    alive = {queue.key: snapshot.alive(queue.key) for queue in queues}
    return Overview(
        now=snapshot.now,
        bucket=caller.runtime.throughput.bucket,
        complete=snapshot.complete,
        store=_store(caller.principal.redact_store(snapshot.store)),
        workers=len(frozenset().union(*alive.values())),
        queues=[
            _queue_overview(caller, snapshot, queue, len(alive[queue.key])) for queue in queues
        ],
    )


def _store(info: StoreInfo) -> StoreOverview:
    return StoreOverview(info.name, info.version, info.durability, list(info.issues))


def _queue_overview(
    caller: Caller, snapshot: OverviewSnapshot, info: QueueInfo, workers: int
) -> QueueOverview:
    reader = caller.runtime.throughput
    throughput = reader.of(info.key, snapshot.now)
    return QueueOverview(
        queue=info.key.name,
        paused=info.settings.paused,
        counts=dict(info.counts),
        oldest=snapshot.oldest(info.key),
        workers=workers,
        rate_in=reader.rate(throughput.enqueued),
        rate_out=reader.rate(throughput.completed),
        throughput=throughput,
    )


router = Router("/", route_handlers=[get_overview, get_me], tags=["Overview"])
