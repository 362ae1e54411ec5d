"""Authenticates every request, before anything of its body is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from litestar.handlers import BaseRouteHandler

from ackline.service.auth.authenticator import Authenticator, Connection
from ackline.service.auth.principal import Principal
from ackline.service.http.problems import Forbidden, Unauthorized
from ackline.service.http.sse import TICKET_PARAMETER, is_event_stream
from ackline.service.limits.limiter import Limiter
from ackline.service.limits.stream_slots import acquire_stream_slot

if TYPE_CHECKING:
    from ackline.service.runtime import Runtime

NO_AUTH: dict[str, Any] = {"auth": "none"}
"""The `opt` of routes without authentication, which reveal nothing about any tenant."""

OPTIONAL_AUTH: dict[str, Any] = {"auth": "optional"}
"""The `opt` of routes that show more to authenticated callers."""

NEVER_RATE_LIMITED: dict[str, Any] = {"rate_limit": "never"}
"""The `opt` of routes that settle jobs or extend leases: counted, but never refused.

A finished job that cannot be settled would run again; and the limit on claims bounds these too.
"""

OWN_RATE_LIMIT: dict[str, Any] = {"rate_limit": "own"}
"""The `opt` of a route that checks the rate limit itself, because it depends on the body."""


async def authenticate_request(connection: Connection, handler: BaseRouteHandler) -> None:
    """Authenticate the caller, for all routes except those with `NO_AUTH`.

    Rate limits are checked here too, so that a request over the limit costs little.
    """
    connection.scope["user"] = None
    rule = handler.opt.get("auth")
    if rule == "none":
        return
    runtime: Runtime = connection.app.state.runtime
    limits = runtime.limits
    try:
        principal = await _authenticate(connection, runtime.authenticator, limits)
    except (Unauthorized, Forbidden):
        if rule != "optional" or "authorization" in connection.headers:
            raise
        return
    connection.scope["user"] = principal
    rate_limit = handler.opt.get("rate_limit")
    if rate_limit is None:
        limits.admit_request(principal.tenant)
    elif rate_limit == "never":
        limits.count_request(principal.tenant)
    if is_event_stream(handler):
        acquire_stream_slot(limits, principal.tenant, connection.scope)


async def _authenticate(
    connection: Connection, authenticator: Authenticator, limits: Limiter
) -> Principal:
    address = connection.client.host if connection.client is not None else ""
    if not authenticator.is_known(connection):
        limits.require_not_blocked(address)
    try:
        return await authenticator.authenticate(connection)
    except Unauthorized:
        if "authorization" in connection.headers or TICKET_PARAMETER in connection.query_params:
            limits.record_login_failure(address)
        raise
