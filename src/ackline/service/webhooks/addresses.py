"""Which addresses a webhook may reach: those of the public internet, and what was allowed."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import urlsplit

from ackline.service.webhooks.settings import WebhookSettings

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

NOT_PUBLIC = tuple(
    map(
        ipaddress.ip_network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
            "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16",
            "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
            # Of the IPv6 addresses that are allocated: tunnels to IPv4, and documentation.
            "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
        ),
    )
)  # fmt: skip
"""Written out, because what Python calls global differs between its versions."""

ALLOCATED = ipaddress.ip_network("2000::/3")
"""The only public addresses of IPv6. Mapped IPv4, NAT64, local and multicast are outside."""


class NotAllowed(Exception):
    """The receiver may not be called; trying again would not help."""


class Allowed:
    """Decides by the settings what may be called."""

    def __init__(self, settings: WebhookSettings) -> None:
        self._settings = settings
        self._networks = [ipaddress.ip_network(network) for network in settings.networks]

    def require_url(self, url: str) -> None:
        """Refuse a scheme or a port that is not allowed."""
        parts = urlsplit(url)
        if parts.scheme != "https" and not self._settings.plain_http:
            raise NotAllowed(
                "only https:// may be called, unless the setting plain_http allows http://"
            )
        port = parts.port or (443 if parts.scheme == "https" else 80)
        if self._settings.ports and port not in self._settings.ports:
            raise NotAllowed(
                f"port {port} may not be called; the setting ports lists those that may"
            )

    def require_address(self, host: str, address: str) -> None:
        """Refuse an address that is neither public nor in a network that was allowed."""
        found = ipaddress.ip_address(address)
        if not is_public(found) and not any(found in network for network in self._networks):
            raise NotAllowed(
                f"{host} is not a public address; the setting networks lists what else is allowed"
            )


def is_public(address: Address) -> bool:
    """Whether an address is one of the public internet."""
    if address.version == 6 and address not in ALLOCATED:
        return False
    return not any(address in network for network in NOT_PUBLIC)


async def resolve(host: str, port: int) -> Sequence[str]:
    """All addresses of a host, as the system knows them."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
