"""Authentication of requests: by JWT, API key or ticket, or without any on a loopback address."""

from __future__ import annotations

import asyncio
import functools
import ipaddress
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from litestar.connection import ASGIConnection

from ackline.core.errors import ConfigError
from ackline.service.auth.api_keys import PREFIX, ApiKeyVerifier, read_key
from ackline.service.auth.credentials import ApiKey
from ackline.service.auth.jwt_verifier import JwtVerifier
from ackline.service.auth.principal import LOOPBACK_PRINCIPAL, Principal
from ackline.service.auth.tickets import redeem
from ackline.service.http.problems import Forbidden, Unauthorized
from ackline.service.http.sse import TICKET_PARAMETER, is_event_stream
from ackline.stores.contract import Store

if TYPE_CHECKING:
    from ackline.service.settings import Settings

Connection = ASGIConnection[Any, Any, Any, Any]


class Authenticator(Protocol):
    """Identifies the caller of a request, or raises `Unauthorized` or `Forbidden`."""

    def is_known(self, connection: Connection) -> bool:
        """Whether these credentials were accepted recently, so that they cannot be a guess."""

    async def authenticate(self, connection: Connection) -> Principal: ...


class LoopbackAuth:
    """No authentication: accepts programs on this machine, but no pages of other sites."""

    def is_known(self, connection: Connection) -> bool:  # noqa: ARG002
        return True

    async def authenticate(self, connection: Connection) -> Principal:
        headers = connection.headers
        if not _is_loopback_url(f"//{headers.get('host', '')}"):
            # Another name that resolves to this machine: DNS rebinding.
            raise Forbidden("without auth, this service must be called by a loopback name")
        # Older browsers do not send Sec-Fetch-Site, but all send Origin where it matters.
        origin = headers.get("origin")
        foreign = origin is not None and not _is_loopback_url(origin)
        if foreign or headers.get("sec-fetch-site") == "cross-site":
            raise Forbidden("without auth, pages of other sites may not call this service")
        return LOOPBACK_PRINCIPAL


@functools.lru_cache(maxsize=64)
def _is_loopback_url(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
        if host == "localhost" or host.endswith(".localhost"):
            return True
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # such as `[`, or another name
        return False


class BearerAuth:
    """Accepts callers with a valid JWT, API key or ticket."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._store = store
        self._jwts = JwtVerifier(settings.issuers)
        self._keys = ApiKeyVerifier(
            settings.api_keys, self._lookup if settings.stored_keys else None
        )

    def is_known(self, connection: Connection) -> bool:
        credential = _credential(connection)
        return self._verifier(credential).is_cached(credential) if credential else False

    async def authenticate(self, connection: Connection) -> Principal:
        credential = _credential(connection)
        if credential is None:
            return await self._by_ticket(connection)
        if not credential:
            raise Unauthorized("send `Authorization: Bearer …` with a JWT or an API key")
        return await self._verifier(credential).verify(credential)

    def _verifier(self, credential: str) -> ApiKeyVerifier | JwtVerifier:
        return self._keys if credential.startswith(PREFIX) else self._jwts

    async def _by_ticket(self, connection: Connection) -> Principal:
        ticket = connection.query_params.get(TICKET_PARAMETER)
        if ticket is None or not is_event_stream(connection.route_handler):
            raise Unauthorized("this needs a JWT or an API key: send `Authorization: Bearer …`")
        return await asyncio.to_thread(redeem, self._store, ticket)

    async def _lookup(self, id: str) -> ApiKey | None:
        return await asyncio.to_thread(read_key, self._store, id)


def _credential(connection: Connection) -> str | None:
    """The JWT or key in the header; None without a header, empty if the scheme is not Bearer."""
    header = connection.headers.get("authorization")
    if header is None:
        return None
    scheme, _, credential = header.partition(" ")
    return credential.strip() if scheme.lower() == "bearer" else ""


def authenticator_for(settings: Settings, store: Store) -> Authenticator:
    """The authenticator of the settings; without auth, only loopback addresses may be served."""
    if settings.auth:
        return BearerAuth(settings, store)
    if settings.loopback:
        return LoopbackAuth()
    raise ConfigError(
        f"{settings.host or 'every address'} can be reached from other machines, but no auth is "
        "configured.\nCreate an API key with `ackline token create NAME --tenant T --scope "
        "produce` and start with --stored-keys, or list the issuers of JWTs in the file of "
        "--config (docs/guides/auth.md); or bind to 127.0.0.1."
    )
