"""The application: every route, its dependencies, and how errors are answered."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

from litestar import Litestar, Request, Response, Router
from litestar.di import Provide
from litestar.types import ASGIApp

from ackline.service.auth.caller import Caller
from ackline.service.auth.guard import authenticate_request
from ackline.service.http.body_memory import TrackBodies
from ackline.service.http.paths import KeepSegments, OmitHeadBody, prepare
from ackline.service.http.problems import Unauthorized, to_response
from ackline.service.http.request_body import PAYLOAD_OVERHEAD, ServiceRequest
from ackline.service.limits.stream_slots import ReleaseSlots
from ackline.service.metrics import MeasureRequests
from ackline.service.routes import health, keys
from ackline.service.routes.openapi import openapi_config
from ackline.service.routes.simple import dead_letters, messages
from ackline.service.routes.v1 import (
    analytics,
    bulk,
    claims,
    enqueue,
    error_groups,
    events,
    import_export,
    jobs,
    overview,
    queues,
    schedules,
    search,
    settle,
    store,
    webhooks,
)
from ackline.service.runtime import Runtime
from ackline.service.settings import Settings
from ackline.service.ui import api_docs, dashboard


def create_app(settings: Settings | None = None, runtime: Runtime | None = None) -> ASGIApp:
    """The service as an ASGI application.

    >>> app = create_app(Settings(store="memory://"))
    """
    runtime = runtime or Runtime.from_settings(settings or Settings())
    return with_runtime(create_routes(runtime.settings), runtime)


def create_routes(settings: Settings) -> Litestar:
    """All routes, without a runtime: see `with_runtime`."""
    return Litestar(
        route_handlers=[_routes(settings), health.router, dashboard.router],
        dependencies={
            "runtime": Provide(_runtime, sync_to_thread=False),
            "caller": Provide(_caller, sync_to_thread=False),
        },
        exception_handlers={Exception: to_response},
        before_request=_before_request,
        lifespan=[_lifespan],
        request_class=ServiceRequest,
        request_max_body_size=_max_body_size(settings),
        openapi_config=openapi_config(settings.base),
        logging_config=None,
        debug=False,
    )


async def _before_request(request: Request[Any, Any, Any]) -> Response[None] | None:
    """Authenticate the caller and refuse what the route would ignore, before the body is read.

    Litestar's own `guards` would copy the route's handler for each request.
    """
    await authenticate_request(request, request.route_handler)
    return await prepare(request)


def with_runtime(routes: Litestar, runtime: Runtime) -> ASGIApp:
    """The application that serves this runtime; the routes were created from its settings."""
    routes.state.runtime = runtime
    tracked = OmitHeadBody(ReleaseSlots(TrackBodies(routes, runtime.body_memory), runtime.limits))
    return KeepSegments(MeasureRequests(tracked, runtime.metrics.requests))


class _SharedRouter(Router):
    """A router that is not copied: Litestar copies all routes below a router to register it."""

    def __deepcopy__(self, _memo: object) -> Self:
        return self


def _routes(settings: Settings) -> Router:
    batch_routers = [enqueue.batch_router, settle.router, store.router]
    with_large_bodies = _SharedRouter(
        "/", route_handlers=batch_routers, request_max_body_size=settings.max_body
    )
    core = [queues, enqueue, jobs, claims, bulk, import_export, schedules, events, keys]
    views = [overview, error_groups, search, analytics]
    integration = [webhooks]
    modules = (*core, *views, *integration)
    v1 = _SharedRouter(
        "/v1", route_handlers=[*(module.router for module in modules), with_large_bodies]
    )
    simple = [messages, dead_letters, keys, api_docs]
    return _SharedRouter(
        settings.base or "/", route_handlers=[v1, *(module.router for module in simple)]
    )


def _max_body_size(settings: Settings) -> int:
    """The largest body that a request about one job can need."""
    return min(settings.max_body, settings.max_payload + PAYLOAD_OVERHEAD)


def _runtime(request: Request[Any, Any, Any]) -> Runtime:
    runtime: Runtime = request.app.state.runtime
    return runtime


def _caller(request: Request[Any, Any, Any]) -> Caller:
    # Not by the dependency `runtime`: Litestar would resolve one after the other.
    runtime, principal = _runtime(request), request.scope["user"]
    if principal is None:
        raise Unauthorized("this needs a JWT or an API key: send `Authorization: Bearer …`")
    return Caller(runtime, principal, request.receive, request.scope)


@asynccontextmanager
async def _lifespan(app: Litestar) -> AsyncIterator[None]:
    runtime: Runtime = app.state.runtime
    await runtime.open()
    try:
        yield
    finally:
        await runtime.close()
