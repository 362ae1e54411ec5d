"""Read `redis://user:password@host:6379/0?prefix=ackline&durability=everysec`."""

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
    """Which servers, and how to talk to them."""

    mode: Mode
    hosts: tuple[tuple[str, int], ...] = ()
    socket: str | None = None
    username: str | None = None
    password: str | None = None
    database: int = 0
    tls: bool = False
    ca: str | None = None
    """A file with the certificates to trust; None trusts those of the system."""
    cert: str | None = None
    key: str | None = None
    """The files of this client's own certificate, if the server asks for one."""
    service: str = ""
    """The name under which sentinels know the primary."""
    sentinel_user: str | None = None
    sentinel_password: str | None = None
    """The user and password for the sentinels themselves, if they want any."""
    prefix: str = "ackline"
    timeout: float = 10.0
    """Seconds until a server that does not answer counts as gone."""
    durability: Durability | None = None
    """The least that the server must promise, or the store does not open."""
    replicas: int = 0
    """A change is answered only when this many replicas have it."""
    fsync: bool = False
    """A change is answered only when the server has synced it to its disk."""

    @property
    def location(self) -> str:
        """Where it is; never the password."""
        place = self.socket or ",".join(f"{host}:{port}" for host, port in self.hosts)
        if self.mode == "sentinel":
            place = f"{self.service}, by the sentinels {place}"
        elif self.mode == "cluster":
            place = f"the cluster {place}"
        return f"{place}, database {self.database}" if self.database else place

    def __str__(self) -> str:
        return f"redis at {self.location}"

    def __repr__(self) -> str:
        return f"<Address {self}>"


def read_address(url: str) -> Address:
    """Read a URL; for a mistake in it, raises a ConfigError that says what is wrong."""
    parts = _split(url)
    mode = _MODES[parts.scheme]
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    given = _server_of(parts, mode, options)
    given |= {
        "mode": mode,
        "username": unquote(parts.username) if parts.username else None,
        "password": unquote(parts.password) if parts.password else None,
        "tls": parts.scheme.startswith("rediss"),
    }
    given |= parse_options("redis", _OPTIONS, options.items())
    address = Address(**given)  # type: ignore[arg-type]
    _require_consistent(address)
    return address


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        # A character of the password may end the host part early. The rest of the password, up
        # to its @, is then in the path or behind it, and what looks like the host is none.
        astray = "@" in parts.path and parts.scheme != "redis+unix"
        if not astray and "@" not in parts.netloc and "@" in url:
            astray = not all(_is_host(host) for host in parts.netloc.split(","))
    except ValueError as error:
        if "@" not in url:
            raise ConfigError(f"{url!r} cannot be read: {error}") from None
        astray = True
    if astray:
        # The URL is not shown: it may contain a password.
        raise ConfigError(
            "the URL of the Redis store cannot be read: in a user or password, write / ? # [ ] @ : "
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
            raise ConfigError("a Unix socket is redis+unix:///path/to/redis.sock")
        return {"socket": path, "database": _number("db", options.pop("db", "0"))}
    segments = [segment for segment in path.split("/") if segment]
    service = ""
    if mode == "sentinel":
        if not segments:
            raise ConfigError(
                "sentinels know a primary by its name: redis+sentinel://host:26379/NAME"
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
"""The options that a URL's query may have, and how they are read."""


def _require_consistent(address: Address) -> None:
    if not address.tls and (address.ca or address.cert or address.key):
        raise ConfigError("ca, cert and key are for TLS: the URL then starts with rediss")
    if address.mode == "cluster" and (address.replicas or address.fsync):
        raise ConfigError("a cluster cannot wait for replicas or syncs: leave the option out")
    if address.mode == "cluster" and address.database:
        raise ConfigError("a cluster has only database 0: leave the number out")
