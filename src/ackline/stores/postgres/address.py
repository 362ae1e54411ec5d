"""Read `postgresql://user@host/database?schema=ackline`."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ackline.errors import ConfigError

LONGEST_SCHEMA = 63
"""Characters of a schema's name; PostgreSQL itself cuts names at 63 bytes."""


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Which database and schema, and how to talk to the server."""

    conninfo: str
    schema: str = "ackline"
    migrate: bool = True
    """Whether to bring an older schema to this release's when the store opens."""
    notify: bool = True
    """Whether sessions last: no behind PgBouncer in transaction mode, where listeners poll."""
    connections: int = 10
    """How many connections one process uses at most, beside one that listens."""
    timeout: float = 10.0
    """Seconds to wait for a connection."""

    @property
    def location(self) -> str:
        """Where it is; never the password."""
        parts = conninfo_to_dict(self.conninfo)
        host, port = parts.get("host") or "localhost", parts.get("port") or "5432"
        database = parts.get("dbname") or parts.get("user") or ""
        return f"{host}:{port}/{database}, schema {self.schema}"

    def __str__(self) -> str:
        return f"postgresql at {self.location}"


def read_address(url: str) -> Address:
    """Read a URL; a mistake in it raises ConfigError that says which."""
    parts = urlsplit(url)
    given: dict[str, object] = {}
    others: list[tuple[str, str]] = []
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name in _OPTIONS:
            given[name] = _OPTIONS[name](name, value)
        else:
            others.append((name, value))
    plain = urlunsplit(
        ("postgresql", parts.netloc, parts.path, urlencode(others, quote_via=quote), "")
    )
    try:
        # Also reads it, so that a mistake is told here.
        conninfo = make_conninfo(plain)
    except psycopg.Error as error:
        known = ", ".join(sorted(_OPTIONS))
        raise ConfigError(
            f"{error}. Beside the parameters of libpq, a postgresql URL knows {known}"
        ) from None
    return Address(conninfo=conninfo, **given)  # type: ignore[arg-type]


def _yes(name: str, value: str) -> bool:
    if value not in ("yes", "no"):
        raise ConfigError(f"{name} must be yes or no, not {value!r}")
    return value == "yes"


def _schema(name: str, value: str) -> str:
    if not re.fullmatch(rf"(?!pg_)[A-Za-z0-9_.\-]{{1,{LONGEST_SCHEMA}}}", value):
        raise ConfigError(
            f"{name} must be 1 to {LONGEST_SCHEMA} letters, digits, '_', '-' or '.', and not "
            f"begin with pg_, not {value!r}"
        )
    return value


def _connections(name: str, value: str) -> int:
    if not value.isdigit() or not 1 <= int(value) <= 1000:
        raise ConfigError(f"{name} must be a whole number from 1 to 1000, not {value!r}")
    return int(value)


def _seconds(name: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 3600:
        raise ConfigError(f"{name} must be seconds above zero, not {value!r}")
    return seconds


_OPTIONS: dict[str, Callable[[str, str], object]] = {
    "schema": _schema,
    "migrate": _yes,
    "notify": _yes,
    "connections": _connections,
    "timeout": _seconds,
}
