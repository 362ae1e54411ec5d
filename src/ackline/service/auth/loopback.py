"""No auth: for programs of this machine only."""

from __future__ import annotations

import functools
import ipaddress
from urllib.parse import urlsplit

from ackline.service.auth.authenticator import Connection
from ackline.service.auth.principal import LOOPBACK_PRINCIPAL, Principal
from ackline.service.http.problems import Forbidden


class LoopbackAuth:
    """Accepts every program on this machine, but no page of a foreign site in its browser."""

    def is_known(self, connection: Connection) -> bool:  # noqa: ARG002
        return True

    async def authenticate(self, connection: Connection) -> Principal:
        headers = connection.headers
        if not _is_loopback_url(f"//{headers.get('host', '')}"):
            # A foreign name that resolves to this machine: DNS rebinding.
            raise Forbidden("without auth, this service is called by a loopback name only")
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
