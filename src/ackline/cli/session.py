"""One command's run: its store, tenant and output."""

from __future__ import annotations

import contextlib
import json as _json
import os
import sys
from typing import Any

import msgspec
from rich.console import Console, RenderableType
from rich.text import Text

import ackline
from ackline.cli.exits import UNAVAILABLE, CommandError
from ackline.queue import Queue
from ackline.queues import DEFAULT_TENANT, Queues, queue_not_found_message
from ackline.stores.contract import QueueInfo
from ackline.stores.migrations import Migratable
from ackline.stores.registry import sqlite_file_of, store_from_url

DEFAULT_STORE = "sqlite:///ackline.db"

UNBOUNDED = 10_000
"""Width of output to a file or a pipe: nothing is cut off or wrapped."""


class CommonOptions(msgspec.Struct, frozen=True):
    """The options that every command accepts; None means not given."""

    store: str | None = None
    tenant: str | None = None
    json: bool = False
    debug: bool = False

    def with_defaults(self, defaults: CommonOptions) -> CommonOptions:
        """These options; those not given are taken from `defaults`."""
        return CommonOptions(
            store=self.store or defaults.store,
            tenant=self.tenant or defaults.tenant,
            json=self.json or defaults.json,
            debug=self.debug or defaults.debug,
        )


class Session:
    """One command's run. The store is opened on first use."""

    def __init__(self, common: CommonOptions, *, creates_store: bool = False) -> None:
        self.common = common
        self.json = common.json
        self.tenant = common.tenant or DEFAULT_TENANT
        self.url = store_url(common.store or os.environ.get("ACKLINE_STORE") or DEFAULT_STORE)
        self.console = _console(stderr=False)
        self.notices = _console(stderr=True)
        self._creates_store = creates_store
        self._queues: Queues | None = None

    # --- the store ---

    @property
    def queues(self) -> Queues:
        """The open store."""
        if self._queues is None:
            if not self._creates_store:
                require_existing_store(self.url)
            self._queues = ackline.open(self.url, tenant=self.common.tenant)
            self.tenant = self._queues.tenant
            self._print_store(self._queues)
        return self._queues

    def queue(self, name: str) -> Queue[Any, Any]:
        """A queue, whether it exists or not."""
        return self.queues[name]

    def existing_queue(self, name: str) -> Queue[Any, Any]:
        """A queue that exists; the error otherwise suggests one that does."""
        self.describe(name)
        return self.queues[name]

    def describe(self, name: str) -> QueueInfo:
        """A queue's settings and counts; the error otherwise suggests a queue that exists."""
        found = self.queues.store.describe(self.tenant, name)
        if found:
            return found[0]
        raise CommandError(queue_not_found_message(self.queues, name))

    def close(self) -> None:
        """Close the store, if it was opened."""
        if self._queues is not None:
            self._queues.close()

    # --- output ---

    def print_json(self, value: Any) -> None:
        """Print a JSON document on one line."""
        sys.stdout.write(
            _json.dumps(_json.loads(msgspec.json.encode(value)), ensure_ascii=False) + "\n"
        )
        sys.stdout.flush()

    def print(self, output: RenderableType = "", style: str = "") -> None:
        """Print text or a table."""
        self.console.print(Text(output, style=style) if isinstance(output, str) else output)

    def print_line(self, text: Text | str) -> None:
        """Print a line that is never wrapped."""
        self.console.print(text, soft_wrap=True)

    def notice(self, text: str, style: str = "dim") -> None:
        """Print a notice to standard error, so that standard output has only the result."""
        with contextlib.suppress(BrokenPipeError):
            self.notices.print(Text(text, style=style), soft_wrap=True)

    def _print_store(self, queues: Queues) -> None:
        if self.json:
            return
        tenant = "" if self.tenant == DEFAULT_TENANT else f", tenant {self.tenant}"
        self.notice(f"store {queues.store.capabilities.name} {queues.info().location}{tenant}")
        if not queues.store.capabilities.persistent:
            self.notice("a memory store ends with this command: nothing is kept", "yellow")


def store_url(text: str) -> str:
    """The URL of a store; a plain path is a SQLite file."""
    return text if "://" in text else f"sqlite:///{text}"


def require_existing_store(url: str, option: str = "--store or ACKLINE_STORE") -> None:
    """Raise if there is no store, because reading must not create an empty one by mistake.

    `option` is what selects another store, for the message.
    """
    path = sqlite_file_of(url)
    if path is not None:
        missing = None if os.path.exists(path) else path
    else:
        missing = _location_without_schema(url)
    if missing is not None:
        raise CommandError(
            f"no store at {missing}.\n"
            "Enqueue a job or run `ackline migrate` to create one, "
            f"or select another with {option}.",
            UNAVAILABLE,
        )


def _location_without_schema(url: str) -> str | None:
    store = store_from_url(url)
    if not isinstance(store, Migratable):
        return None
    found = store.pending_migrations()
    return None if found.schema else found.location


class PipeConsole(Console):
    """A console that raises when its pipe is closed; rich would exit with 1."""

    def on_broken_pipe(self) -> None:
        """Raise again the error that rich has caught."""
        raise BrokenPipeError


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else UNBOUNDED
    return PipeConsole(stderr=stderr, width=width, markup=False, highlight=False, emoji=False)
