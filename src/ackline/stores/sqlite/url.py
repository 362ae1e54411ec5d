"""Read `sqlite:///jobs.db?durability=full`."""

from __future__ import annotations

from typing import cast
from urllib.parse import parse_qsl, unquote, urlsplit

from ackline.core.clock import Clock
from ackline.core.errors import ConfigError
from ackline.stores.shared.url_options import OptionParser, parse_choice, parse_options
from ackline.stores.sqlite.io.connection import Durability
from ackline.stores.sqlite.store import SqliteStore

_OPTIONS: dict[str, OptionParser] = {"durability": parse_choice("full", "normal")}


def from_url(url: str, clock: Clock | None = None) -> SqliteStore:
    """The store that a URL names: `sqlite:///relative.db`, or `sqlite:////absolute.db`."""
    parts = urlsplit(url)
    path = unquote(parts.path).removeprefix("/")
    if parts.netloc or not path or "\0" in path or parts.fragment:
        raise ConfigError(
            f"{url!r} names no file: write sqlite:///jobs.db for a file in the working directory, "
            "or sqlite:////var/lib/jobs.db with four slashes for an absolute path"
        )
    if path == ":memory:":
        raise ConfigError(f"{url!r} names no file: write memory:// for a store in memory")
    if path.endswith("/"):
        raise ConfigError(
            f"{url!r} names a directory: add the name of a file in it, such as {path}jobs.db"
        )
    options = parse_options("sqlite", _OPTIONS, parse_qsl(parts.query, keep_blank_values=True))
    durability = cast(Durability, options.get("durability", "full"))
    return SqliteStore(path, durability, clock)
