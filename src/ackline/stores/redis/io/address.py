"""URLs such as `redis://user:password@host:6379/0?prefix=ackline&durability=everysec`."""

from __future__ import annotations

from typing import Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import msgspec

from ackline.core.errors import ConfigError
from ackline.stores.shared.url_options import (
    OptionParser,
    parse_bool,
    parse_choice,
    parse_file,
    parse_int,
    parse_options,
    parse_seconds,
    parse_text,
)

Mode = Literal["single", "sentinel", "cluster"]
Durability = Literal["none", "everysec", "always"]

DURABILITIES: tuple[Durability, ...] = ("none", "everysec", "always")
"""From the weakest to the strongest."""

_MODES: dict[str, Mode] = {
    "redis": "single",
    "rediss": "single",
    "redis+unix": "single",
    "redis+sentinel": "sentinel",
    "rediss+sentinel": "sentinel",
    "redis+cluster": "cluster",
    "rediss+cluster": "cluster",
}

_PORTS: dict[Mode, int] = {"single": 6379, "sentinel": 26379, "cluster": 6379}


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Which servers to use, and how."""

    mode: Mode
    hosts: tuple[tuple[str, int], ...] = ()
    socket: str | None = None
    username: str | None = None
    password: str | None = None
    database: int = 0
    tls: bool = False
    ca: str | None = None
    """A file with the certificates to trust (default: those of the system)."""
    cert: str | None = None
    key: str | None = None
    """The files of the client's certificate and its key, if the server requires them."""
    service: str = ""
    """The name under which sentinels know the primary."""
    sentinel_user: str | None = None
    sentinel_password: str | None = None
    """The user and the password of the sentinels themselves, if they require them."""
    prefix: str = "ackline"
    timeout: float = 10.0
    """Seconds to wait for an answer of a server."""
    durability: Durability | None = None
    """The durability that the server must have at least, or the store does not open."""
    replicas: int = 0
    """A change is answered only once this many replicas have it."""
    fsync: bool = False
    """A change is answered only once the server has synced it to disk."""

    @property
    def location(self) -> str:
        """Where it is, without the password."""
        location = self.socket or ",".join(f"{host}:{port}" for host, port in self.hosts)
        if self.mode == "sentinel":
            location = f"{self.service}, by the sentinels {location}"
        elif self.mode == "cluster":
            location = f"the cluster {location}"
        return f"{location}, database {self.database}" if self.database else location

    def __str__(self) -> str:
        return f"redis at {self.location}"

    def __repr__(self) -> str:
        return f"<Address {self}>"


def read_address(url: str) -> Address:
    """Parse a URL; raises a ConfigError that says what is wrong with it."""
    parts = _split(url)
    mode = _MODES[parts.scheme]
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    fields = _server_of(parts, mode, options)
    fields |= {
        "mode": mode,
        "username": unquote(parts.username) if parts.username else None,
        "password": unquote(parts.password) if parts.password else None,
        "tls": parts.scheme.startswith("rediss"),
    }
    fields |= parse_options("redis", _OPTIONS, options.items())
    address = Address(**fields)  # type: ignore[arg-type]
    _require_consistent(address)
    return address


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        # A character of the password may end the host part early. The rest of the password, up to
        # its @, is then in the path or after it, and what looks like the host is not one.
        misread = "@" in parts.path and parts.scheme != "redis+unix"
        if not misread and "@" not in parts.netloc and "@" in url:
            misread = not all(_is_host(host) for host in parts.netloc.split(","))
    except ValueError as error:
        if "@" not in url:
            raise ConfigError(f"{url!r} is not a valid URL: {error}") from None
        misread = True
    if misread:
        # The URL is not shown: it may contain a password.
        raise ConfigError(
            "the URL of the Redis store is not valid: in a user or password, write / ? # [ ] @ : "
            "as %2F %3F %23 %5B %5D %40 %3A"
        ) from None
    return parts


def _is_host(text: str) -> bool:
    try:
        parts = urlsplit(f"//{text}")
        return bool(parts.hostname) or not text or parts.port is not None
    except ValueError:
        return False


def _server_of(parts: SplitResult, mode: Mode, options: dict[str, str]) -> dict[str, object]:
    path = unquote(parts.path)
    if parts.scheme == "redis+unix":
        if not path or parts.hostname:
            raise ConfigError("the URL of a Unix socket is redis+unix:///path/to/redis.sock")
        return {"socket": path, "database": _number("db", options.pop("db", "0"))}
    segments = [segment for segment in path.split("/") if segment]
    service = ""
    if mode == "sentinel":
        if not segments:
            raise ConfigError(
                "the name of the primary is missing: redis+sentinel://host:26379/NAME"
            )
        service = segments.pop(0)
    if len(segments) > 1:
        raise ConfigError(f"{path!r} is not a database number: redis://host:6379/0")
    return {
        "hosts": tuple(_hosts(parts.netloc.rpartition("@")[2], _PORTS[mode])),
        "service": service,
        "database": _number("the database", segments[0]) if segments else 0,
    }


def _hosts(text: str, port: int) -> list[tuple[str, int]]:
    hosts = []
    for host in text.split(",") if text else ["localhost"]:
        try:
            parts = urlsplit(f"//{host}")
            hosts.append((parts.hostname or "localhost", parts.port or port))
        except ValueError as error:
            raise ConfigError(f"{host!r} is not a host and port: {error}") from None
    return hosts


def _prefix(option: str, value: str) -> str:
    if not value or any(char in value for char in "{}"):
        raise ConfigError(f"{option} must be a name without braces, not {value!r}")
    return value


_number = parse_int()

_OPTIONS: dict[str, OptionParser] = {
    "prefix": _prefix,
    "durability": parse_choice(*DURABILITIES),
    "replicas": _number,
    "fsync": parse_bool,
    "timeout": parse_seconds,
    "ca": parse_file,
    "cert": parse_file,
    "key": parse_file,
    "sentinel_user": parse_text,
    "sentinel_password": parse_text,
}
"""The options in the query of a URL, and how to parse them."""


def _require_consistent(address: Address) -> None:
    if not address.tls and (address.ca or address.cert or address.key):
        raise ConfigError("ca, cert and key require TLS: use a URL that starts with rediss")
    if address.mode == "cluster" and (address.replicas or address.fsync):
        raise ConfigError("replicas and fsync are not available in a cluster: remove the option")
    if address.mode == "cluster" and address.database:
        raise ConfigError("a cluster only has database 0: remove the number")
