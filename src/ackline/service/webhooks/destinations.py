"""Which addresses webhooks may call: public ones, and those that the settings allow."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from typing import Any
from urllib.parse import urlsplit

from ackline.service.webhooks.settings import WebhookSettings

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
LookUp = Callable[..., Sequence[tuple[Any, ...]]]

RESOLVE_TIMEOUT = 5.0
"""Seconds to resolve a name."""

MAX_RESOLVING = 256
"""Maximum number of names to resolve at the same time, each in a thread."""

NOT_PUBLIC = tuple(
    map(
        ipaddress.ip_network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
            "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16",
            "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
            # Of the allocated IPv6 addresses: tunnels to IPv4, and documentation.
            "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
        ),
    )
)  # fmt: skip
"""Listed here because `is_global` differs between versions of Python."""

PUBLIC_IPV6 = ipaddress.ip_network("2000::/3")
"""The public addresses of IPv6, without mapped IPv4, NAT64, local and multicast addresses."""


class DestinationRefused(Exception):
    """The receiver may not be called; a retry would not help."""


class DestinationPolicy:
    """Decides what may be called, by the settings."""

    def __init__(self, settings: WebhookSettings) -> None:
        self._settings = settings
        self._networks = [ipaddress.ip_network(network) for network in settings.networks]

    def require_url(self, url: str) -> None:
        """Refuse a scheme or port that is not allowed."""
        parts = urlsplit(url)
        if parts.scheme != "https" and not self._settings.plain_http:
            raise DestinationRefused(
                "only https:// may be called, unless the setting plain_http is true"
            )
        port = parts.port or (443 if parts.scheme == "https" else 80)
        if self._settings.ports and port not in self._settings.ports:
            raise DestinationRefused(
                f"port {port} may not be called; the setting ports lists those that may"
            )

    def require_address(self, host: str, address: str) -> None:
        """Refuse an address that is neither public nor in an allowed network."""
        found = ipaddress.ip_address(address)
        if not is_public(found) and not any(found in network for network in self._networks):
            raise DestinationRefused(
                f"{host} is not a public address; the setting networks lists what else is allowed"
            )


def is_public(address: Address) -> bool:
    """Whether an address is on the public internet."""
    if address.version == 6 and address not in PUBLIC_IPV6:
        return False
    return not any(address in network for network in NOT_PUBLIC)


class Resolver:
    """Resolves names in its own threads, so that a slow name delays nothing else.

    A thread cannot be stopped while the system resolves a name. After the time limit it is left
    running, and requests for the same name wait for it instead of starting another.
    """

    def __init__(self, look_up: LookUp = socket.getaddrinfo, timeout: float = RESOLVE_TIMEOUT):
        self._look_up = look_up
        self._timeout = timeout
        self._lock = threading.Lock()
        self._in_progress: dict[tuple[str, int], Future[list[str]]] = {}

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """All addresses of a host."""
        answer = asyncio.wrap_future(self._start(host, port))
        try:
            async with asyncio.timeout(self._timeout):
                return await answer
        except TimeoutError:
            raise OSError(f"{host} could not be resolved within {self._timeout:g} s") from None

    def _start(self, host: str, port: int) -> Future[list[str]]:
        with self._lock:
            found = self._in_progress.get((host, port))
            if found is not None:
                return found
            if len(self._in_progress) >= MAX_RESOLVING:
                raise OSError(f"{host} could not be resolved: too many other names are pending")
            future: Future[list[str]] = Future()
            # Running futures cannot be cancelled: several deliveries may wait for this one.
            future.set_running_or_notify_cancel()
            threading.Thread(
                target=self._run, args=(host, port, future), name="ackline resolve", daemon=True
            ).start()
            self._in_progress[host, port] = future
        return future

    def _run(self, host: str, port: int, future: Future[list[str]]) -> None:
        addresses: list[str] = []
        failure: Exception | None = None
        try:
            entries = self._look_up(host, port, type=socket.SOCK_STREAM)
            addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
        except Exception as error:
            failure = error
        with self._lock:
            del self._in_progress[host, port]
        if failure is None:
            future.set_result(addresses)
        else:
            future.set_exception(failure)
