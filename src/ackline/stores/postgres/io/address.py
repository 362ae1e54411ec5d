"""Parse URLs like `postgresql://user@host/database?schema=ackline`."""

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

MAX_SCHEMA_LENGTH = 63
"""The longest name of a schema; PostgreSQL truncates names to 63 bytes."""


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """A database and schema, and how to use the server."""

    conninfo: str
    schema: str = "ackline"
    migrate: bool = True
    """Whether to migrate an older schema when the store opens."""
    pooler: Pooler = "none"
    """`transaction` if a pooler such as PgBouncer may run each transaction in another session."""
    prepare: bool = False
    """Whether the pooler supports prepared statements, as PgBouncer does since 1.21."""
    notify: bool = True
    """Whether listeners are woken by NOTIFY; if not, they poll."""
    connections: int = 10
    """The most connections of one process, in addition to one that listens."""
    timeout: float = 10.0
    """Seconds to wait for a connection, and for a lock."""
    alert_after: int = 300
    """Seconds after which an open transaction is reported as a health issue."""

    @property
    def keeps_sessions(self) -> bool:
        """Whether a connection keeps its session, with its settings and its LISTEN."""
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
        """Host, port, database and schema, without user and password."""
        parts = conninfo_to_dict(self.conninfo)
        host, port = parts.get("host") or "localhost", parts.get("port") or "5432"
        database = parts.get("dbname") or parts.get("user") or ""
        return f"{host}:{port}/{database}, schema {self.schema}"

    def __str__(self) -> str:
        return f"postgresql at {self.location}"

    def __repr__(self) -> str:
        return f"<Address {self}>"


def read_address(url: str) -> Address:
    """Parse a URL; raises a ConfigError that does not contain the password."""
    parts = _split(url)
    own: list[tuple[str, str]] = []
    others: list[tuple[str, str]] = []
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        (own if name in _OPTIONS else others).append((name, value))
    plain = f"postgresql://{parts.netloc}{parts.path}?{urlencode(others, quote_via=quote)}"
    given = parse_options("postgresql", _OPTIONS, own)
    return Address(conninfo=_conninfo(plain), **given)  # type: ignore[arg-type]


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _unreadable() from None
    # The text after an unescaped character may be a part of the password.
    unescaped = parts.fragment or "@" in parts.path or parts.netloc.count("@") > 1
    if unescaped or "@" in parts.query.partition("=")[0]:
        raise _unreadable()
    return parts


def _conninfo(plain: str) -> str:
    try:
        # This also validates it.
        conninfo = make_conninfo(plain)
    except psycopg.Error as error:
        if "query parameter" not in str(error):
            raise _unreadable() from None
        known = ", ".join(_OPTIONS)
        raise ConfigError(
            f"{str(error).strip()}. In addition to the parameters of libpq, a postgresql URL may "
            f"have {known}"
        ) from None
    ports = str(conninfo_to_dict(conninfo).get("port") or "").split(",")
    if not all(port.isdigit() or not port for port in ports):
        raise _unreadable()
    return conninfo


def _unreadable() -> ConfigError:
    # Without the URL, which may contain a password.
    return ConfigError(
        "the URL of the PostgreSQL store cannot be read: postgresql://user:password@host:5432/"
        "database, and in a user or password write / ? # [ ] @ : % as %2F %3F %23 %5B %5D %40 "
        "%3A %25"
    )


def _schema(name: str, value: str) -> str:
    fits = re.fullmatch(rf"(?!pg_)[A-Za-z0-9_.\-]{{1,{MAX_SCHEMA_LENGTH}}}", value)
    if not fits or value == "information_schema":
        raise ConfigError(
            f"{name} must be 1 to {MAX_SCHEMA_LENGTH} letters, digits, '_', '-' or '.', and not a "
            f"schema of PostgreSQL itself, not {value!r}"
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
"""The options of a URL in addition to libpq's, and how they are parsed."""
