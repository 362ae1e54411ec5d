"""The door of every route: nothing of a request is read before it is known who calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from litestar.handlers import BaseRouteHandler

from ackline.service.auth.base import Authenticator, Connection
from ackline.service.caller import Principal
from ackline.service.limits import Limits
from ackline.service.limits.seats import take_seat
from ackline.service.problems import Forbidden, Unauthorized
from ackline.service.streams import TICKET, is_stream

if TYPE_CHECKING:
    from ackline.service.runtime import Runtime

OPEN: dict[str, Any] = {"auth": "none"}
"""The `opt` of routes for everyone. Such a route tells nothing about any tenant."""

HALF_OPEN: dict[str, Any] = {"auth": "optional"}
"""The `opt` of routes that tell more to those who are known."""

SETTLES: dict[str, Any] = {"pace": "never refused"}
"""The `opt` of routes that settle and hold claimed jobs: they are counted, but never too soon.

What is done and cannot be settled would be done again; and claims are what bounds these.
"""

PACED_BY_ITSELF: dict[str, Any] = {"pace": "by itself"}
"""The `opt` of a route that has to read its request to know whether it is too soon."""


async def guard(connection: Connection, handler: BaseRouteHandler) -> None:
    """Find out who calls, for all routes but those that say that they are open.

    It is also where limits are asked: whoever is over one costs no more than this look.
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
