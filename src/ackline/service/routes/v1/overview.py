"""The overview: everything at a glance, in one request; and who the caller is."""

from __future__ import annotations

import msgspec
from litestar import Router, get
from litestar.di import NamedDependency

from ackline.job import QueueKey, State
from ackline.service.authorization import Access, Scope
from ackline.service.caller import Caller
from ackline.service.metrics import age_of_first
from ackline.service.pulse import BUCKET, Beats, rate
from ackline.stores.base import QueueInfo, Store, StoreInfo, Trouble


class QueueFigures(msgspec.Struct, kw_only=True):
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
    beats: Beats


class StoreFigures(msgspec.Struct):
    """What keeps the jobs, and what an answered enqueue survives."""

    name: str
    version: str
    durability: str
    troubles: list[Trouble]
    """Only shown to admins."""


class Overview(msgspec.Struct, kw_only=True):
    """All queues at a glance; each bucket of `beats` is `bucket` seconds, the last one now."""

    now: float
    bucket: int
    complete: bool
    """Whether the journal has been read to its end; if not, ask again."""
    store: StoreFigures
    workers: int
    """Those that are alive, each counted once however many queues it works for."""
    queues: list[QueueFigures]


class Me(msgspec.Struct, kw_only=True):
    """Who the service takes the caller for, and what it may."""

    tenant: str
    name: str
    scopes: list[Scope]
    queues: list[str] | None
    kinds: list[str] | None
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
    caller.require(Access.READ_FIGURES)
    return await caller.slowly(_overview, caller)


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
        until=who.until,
        auth=caller.runtime.settings.auth,
        now=info.now,
        cursor=info.cursor,
    )


def _overview(caller: Caller) -> Overview:
    runtime = caller.runtime
    info = runtime.store.info()
    complete = runtime.pulse.catch_up(info.now)
    queues = [one for one in runtime.store.describe(caller.tenant) if caller.may_see(one.key.name)]
    living = {queue.key: _living(runtime.store, queue.key, info.now) for queue in queues}
    return Overview(
        now=info.now,
        bucket=BUCKET,
        complete=complete,
        store=_store(info, caller.may(Access.READ_TROUBLES)),
        workers=len(frozenset().union(*living.values())),
        queues=[_figures(caller, queue, len(living[queue.key]), info.now) for queue in queues],
    )


def _store(info: StoreInfo, admin: bool) -> StoreFigures:
    troubles = list(info.troubles) if admin else []
    return StoreFigures(info.name, info.version, info.durability, troubles)


def _living(store: Store, key: QueueKey, now: float) -> frozenset[str]:
    return frozenset(worker.beat.id for worker in store.workers(key) if worker.expires_at > now)


def _figures(caller: Caller, info: QueueInfo, workers: int, now: float) -> QueueFigures:
    runtime, key = caller.runtime, info.key
    beats = runtime.pulse.beats(key, now)
    return QueueFigures(
        queue=key.name,
        paused=info.settings.paused,
        counts=dict(info.counts),
        oldest=age_of_first(runtime.store, info, now) if info.counts[State.QUEUED] else None,
        workers=workers,
        rate_in=rate(beats.entered),
        rate_out=rate(beats.completed),
        beats=beats,
    )


router = Router("/", route_handlers=[overview, me], tags=["Overview"])
