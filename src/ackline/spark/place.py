"""Where the store is, for processes that Spark starts on any machine."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote, unquote, urlsplit

import msgspec

from ackline.errors import ConfigError, StoreUnavailable
from ackline.queues import Queues, no_such_queue
from ackline.queues import open as open_queues
from ackline.spark.options import Common


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A store that was reached when the query was planned; it travels to executors."""

    url: str
    tenant: str
    host: str
    """Where it was planned."""
    shared_files: bool = False

    @contextmanager
    def open(self) -> Iterator[Queues]:
        """The store, for as long as a task needs it."""
        with self.connect() as queues:
            yield queues

    def connect(self) -> Queues:
        """The store, to be closed by the caller."""
        path = file_of(self.url)
        if path is not None:
            self._require_file(path)
        return open_queues(self.url, tenant=self.tenant)

    def _require_file(self, path: str) -> None:
        """A file of another machine would silently be created here, as an empty store."""
        self.require_visible(f"the SQLite file {path}", "use Redis or PostgreSQL on a cluster")
        if not os.path.exists(path):
            raise StoreUnavailable(
                f"{socket.gethostname()} sees no store at {path}: is the path right?"
            )

    def require_visible(self, file: str, instead: str) -> None:
        """Refuse a local file or folder if this is another machine than the one that planned."""
        here = socket.gethostname()
        if here != self.host and not self.shared_files:
            raise ConfigError(
                f"{here} cannot use {file} of {self.host}: {instead}, or set sharedFiles=true if "
                "all machines see it"
            )


def find_place(options: Common, *, creates: bool = False) -> Place:
    """Check that a store can be used from here, before anything is planned.

    Only a writer creates a missing file.
    """
    scheme = options.store.partition(":")[0].lower()
    if scheme == "memory":
        raise ConfigError(
            "memory:// lives in one process, and Spark works in many: use "
            "sqlite:////path/to/jobs.db, redis:// or postgresql://"
        )
    place = Place(
        url=_absolute(options.store),
        tenant=options.tenant,
        host=socket.gethostname(),
        shared_files=options.shared_files,
    )
    with open_queues(place.url) if creates else place.connect():
        return place


def missing_queue(place: Place, name: str, *, dropped: bool = False) -> str | None:
    """What to say about a queue that does not exist; None if it does. Asking does not create it.

    With `dropped`, one that has only its journal left is there, too.
    """
    with place.open() as queues:
        if queues.store.describe(place.tenant, name, dropped=dropped):
            return None
        return no_such_queue(queues, name).rstrip(".")


def file_of(url: str) -> str | None:
    """The file of a SQLite URL; None for any other store."""
    parts = urlsplit(url)
    return unquote(parts.path).removeprefix("/") if parts.scheme == "sqlite" else None


def _absolute(url: str) -> str:
    """Workers run in other directories, where a relative path would mean another file."""
    path = file_of(url)
    if path is None or os.path.isabs(path):
        return url
    query = urlsplit(url).query
    return f"sqlite:///{quote(os.path.abspath(path))}" + (f"?{query}" if query else "")
