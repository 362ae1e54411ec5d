"""The door of every route: nothing of a request is read before it is known who calls."""

from __future__ import annotations

from typing import Any

from litestar.handlers import BaseRouteHandler

from ackline.service.auth.base import Authenticator, Connection
from ackline.service.caller import Principal
from ackline.service.limits import Limits
from ackline.service.limits.seats import take_seat
from ackline.service.problems import Forbidden, Unauthorized
from ackline.service.streams import TICKET, is_stream

OPEN: dict[str, Any] = {"auth": "none"}
"""The `opt` of routes for everyone. Such a route tells nothing about any tenant."""

HALF_OPEN: dict[str, Any] = {"auth": "optional"}
"""The `opt` of routes that tell more to those who are known."""


class Guard:
    """Finds out who calls, for all routes but those that say that they are open.

    It is also where limits are asked: whoever is over one costs no more than this look.
    """

    def __init__(self, authenticator: Authenticator, limits: Limits) -> None:
        self._authenticator = authenticator
        self._limits = limits

    async def __call__(self, connection: Connection, handler: BaseRouteHandler) -> None:
        connection.scope["user"] = None
        rule = handler.opt.get("auth")
        if rule == "none":
            return
        try:
            principal = connection.scope["user"] = await self._recognize(connection)
        except (Unauthorized, Forbidden):
            if rule != "optional" or "authorization" in connection.headers:
                raise
            return
        self._limits.admit_request(principal.tenant)
        if is_stream(handler):
            take_seat(self._limits, principal.tenant, connection.scope)

    async def _recognize(self, connection: Connection) -> Principal:
        address = connection.client.host if connection.client is not None else ""
        if not self._authenticator.knows(connection):
            self._limits.require_trust(address)
        try:
            return await self._authenticator.authenticate(connection)
        except Unauthorized:
            if "authorization" in connection.headers or TICKET in connection.query_params:
                self._limits.note_failure(address)
            raise
