"""Calling a receiver: at a checked address, within a time limit, and without redirects."""

from __future__ import annotations

import asyncio
import ssl
import typing
from collections import OrderedDict
from collections.abc import Mapping
from urllib.parse import urlsplit

import httpcore
import msgspec

from ackline.service.webhooks.destinations import (
    DestinationPolicy,
    DestinationRefused,
    Resolve,
    Resolver,
)
from ackline.service.webhooks.settings import WebhookSettings

MAX_RESPONSE_BYTES = 16 * 1024
"""Bytes of an answer that are read, so that the connection can be used again; none are kept."""

MAX_ADDRESSES = 3
"""Addresses of one host that are tried."""

KEEPALIVE_SECONDS = 10.0
"""Seconds that a connection waits for the next message."""

MAX_POOLS = 100
"""Receivers that connections are kept open to."""

NETWORK_ERRORS = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError)


class Unreachable(Exception):
    """The receiver did not answer; it may do so another time."""


class WebhookResponse(msgspec.Struct, frozen=True):
    """What a receiver answered, as far as it matters."""

    status: int
    retry_after: float | None


class CheckedNetwork(httpcore.AnyIOBackend):
    """Connects to addresses that may be called, and to the very ones that were checked.

    A name is resolved once for each connection. Resolving it again after the check
    could lead elsewhere. The request and the TLS handshake still have the name itself.
    """

    def __init__(self, allowed: DestinationPolicy, resolver: Resolve | None = None) -> None:
        self._allowed = allowed
        self._resolve = resolver or Resolver()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: typing.Iterable[typing.Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        addresses = list(await self._resolve(host, port))[:MAX_ADDRESSES]
        # All of them: a name with public and other addresses is not to be trusted.
        for address in addresses:
            self._allowed.require_address(host, address)
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in addresses:
            try:
                return await super().connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except httpcore.ConnectError as error:
                failure = error
        raise failure

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: typing.Iterable[typing.Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        del timeout, socket_options
        raise DestinationRefused(f"{path} is not on a network")


class ConnectionPools:
    """Connections that are used again, in a pool for each receiver.

    One pool for all would be simpler, but there the cost of a request grows with the square of
    the connections.
    """

    def __init__(self, settings: WebhookSettings, network: CheckedNetwork) -> None:
        self._context = ssl.create_default_context(cafile=settings.ca_file)
        self._most = settings.concurrency
        self._network = network
        self._pools: OrderedDict[str, httpcore.AsyncConnectionPool] = OrderedDict()

    def pool(self, origin: str) -> httpcore.AsyncConnectionPool:
        """The pool of one receiver."""
        pool = self._pools.get(origin)
        if pool is None:
            pool = self._pools[origin] = httpcore.AsyncConnectionPool(
                ssl_context=self._context,
                network_backend=self._network,
                max_connections=self._most,
                keepalive_expiry=KEEPALIVE_SECONDS,
            )
        self._pools.move_to_end(origin)
        return pool

    async def close_idle(self) -> None:
        """Close the pools that were not used for longest, if there are too many."""
        for origin in list(self._pools)[: max(0, len(self._pools) - MAX_POOLS)]:
            if all(connection.is_idle() for connection in self._pools[origin].connections):
                await self._pools.pop(origin).aclose()

    async def close(self) -> None:
        """Close all connections."""
        while self._pools:
            await self._pools.popitem()[1].aclose()


class WebhookClient:
    """Posts to receivers; for one event loop."""

    def __init__(self, settings: WebhookSettings, resolver: Resolve | None = None) -> None:
        self._allowed = DestinationPolicy(settings)
        self._timeout = settings.timeout
        self._pools = ConnectionPools(settings, CheckedNetwork(self._allowed, resolver))

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> WebhookResponse:
        """Send a body; any status is an answer, and redirects are not followed.

        Raises `DestinationRefused` or `Unreachable`.
        """
        self._allowed.require_url(url)
        try:
            async with asyncio.timeout(self._timeout):
                return await self._post(url, headers, body)
        except TimeoutError:
            raise Unreachable(f"no answer within {self._timeout:g} s") from None
        except NETWORK_ERRORS as error:
            raise Unreachable(f"{type(error).__name__}: {error}") from None

    async def _post(self, url: str, headers: Mapping[str, str], body: bytes) -> WebhookResponse:
        parts = urlsplit(url)
        # Written here because an IPv6 address needs its brackets.
        host = {"host": parts.netloc}
        lines = [(name.encode(), value.encode()) for name, value in {**host, **headers}.items()]
        pool = self._pools.pool(f"{parts.scheme}://{parts.netloc}")
        await self._pools.close_idle()
        async with pool.stream("POST", url, headers=lines, content=body) as response:
            size = 0
            async for piece in response.aiter_stream():
                size += len(piece)
                if size > MAX_RESPONSE_BYTES:
                    break
            return WebhookResponse(response.status, _retry_after(response.headers))

    async def close(self) -> None:
        """Close all connections."""
        await self._pools.close()


def _retry_after(headers: list[tuple[bytes, bytes]]) -> float | None:
    pause = next((value for name, value in headers if name.lower() == b"retry-after"), b"")
    # A date is also allowed there; then the usual backoff will do.
    return float(pause) if pause.isdigit() and len(pause) < 10 else None
