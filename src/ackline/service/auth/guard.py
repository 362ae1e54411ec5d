"""The guard of every route: nothing of a request is read before its caller is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from litestar.handlers import BaseRouteHandler

from ackline.service.auth.base import Authenticator, Connection
from ackline.service.auth.principal import Principal
from ackline.service.limits import Limits
from ackline.service.limits.seats import take_seat
from ackline.service.problems import Forbidden, Unauthorized
from ackline.service.streams import TICKET, is_stream

if TYPE_CHECKING:
    from ackline.service.runtime import Runtime

OPEN: dict[str, Any] = {"auth": "none"}
"""The `opt` of routes without authentication. Such a route reveals nothing about any tenant."""

HALF_OPEN: dict[str, Any] = {"auth": "optional"}
"""The `opt` of routes that reveal more to authenticated callers."""

SETTLES: dict[str, Any] = {"pace": "never refused"}
"""The `opt` of routes that settle jobs or extend leases: counted, but never refused as too soon.

A finished job that cannot be settled would run again; and the limit on claims bounds these too.
"""

PACED_BY_ITSELF: dict[str, Any] = {"pace": "by itself"}
"""The `opt` of a route that checks the rate limit itself, because it depends on the body."""


async def guard(connection: Connection, handler: BaseRouteHandler) -> None:
    """Identify the caller, for all routes except those marked as open.

    Limits are checked here too, so that a caller over its limit costs no more than this check.
    """
    connection.scope["user"] = None
    rule = handler.opt.get("auth")
    if rule == "none":
        return
    runtime: Runtime = connection.app.state.runtime
    limits = runtime.limits
    try:
        principal = await _recognize(connection, runtime.authenticator, limits)
    except (Unauthorized, Forbidden):
        if rule != "optional" or "authorization" in connection.headers:
            raise
        return
    connection.scope["user"] = principal
    pace = handler.opt.get("pace")
    if pace is None:
        limits.admit_request(principal.tenant)
    elif pace == SETTLES["pace"]:
        limits.count_request(principal.tenant)
    if is_stream(handler):
        take_seat(limits, principal.tenant, connection.scope)


async def _recognize(
    connection: Connection, authenticator: Authenticator, limits: Limits
) -> Principal:
    address = connection.client.host if connection.client is not None else ""
    if not authenticator.knows(connection):
        limits.require_trust(address)
    try:
        return await authenticator.authenticate(connection)
    except Unauthorized:
        if "authorization" in connection.headers or TICKET in connection.query_params:
            limits.note_failure(address)
        raise
