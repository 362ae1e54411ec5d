"""Where the store is, for processes that Spark starts on any machine."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from ackline.core.errors import ConfigError, StoreUnavailable
from ackline.queue import Queue
from ackline.queues import Queues, queue_not_found_message
from ackline.queues import open as open_queues
from ackline.spark.options import CommonOptions
from ackline.stores.registry import sqlite_file_of


class StoreAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A store that was reached when the query was planned; the address is sent to executors."""

    url: str
    tenant: str
    host: str
    """The machine that planned the query."""
    shared_files: bool = False

    @contextmanager
    def open(self) -> Iterator[Queues]:
        """The store, for as long as a task needs it."""
        with self.connect() as queues:
            yield queues

    def connect(self) -> Queues:
        """The store, to be closed by the caller."""
        path = sqlite_file_of(self.url)
        if path is not None:
            StoreFile(path=path, host=self.host, shared_files=self.shared_files).require_here()
        return open_queues(self.url, tenant=self.tenant)

    def require_visible(self, file: str, instead: str) -> None:
        """Refuse a local file or folder if this is another machine than the one that planned."""
        if not self.shared_files:
            require_same_machine(self.host, file, instead)


class StoreFile(msgspec.Struct, frozen=True, kw_only=True):
    """A store that is a file, as seen when the work was planned; this is sent to executors."""

    path: str
    host: str
    """The machine that planned the work."""
    shared_files: bool = False
    """Whether every machine sees the same files."""

    def require_here(self) -> None:
        """Refuse another machine's file: it would silently be created here, as an empty store."""
        if not self.shared_files:
            instead = "use Redis or PostgreSQL on a cluster"
            require_same_machine(self.host, f"the SQLite file {self.path}", instead)
        if not os.path.exists(self.path):
            raise StoreUnavailable(
                f"{socket.gethostname()} sees no store at {self.path}: is the path right?"
            )


def require_same_machine(host: str, file: str, instead: str) -> None:
    """Refuse a local file or folder if this is another machine than the one that planned."""
    here = socket.gethostname()
    if here != host:
        raise ConfigError(
            f"{here} cannot use {file} of {host}: {instead}, or set sharedFiles "
            "(--shared-files) if all machines see it"
        )


def resolve_address(options: CommonOptions, *, creates: bool = False) -> StoreAddress:
    """Check that a store can be used from here, before anything is planned.

    Only a writer creates a missing file.
    """
    require_multiprocess_store(options.store)
    address = StoreAddress(
        url=absolute_url(options.store),
        tenant=options.tenant,
        host=socket.gethostname(),
        shared_files=options.shared_files,
    )
    with open_queues(address.url) if creates else address.connect():
        return address


def require_multiprocess_store(url: str) -> None:
    """Refuse a store that lives in one process."""
    if url.partition(":")[0].lower() == "memory":
        raise ConfigError(
            "memory:// lives in one process, and Spark works in many: use "
            "sqlite:////path/to/jobs.db, redis:// or postgresql://"
        )


def missing_queue_message(address: StoreAddress, name: str, *, dropped: bool = False) -> str | None:
    """The error message for a queue that does not exist; None if it does.

    With `dropped`, a queue of which only the journal is left exists, too.
    """
    with address.open() as queues:
        if queues.store.describe(address.tenant, name, include_dropped=dropped):
            return None
        return queue_not_found_message(queues, name).rstrip(".")


def require_local_master(file: str, master: str | None, remedy: str) -> None:
    """Refuse a store that is a file, before anything starts, if Spark may run on other machines.

    `remedy` is how the user can declare that all of them see the file.
    """
    if master is not None and not master.startswith("local"):
        raise ConfigError(
            f"{file} is a file, and {master} may be other machines: use redis:// or "
            f"postgresql://, or {remedy} if all of them see this file"
        )


def store_files(queues: Iterable[Queue[Any, Any]]) -> list[str]:
    """The files of those queues whose stores are files."""
    stores = dict.fromkeys(queue.store for queue in queues)
    return [store.info().location for store in stores if store.capabilities.one_machine]


def absolute_url(url: str) -> str:
    """The URL with an absolute path: Spark's workers run in other directories."""
    path = sqlite_file_of(url)
    if path is None:
        return url
    query = urlsplit(url).query
    return f"sqlite:///{quote(path)}" + (f"?{query}" if query else "")
