"""The interface that finds the principal of a request."""

from __future__ import annotations

from typing import Any, Protocol

from litestar.connection import ASGIConnection

from ackline.service.auth.principal import Principal

Connection = ASGIConnection[Any, Any, Any, Any]


class Authenticator(Protocol):
    """Identifies the caller, or raises `Unauthorized` or `Forbidden`."""

    def is_known(self, connection: Connection) -> bool:
        """Whether these credentials were accepted a short while ago: then they are no guess."""

    async def authenticate(self, connection: Connection) -> Principal: ...
