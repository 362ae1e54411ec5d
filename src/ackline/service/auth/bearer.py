"""Authentication by a token, an API key, or a ticket for a stream."""

from __future__ import annotations

import asyncio

from ackline.service.auth.api_keys import PREFIX, ApiKeyVerifier, read_key
from ackline.service.auth.authenticator import Connection
from ackline.service.auth.credentials import ApiKey
from ackline.service.auth.jwt_verifier import JwtVerifier
from ackline.service.auth.principal import Principal
from ackline.service.auth.tickets import redeem
from ackline.service.http.problems import Unauthorized
from ackline.service.http.sse import TICKET_PARAMETER, is_event_stream
from ackline.service.settings import Settings
from ackline.stores.contract import Store


class BearerAuth:
    """Accepts callers with a valid token, API key or ticket."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._store = store
        self._tokens = JwtVerifier(settings.issuers)
        self._keys = ApiKeyVerifier(settings.api_keys, self._look if settings.stored_keys else None)

    def is_known(self, connection: Connection) -> bool:
        credential = _credential(connection)
        return self._checker(credential).is_cached(credential) if credential else False

    async def authenticate(self, connection: Connection) -> Principal:
        credential = _credential(connection)
        if credential is None:
            return await self._by_ticket(connection)
        if not credential:
            raise Unauthorized("send `Authorization: Bearer …` with a token or an API key")
        return await self._checker(credential).verify(credential)

    def _checker(self, credential: str) -> ApiKeyVerifier | JwtVerifier:
        return self._keys if credential.startswith(PREFIX) else self._tokens

    async def _by_ticket(self, connection: Connection) -> Principal:
        ticket = connection.query_params.get(TICKET_PARAMETER)
        if ticket is None or not is_event_stream(connection.route_handler):
            raise Unauthorized("this needs a token or an API key: send `Authorization: Bearer …`")
        return await asyncio.to_thread(redeem, self._store, ticket)

    async def _look(self, id: str) -> ApiKey | None:
        return await asyncio.to_thread(read_key, self._store, id)


def _credential(connection: Connection) -> str | None:
    """The token or key in the header; None without a header, empty if it is not a bearer header."""
    header = connection.headers.get("authorization")
    if header is None:
        return None
    scheme, _, credential = header.partition(" ")
    return credential.strip() if scheme.lower() == "bearer" else ""
