"""Work: claimed jobs settled and held by workers in any language, many in one request."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import Router
from litestar.di import NamedDependency
from litestar.params import JSONBody

from ackline.core.limits import require_name
from ackline.service.auth.caller import Caller
from ackline.service.auth.guard import NEVER_RATE_LIMITED
from ackline.service.auth.permissions import Permission
from ackline.service.delivery.heartbeats import heartbeat
from ackline.service.delivery.settling import (
    OutcomeBody,
    SettleResult,
    settle_all,
    token_from_client,
)
from ackline.service.http.parameters import QueuePath
from ackline.service.http.request_body import BatchBody, Body
from ackline.service.routes.decorators import post
from ackline.stores.contract import Heartbeat, LeaseExtension

MAX_TTL = 3600.0


class SettleBody(BatchBody):
    """What became of claimed jobs."""

    outcomes: list[OutcomeBody]


class SettleResults(msgspec.Struct):
    """One answer for each outcome, in the same order."""

    results: list[SettleResult]


class LeaseExtensionBody(Body):
    """A lease that a worker still needs, and for how long from now."""

    id: str
    token: str
    seconds: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = 30.0


class ExtendBody(BatchBody):
    """Leases to be extended, by a worker that may name itself."""

    leases: list[LeaseExtensionBody]
    worker: str = "http"
    host: str = ""
    pid: Annotated[int, msgspec.Meta(ge=0, le=2**31)] = 0
    concurrency: Annotated[int, msgspec.Meta(ge=0, le=2**31)] = 0
    kinds: list[str] | None = None
    ttl: Annotated[float, msgspec.Meta(ge=0, le=MAX_TTL)] | None = None
    """With it, the worker counts as alive for this many seconds, then as dead; 0 signs it off."""


class ExtendResult(msgspec.Struct):
    """Which leases are lost, and which jobs were asked to stop."""

    lost: list[str]
    cancelled: list[str]


@post(
    "/settle",
    status_code=200,
    summary="Settle jobs",
    opt=NEVER_RATE_LIMITED,
    example={
        "outcomes": [
            {"id": "a", "token": "1794835219916151", "outcome": "complete", "result": {"ok": True}},
            {
                "id": "b",
                "token": "1794835219916152",
                "outcome": "fail",
                "error": {"type": "TimeoutError", "message": "no answer"},
                "delay": 60,
            },
        ]
    },
)
async def settle(
    queue: QueuePath, data: JSONBody[SettleBody], caller: NamedDependency[Caller]
) -> SettleResults:
    """Say what became of claimed jobs: each is done or refused by itself."""
    caller.require_batch(len(data.outcomes))
    line = caller.queue(queue, Permission.SETTLE)
    return SettleResults(await settle_all(caller, line, data.outcomes))


@post(
    "/extend",
    status_code=200,
    summary="Extend leases",
    opt=NEVER_RATE_LIMITED,
    example={
        "leases": [{"id": "a", "token": "1794835219916151", "seconds": 30}],
        "worker": "node-1",
        "ttl": 10,
    },
)
async def extend(
    queue: QueuePath, data: JSONBody[ExtendBody], caller: NamedDependency[Caller]
) -> ExtendResult:
    """A worker's heartbeat: it holds these leases for longer, and learns which it lost."""
    caller.require_batch(len(data.leases))
    require_name("worker", data.worker)
    key = caller.queue(queue, Permission.SETTLE).sync.key
    holds = [
        LeaseExtension(
            held.id, token_from_client(held.token, f"$.leases[{at}].token"), held.seconds
        )
        for at, held in enumerate(data.leases)
    ]
    reply = await caller.runtime.call(heartbeat, caller, key, _heartbeat(data), holds)
    for index, hold in enumerate(holds):
        if index in reply.lost:
            caller.runtime.in_flight.settled(key, hold.id, hold.token)
        else:
            caller.runtime.in_flight.extended(key, hold.id, hold.seconds)
    return ExtendResult(
        [holds[index].id for index in reply.lost], [holds[index].id for index in reply.cancelled]
    )


def _heartbeat(data: ExtendBody) -> Heartbeat:
    """A sign of life; without a `ttl` it is of no worker, and only extends leases."""
    return Heartbeat(
        id=data.worker if data.ttl is not None else "nobody over http",
        host=data.host,
        pid=data.pid,
        started_at=0.0,
        concurrency=data.concurrency,
        kinds=tuple(data.kinds) if data.kinds is not None else None,
        ttl=data.ttl or 0.0,
    )


router = Router("/queues/{queue:str}", route_handlers=[settle, extend], tags=["Work"])
