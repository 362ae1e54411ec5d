"""Settles jobs and extends leases for workers in any language, many in one request."""

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
    """The outcomes of claimed jobs."""

    outcomes: list[OutcomeBody]


class SettleResults(msgspec.Struct):
    """One result per outcome, in the same order."""

    results: list[SettleResult]


class LeaseExtensionBody(Body):
    """A lease to extend, and for how long from now."""

    id: str
    token: str
    seconds: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = 30.0


class ExtendBody(BatchBody):
    """Leases to extend, with the worker's heartbeat."""

    leases: list[LeaseExtensionBody]
    worker: str = "http"
    host: str = ""
    pid: Annotated[int, msgspec.Meta(ge=0, le=2**31)] = 0
    concurrency: Annotated[int, msgspec.Meta(ge=0, le=2**31)] = 0
    kinds: list[str] | None = None
    ttl: Annotated[float, msgspec.Meta(ge=0, le=MAX_TTL)] | None = None
    """How long the worker counts as alive; 0 deregisters it."""


class ExtendResult(msgspec.Struct):
    """Which leases are lost, and for which jobs cancellation was requested."""

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
async def settle_jobs(
    queue: QueuePath, data: JSONBody[SettleBody], caller: NamedDependency[Caller]
) -> SettleResults:
    """Settle claimed jobs; each outcome is applied or refused on its own."""
    caller.require_batch(len(data.outcomes))
    job_queue = caller.queue(queue, Permission.SETTLE)
    return SettleResults(await settle_all(caller, job_queue, data.outcomes))


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
async def extend_leases(
    queue: QueuePath, data: JSONBody[ExtendBody], caller: NamedDependency[Caller]
) -> ExtendResult:
    """Extend leases, and return which are lost; with `ttl`, also record the worker's heartbeat."""
    caller.require_batch(len(data.leases))
    require_name("worker", data.worker)
    key = caller.queue(queue, Permission.SETTLE).sync.key
    extensions = [
        LeaseExtension(
            lease.id, token_from_client(lease.token, f"$.leases[{at}].token"), lease.seconds
        )
        for at, lease in enumerate(data.leases)
    ]
    reply = await caller.runtime.call(heartbeat, caller, key, _heartbeat(data), extensions)
    for index, extension in enumerate(extensions):
        if index in reply.lost:
            caller.runtime.in_flight.settled(key, extension.id, extension.token)
        else:
            caller.runtime.in_flight.extended(key, extension.id, extension.seconds)
    return ExtendResult(
        [extensions[index].id for index in reply.lost],
        [extensions[index].id for index in reply.cancelled],
    )


def _heartbeat(data: ExtendBody) -> Heartbeat | None:
    """The worker's heartbeat; without a `ttl`, leases are only extended."""
    if data.ttl is None:
        return None
    return Heartbeat(
        id=data.worker,
        host=data.host,
        pid=data.pid,
        started_at=0.0,
        concurrency=data.concurrency,
        kinds=tuple(data.kinds) if data.kinds is not None else None,
        ttl=data.ttl,
    )


router = Router("/queues/{queue:str}", route_handlers=[settle_jobs, extend_leases], tags=["Work"])
