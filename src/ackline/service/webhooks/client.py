"""Calls receivers: at a checked address, within a time limit, without redirects."""

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
"""Maximum bytes of a response to read, so that the connection can be reused; none are kept."""

MAX_ADDRESSES = 3
"""Maximum number of addresses of a host to try."""

KEEPALIVE_SECONDS = 10.0
"""Seconds that an idle connection is kept open."""

MAX_POOLS = 100
"""Maximum number of receivers with open connections."""

NETWORK_ERRORS = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError)


class Unreachable(Exception):
    """The receiver did not answer; a retry may succeed."""


class WebhookResponse(msgspec.Struct, frozen=True):
    """The response of a receiver."""

    status: int
    retry_after: float | None


class CheckedNetwork(httpcore.AnyIOBackend):
    """Connects only to addresses that the policy allows.

    A name is resolved once per connection, and the checked address is used: resolving it again
    could lead elsewhere. The request and the TLS handshake still have the name.
    """

    def __init__(self, policy: DestinationPolicy, resolver: Resolve | None = None) -> None:
        self._policy = policy
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
        # All of them: a name with public and private addresses cannot be trusted.
        for address in addresses:
            self._policy.require_address(host, address)
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
        raise DestinationRefused(f"{path} is not a network address")


class ConnectionPools:
    """Reusable connections, in a pool for each receiver.

    In one pool for all, the cost of a request would grow with the square of the connections.
    """

    def __init__(self, settings: WebhookSettings, network: CheckedNetwork) -> None:
        self._context = ssl.create_default_context(cafile=settings.ca_file)
        self._max_connections = settings.concurrency
        self._network = network
        self._pools: OrderedDict[str, httpcore.AsyncConnectionPool] = OrderedDict()

    def pool(self, origin: str) -> httpcore.AsyncConnectionPool:
        """The pool of a receiver."""
        pool = self._pools.get(origin)
        if pool is None:
            pool = self._pools[origin] = httpcore.AsyncConnectionPool(
                ssl_context=self._context,
                network_backend=self._network,
                max_connections=self._max_connections,
                keepalive_expiry=KEEPALIVE_SECONDS,
            )
        self._pools.move_to_end(origin)
        return pool

    async def close_idle(self) -> None:
        """Close the least recently used pools, if there are too many."""
        for origin in list(self._pools)[: max(0, len(self._pools) - MAX_POOLS)]:
            if all(connection.is_idle() for connection in self._pools[origin].connections):
                await self._pools.pop(origin).aclose()

    async def close(self) -> None:
        """Close all connections."""
        while self._pools:
            await self._pools.popitem()[1].aclose()


class WebhookClient:
    """Posts messages to receivers, on one event loop."""

    def __init__(self, settings: WebhookSettings, resolver: Resolve | None = None) -> None:
        self._policy = DestinationPolicy(settings)
        self._timeout = settings.timeout
        self._pools = ConnectionPools(settings, CheckedNetwork(self._policy, resolver))

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> WebhookResponse:
        """Post a message; any status is a response, and redirects are not followed.

        Raises `DestinationRefused` or `Unreachable`.
        """
        self._policy.require_url(url)
        try:
            async with asyncio.timeout(self._timeout):
                return await self._post(url, headers, body)
        except TimeoutError:
            raise Unreachable(f"no answer within {self._timeout:g} s") from None
        except NETWORK_ERRORS as error:
            raise Unreachable(f"{type(error).__name__}: {error}") from None

    async def _post(self, url: str, headers: Mapping[str, str], body: bytes) -> WebhookResponse:
        parts = urlsplit(url)
        # Set here because an IPv6 address needs its brackets.
        host = {"host": parts.netloc}
        lines = [(name.encode(), value.encode()) for name, value in {**host, **headers}.items()]
        pool = self._pools.pool(f"{parts.scheme}://{parts.netloc}")
        await self._pools.close_idle()
        async with pool.stream("POST", url, headers=lines, content=body) as response:
            size = 0
            async for chunk in response.aiter_stream():
                size += len(chunk)
                if size > MAX_RESPONSE_BYTES:
                    break
            return WebhookResponse(response.status, _retry_after(response.headers))

    async def close(self) -> None:
        """Close all connections."""
        await self._pools.close()


def _retry_after(headers: list[tuple[bytes, bytes]]) -> float | None:
    seconds = next((value for name, value in headers if name.lower() == b"retry-after"), b"")
    # A date is also allowed there; then the usual backoff is used.
    return float(seconds) if seconds.isdigit() and len(seconds) < 10 else None
