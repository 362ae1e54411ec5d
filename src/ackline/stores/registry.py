"""Open stores by URL."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import quote, unquote, urlsplit

from ackline.core.clock import Clock
from ackline.core.errors import ConfigError, MissingExtra, UnknownStore
from ackline.stores.contract import Store

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

StoreFactory = Callable[[str, Clock | None], Store]

BUILT_IN = {
    "http": "ackline.stores.http.store",
    "https": "ackline.stores.http.store",
    "memory": "ackline.stores.memory.store",
    "postgres": "ackline.stores.postgres.store",
    "postgresql": "ackline.stores.postgres.store",
    "redis": "ackline.stores.redis.store",
    "redis+cluster": "ackline.stores.redis.store",
    "redis+sentinel": "ackline.stores.redis.store",
    "redis+unix": "ackline.stores.redis.store",
    "rediss": "ackline.stores.redis.store",
    "rediss+cluster": "ackline.stores.redis.store",
    "rediss+sentinel": "ackline.stores.redis.store",
    "sqlite": "ackline.stores.sqlite.store",
}
"""Scheme → the module whose `from_url(url, clock)` creates the store."""

ENTRY_POINT_GROUP = "ackline.stores"
"""The entry-point group with which other packages add schemes."""

EXTRAS = ("postgres", "redis")
"""The extras of `pip install "ackline[…]"`, each named like the schemes that need it."""


TOKEN_SCHEMES = ("http", "https")
"""Schemes whose `from_url(url, clock, token)` takes a token, which does not belong in a URL."""


def store_url(url_or_path: str | os.PathLike[str]) -> str:
    """The URL of a store given as a URL or as the path of a SQLite file.

    >>> from pathlib import Path
    >>> store_url(Path("new jobs.db"))
    'sqlite:///new%20jobs.db'
    """
    if isinstance(url_or_path, os.PathLike):
        return f"sqlite:///{quote(os.fspath(url_or_path))}"
    if not isinstance(url_or_path, str):
        raise ConfigError(
            f"a store is opened by its URL, such as sqlite:///jobs.db, or by a path, not "
            f"{url_or_path!r}"
        )
    return url_or_path


def sqlite_file_of(url: str) -> str | None:
    """The absolute path of the file of a SQLite URL; None for any other store."""
    parts = urlsplit(url)
    if parts.scheme != "sqlite":
        return None
    return os.path.abspath(unquote(parts.path).removeprefix("/"))


class RedisClient(Protocol):
    """A `redis.Redis`, as far as it can be named without importing it."""

    @property
    def connection_pool(self) -> Any: ...

    def execute_command(self, *args: Any, **options: Any) -> Any: ...


StoreSource = str | os.PathLike[str] | Store | RedisClient
"""What names a store: its URL, the path of a SQLite file, the store itself, or a Redis client."""


def store_from(source: StoreSource, clock: Clock | None = None, token: str | None = None) -> Store:
    """The store that is meant, not yet opened unless it is an open one."""
    if isinstance(source, str | os.PathLike):
        return store_from_url(store_url(source), clock, token)
    if token is not None or (clock is not None and not hasattr(source, "connection_pool")):
        raise ConfigError(f"a token or clock belongs to a URL: {source!r} has its own")
    if hasattr(source, "capabilities"):
        return cast(Store, source)
    if hasattr(source, "connection_pool"):
        from_client = _import_store("redis", "ackline.stores.redis.store").from_client
        return cast(Store, from_client(source, clock))
    return store_from_url(store_url(cast(str, source)))  # which says what a store is opened by


def store_from_url(url: str, clock: Clock | None = None, token: str | None = None) -> Store:
    """Create the store of a URL, not yet opened."""
    scheme, colon, _ = url.lower().partition(":")
    # A bare word is no URL, even if it is the name of a scheme.
    factory: Callable[..., Store] = _store_factory(url, scheme if colon else "")
    if token is None:
        return factory(url, clock)
    if scheme not in TOKEN_SCHEMES:
        raise ConfigError(f"a token opens {' and '.join(TOKEN_SCHEMES)}; {scheme} takes none")
    return factory(url, clock, token)


def _store_factory(url: str, scheme: str) -> StoreFactory:
    if scheme in BUILT_IN:
        built_in: StoreFactory = _import_store(scheme, BUILT_IN[scheme]).from_url
        return built_in
    for point in _entry_points().select(name=scheme):
        with _missing_extra(scheme):
            added: StoreFactory = point.load()
        return added
    known = [*BUILT_IN, *(point.name for point in _entry_points())]
    raise UnknownStore(url, known)


def _import_store(scheme: str, module: str) -> Any:
    with _missing_extra(scheme):
        return importlib.import_module(module)


@contextlib.contextmanager
def _missing_extra(scheme: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        extra = next((extra for extra in EXTRAS if scheme.startswith(extra)), scheme)
        raise MissingExtra(f"{scheme}:// (no module {error.name!r})", extra) from error


def _entry_points() -> EntryPoints:
    # Imported here because it takes a tenth of the time of `import ackline`, and few need it.
    from importlib.metadata import entry_points

    return entry_points(group=ENTRY_POINT_GROUP)
