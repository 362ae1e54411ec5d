"""What every command works with: a store, a tenant, and its output."""

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
from ackline.cli.exits import UNAVAILABLE, Refusal
from ackline.queue import Queue
from ackline.queues import DEFAULT_TENANT, Queues, queue_not_found_message
from ackline.stores.contract import QueueInfo
from ackline.stores.migrations import Migratable
from ackline.stores.registry import sqlite_file_of, store_from_url

DEFAULT_STORE = "sqlite:///ackline.db"

UNBOUNDED = 10_000
"""The width for output that goes to a file or a pipe: nothing is cut off or wrapped."""


class CommonOptions(msgspec.Struct, frozen=True):
    """Options that may stand before or after every command; None means not given."""

    store: str | None = None
    tenant: str | None = None
    json: bool = False
    debug: bool = False

    def with_defaults(self, wider: CommonOptions) -> CommonOptions:
        """These options; those not given are taken from before the command."""
        return CommonOptions(
            store=self.store or wider.store,
            tenant=self.tenant or wider.tenant,
            json=self.json or wider.json,
            debug=self.debug or wider.debug,
        )


class Session:
    """One command's run. The store is opened when it is first asked for."""

    def __init__(self, common: CommonOptions, *, creates: bool = False) -> None:
        self.common = common
        self.json = common.json
        self.tenant = common.tenant or DEFAULT_TENANT
        self.url = store_url(common.store or os.environ.get("ACKLINE_STORE") or DEFAULT_STORE)
        self.console = _console(stderr=False)
        self.notices = _console(stderr=True)
        self._creates = creates
        self._queues: Queues | None = None

    # --- the store ---

    @property
    def queues(self) -> Queues:
        """The open store."""
        if self._queues is None:
            if not self._creates:
                require_existing_store(self.url)
            self._queues = ackline.open(self.url, tenant=self.common.tenant)
            self.tenant = self._queues.tenant
            self._print_store(self._queues)
        return self._queues

    def queue(self, name: str) -> Queue[Any, Any]:
        """A queue, whether it exists or not."""
        return self.queues[name]

    def existing_queue(self, name: str) -> Queue[Any, Any]:
        """A queue that exists, or a refusal that names those that do."""
        self.describe(name)
        return self.queues[name]

    def describe(self, name: str) -> QueueInfo:
        """One queue's settings and counts, or a refusal that names the queues there are."""
        found = self.queues.store.describe(self.tenant, name)
        if found:
            return found[0]
        raise Refusal(queue_not_found_message(self.queues, name))

    def close(self) -> None:
        """Let go of the store."""
        if self._queues is not None:
            self._queues.close()

    # --- answering ---

    def print_json(self, value: Any) -> None:
        """Print a JSON document on one line."""
        sys.stdout.write(
            _json.dumps(_json.loads(msgspec.json.encode(value)), ensure_ascii=False) + "\n"
        )
        sys.stdout.flush()

    def print(self, answer: RenderableType = "", style: str = "") -> None:
        """Print the answer for people."""
        self.console.print(Text(answer, style=style) if isinstance(answer, str) else answer)

    def print_line(self, text: Text | str) -> None:
        """Print a line that is never wrapped, for output that is read line by line."""
        self.console.print(text, soft_wrap=True)

    def notice(self, text: str, style: str = "dim") -> None:
        """Print a remark to standard error, so that standard output has only the answer."""
        with contextlib.suppress(BrokenPipeError):
            self.notices.print(Text(text, style=style), soft_wrap=True)

    def _print_store(self, queues: Queues) -> None:
        if self.json:
            return
        tenant = "" if self.tenant == DEFAULT_TENANT else f", tenant {self.tenant}"
        self.notice(f"store {queues.store.capabilities.name} {queues.info().location}{tenant}")
        if not queues.store.capabilities.persistent:
            self.notice("this store lives only as long as this command", "yellow")


def store_url(text: str) -> str:
    """A store's URL; a plain path means a SQLite file."""
    return text if "://" in text else f"sqlite:///{text}"


def require_existing_store(url: str, option: str = "--store or ACKLINE_STORE") -> None:
    """Refuse if there is no store: looking must not create an empty one in the wrong place.

    `option` is what names another store.
    """
    path = sqlite_file_of(url)
    if path is not None:
        missing = None if os.path.exists(path) else path
    else:
        missing = _location_without_schema(url)
    if missing is not None:
        raise Refusal(
            f"there is no store at {missing}.\n"
            "Enqueue a job or run `ackline migrate` to make one, "
            f"or name another with {option}.",
            UNAVAILABLE,
        )


def _location_without_schema(url: str) -> str | None:
    store = store_from_url(url)
    if not isinstance(store, Migratable):
        return None
    found = store.pending_migrations()
    return None if found.schema else found.location


class PipeConsole(Console):
    """Raises if its pipe is closed, so that the command ends quietly; rich would exit with 1."""

    def on_broken_pipe(self) -> None:
        """Raise the error that rich has caught."""
        raise BrokenPipeError


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else UNBOUNDED
    return PipeConsole(stderr=stderr, width=width, markup=False, highlight=False, emoji=False)
