"""The seam: from a request to a principal."""

from __future__ import annotations

from typing import Any, Protocol

from litestar.connection import ASGIConnection

from ackline.service.caller import Principal

Connection = ASGIConnection[Any, Any, Any, Any]


class Authenticator(Protocol):
    """Says who calls, or raises `Unauthorized` or `Forbidden`."""

    def knows(self, connection: Connection) -> bool:
        """Whether what it shows was believed a short while ago: then it is no guess."""

    async def authenticate(self, connection: Connection) -> Principal: ...
