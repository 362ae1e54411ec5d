"""Parse URLs such as `https://jobs.example.com/api?timeout=10&ca=ca.pem`."""

from __future__ import annotations

import ipaddress
from urllib.parse import SplitResult, parse_qsl, urlsplit

import msgspec

from ackline.core.errors import ConfigError
from ackline.stores.shared.url_options import (
    OptionParser,
    parse_bool,
    parse_file,
    parse_options,
    parse_seconds,
)

PORTS = {"http": 80, "https": 443}
BASE = "/api"
"""The default base path of a service."""


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a service is, and how to connect to it; without the token."""

    host: str
    port: int
    tls: bool = False
    base: str = BASE
    timeout: float = 10.0
    """Seconds until an unresponsive service counts as unavailable."""
    ca: str | None = None
    """A file with the certificates to trust; None trusts those of the system."""
    plaintext: bool = False
    """Whether a token may be sent to another machine without encryption."""

    @property
    def location(self) -> str:
        """The URL of the service."""
        scheme = "https" if self.tls else "http"
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == PORTS[scheme] else f":{self.port}"
        return f"{scheme}://{host}{port}{self.base}"

    @property
    def private(self) -> bool:
        """Whether a token is safe here: with TLS, on this machine, or because the URL allows it."""
        return self.tls or self.plaintext or _is_loopback(self.host)


def read_address(url: str) -> Address:
    """Parse a URL; raises a ConfigError that says what is wrong with it."""
    parts = _split(url)
    given: dict[str, object] = {
        "host": parts.hostname or "localhost",
        "port": parts.port or PORTS[parts.scheme],
        "tls": parts.scheme == "https",
        "base": parts.path.rstrip("/") if parts.path else BASE,
    }
    options = parse_qsl(parts.query, keep_blank_values=True)
    address = Address(**given | parse_options("http", _OPTIONS, options))  # type: ignore[arg-type]
    if address.ca and not address.tls:
        raise ConfigError("ca requires TLS: the URL must start with https")
    return address


def _split(url: str) -> SplitResult:
    if "@" in url:
        # The message does not show the URL, which may have a token.
        raise ConfigError(
            "a token does not belong in a URL: pass token=… or set ACKLINE_TOKEN, "
            "and name the service as https://host/api"
        )
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise ConfigError(f"{url!r} is not a valid URL: {error}") from None
    if any(not 32 < ord(char) < 127 for char in parts.netloc + parts.path):
        raise ConfigError(f"{url!r} has characters that are not allowed in a URL")
    return parts


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


_OPTIONS: dict[str, OptionParser] = {
    "timeout": parse_seconds,
    "ca": parse_file,
    "plaintext": parse_bool,
}
"""The options in the query of a URL, with their parsers."""
