"""Health checks and metrics."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import MediaType, Request, Response, Router
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from prometheus_client import CONTENT_TYPE_LATEST

from ackline.service.auth.caller import Caller
from ackline.service.auth.guard import NO_AUTH, OPTIONAL_AUTH
from ackline.service.auth.permissions import Permission
from ackline.service.readiness import PUBLIC_CHECKS, Readiness, check_readiness
from ackline.service.routes.decorators import get_or_head
from ackline.service.runtime import Runtime

MEDIA_TYPE = CONTENT_TYPE_LATEST.removesuffix("; charset=utf-8")
"""Litestar adds the character set by itself."""


@get_or_head("/livez", summary="Check liveness", opt=NO_AUTH)
async def get_liveness() -> dict[str, str]:
    """Responds as long as the event loop runs; the store is not checked."""
    return {"status": "alive"}


NOT_READY = ResponseSpec(
    Readiness, description="Not ready; the checks say why.", generate_examples=False
)


@get_or_head("/readyz", summary="Check readiness", opt=OPTIONAL_AUTH, responses={503: NOT_READY})
async def get_readiness(
    request: Request[Any, Any, Any], runtime: NamedDependency[Runtime]
) -> Response[Readiness]:
    """Whether the store is writable, expired leases are recovered, and how durable an enqueue is.

    503 while a check fails, and while the service shuts down. With auth, only authenticated
    callers get the checks, and only admins the health issues of the store.
    """
    readiness, user = await check_readiness(runtime), request.scope["user"]
    if user is None or not user.may(Permission.READ_HEALTH_ISSUES):
        shown = frozenset[str]() if user is None else PUBLIC_CHECKS
        checks = {name: check for name, check in readiness.checks.items() if name in shown}
        readiness = msgspec.structs.replace(readiness, checks=checks)
    return Response(readiness, status_code=200 if readiness.ready else 503)


@get_or_head("/metrics", summary="Metrics for Prometheus", media_type=MediaType.TEXT)
async def get_metrics(caller: NamedDependency[Caller]) -> Response[bytes]:
    """Metrics of the tenant's queues; for operators, of all tenants and of the service."""
    caller.require(Permission.READ_STATS)
    service_metrics = caller.runtime.metrics
    if caller.principal.operator:
        text = await service_metrics.scrape()
    else:
        text = await caller.run_slow(
            service_metrics.text_for, caller.tenant, caller.principal.may_use_queue
        )
    return Response(text, media_type=MEDIA_TYPE)


router = Router("/", route_handlers=[get_liveness, get_readiness, get_metrics], tags=["Health"])
