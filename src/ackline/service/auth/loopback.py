"""No auth: for programs of this machine only."""

from __future__ import annotations

import functools
import ipaddress
from urllib.parse import urlsplit

from ackline.service.auth.base import Connection
from ackline.service.auth.principal import ANYONE_HERE, Principal
from ackline.service.problems import Forbidden


class Loopback:
    """Accepts every program on this machine, but no page of a foreign site in its browser."""

    def knows(self, connection: Connection) -> bool:  # noqa: ARG002
        return True

    async def authenticate(self, connection: Connection) -> Principal:
        headers = connection.headers
        if not _is_here(f"//{headers.get('host', '')}"):
            # A foreign name that resolves to this machine: DNS rebinding.
            raise Forbidden("without auth, this service is called by a loopback name only")
        # Older browsers do not send Sec-Fetch-Site, but all send Origin where it matters.
        origin = headers.get("origin")
        foreign = origin is not None and not _is_here(origin)
        if foreign or headers.get("sec-fetch-site") == "cross-site":
            raise Forbidden("without auth, pages of other sites may not call this service")
        return ANYONE_HERE


@functools.lru_cache(maxsize=64)
def _is_here(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
        if host == "localhost" or host.endswith(".localhost"):
            return True
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # such as `[`, or another name
        return False
