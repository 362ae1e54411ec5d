"""The door of every route: nothing of a request is read before it is known who calls."""

from __future__ import annotations

from typing import Any

from litestar.handlers import BaseRouteHandler

from ackline.service.auth.base import Authenticator, Connection
from ackline.service.problems import Forbidden, Unauthorized

OPEN: dict[str, Any] = {"auth": "none"}
"""The `opt` of routes for everyone. Such a route tells nothing about any tenant."""

HALF_OPEN: dict[str, Any] = {"auth": "optional"}
"""The `opt` of routes that tell more to those who are known."""


class Guard:
    """Finds out who calls, for all routes but those that say that they are open."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    async def __call__(self, connection: Connection, handler: BaseRouteHandler) -> None:
        connection.scope["user"] = None
        rule = handler.opt.get("auth")
        if rule == "none":
            return
        try:
            connection.scope["user"] = await self._authenticator.authenticate(connection)
        except (Unauthorized, Forbidden):
            if rule != "optional" or "authorization" in connection.headers:
                raise
