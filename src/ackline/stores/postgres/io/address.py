"""Read `postgresql://user@host/database?schema=ackline`."""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ackline.core.errors import ConfigError
from ackline.stores.shared.url_options import (
    OptionParser,
    parse_bool,
    parse_choice,
    parse_int,
    parse_options,
    parse_seconds,
)

Pooler = Literal["none", "transaction"]

LONGEST_SCHEMA = 63
"""Characters of a schema's name; PostgreSQL itself cuts names at 63 bytes."""


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Which database and schema, and how to talk to the server."""

    conninfo: str
    schema: str = "ackline"
    migrate: bool = True
    """Whether to bring an older schema to this release's when the store opens."""
    pooler: Pooler = "none"
    """`transaction`: a pooler like PgBouncer gives each transaction another session."""
    prepare: bool = False
    """Whether the pooler keeps prepared statements, as PgBouncer does from 1.21 on."""
    notify: bool = True
    """Whether listeners are woken by NOTIFY; if not, they poll."""
    connections: int = 10
    """The most connections that one process uses, beside one that listens."""
    timeout: float = 10.0
    """Seconds to wait for a connection, and for what another session has locked."""
    alert_after: int = 300
    """Seconds after which a transaction that others leave open is reported."""

    @property
    def keeps_sessions(self) -> bool:
        """Whether a session lasts, so that its settings and its LISTEN stay."""
        return self.pooler == "none"

    @property
    def uses_listen(self) -> bool:
        """Whether listeners are woken by NOTIFY."""
        return self.keeps_sessions and self.notify

    @property
    def uses_prepared(self) -> bool:
        """Whether statements are prepared."""
        return self.keeps_sessions or self.prepare

    @property
    def location(self) -> str:
        """Where it is; never the password."""
        parts = conninfo_to_dict(self.conninfo)
        host, port = parts.get("host") or "localhost", parts.get("port") or "5432"
        database = parts.get("dbname") or parts.get("user") or ""
        return f"{host}:{port}/{database}, schema {self.schema}"

    def __str__(self) -> str:
        return f"postgresql at {self.location}"

    def __repr__(self) -> str:
        return f"<Address {self}>"


def read_address(url: str) -> Address:
    """Read a URL; for a mistake, raises a ConfigError that says what, but never the password."""
    parts = _split(url)
    ours: list[tuple[str, str]] = []
    others: list[tuple[str, str]] = []
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        (ours if name in _OPTIONS else others).append((name, value))
    plain = f"postgresql://{parts.netloc}{parts.path}?{urlencode(others, quote_via=quote)}"
    given = parse_options("postgresql", _OPTIONS, ours)
    return Address(conninfo=_conninfo(plain), **given)  # type: ignore[arg-type]


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _unreadable() from None
    # What follows a character that should have been escaped may be a part of the password.
    astray = parts.fragment or "@" in parts.path or parts.netloc.count("@") > 1
    if astray or "@" in parts.query.partition("=")[0]:
        raise _unreadable()
    return parts


def _conninfo(plain: str) -> str:
    try:
        # This also parses it, so that a mistake is found here.
        conninfo = make_conninfo(plain)
    except psycopg.Error as error:
        if "query parameter" not in str(error):
            raise _unreadable() from None
        known = ", ".join(_OPTIONS)
        raise ConfigError(
            f"{str(error).strip()}. Beside the parameters of libpq, a postgresql URL knows {known}"
        ) from None
    ports = str(conninfo_to_dict(conninfo).get("port") or "").split(",")
    if not all(port.isdigit() or not port for port in ports):
        raise _unreadable()
    return conninfo


def _unreadable() -> ConfigError:
    # The URL is not shown: it may contain a password.
    return ConfigError(
        "the URL of the PostgreSQL store cannot be read: postgresql://user:password@host:5432/"
        "database, and in a user or password write / ? # [ ] @ : % as %2F %3F %23 %5B %5D %40 "
        "%3A %25"
    )


def _schema(name: str, value: str) -> str:
    fits = re.fullmatch(rf"(?!pg_)[A-Za-z0-9_.\-]{{1,{LONGEST_SCHEMA}}}", value)
    if not fits or value == "information_schema":
        raise ConfigError(
            f"{name} must be 1 to {LONGEST_SCHEMA} letters, digits, '_', '-' or '.', and none of "
            f"PostgreSQL's own, not {value!r}"
        )
    return value


_OPTIONS: dict[str, OptionParser] = {
    "schema": _schema,
    "migrate": parse_bool,
    "pooler": parse_choice("none", "transaction"),
    "prepare": parse_bool,
    "notify": parse_bool,
    "connections": parse_int(1, 1000),
    "timeout": parse_seconds,
    "alert_after": parse_int(1, 7 * 86400),
}
"""The options of a URL beside the parameters of libpq, and how they are read."""
