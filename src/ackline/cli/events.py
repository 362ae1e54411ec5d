"""`ackline events`: the journal, once or as it goes on."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterable, Iterator
from typing import Annotated

import typer

from ackline.cli.app import command
from ackline.cli.documents import event_document
from ackline.cli.exits import UsageMistake
from ackline.cli.queues import LOOK
from ackline.cli.session import Session
from ackline.cli.words import event_line
from ackline.events import Act, Event, read_cursor
from ackline.job import QueueKey
from ackline.stores.base import Store

PAGE = 1000
LONGEST_WAIT = 0.5
"""Seconds after which new queues are looked for too."""


@command("events", panel=LOOK)
def events(
    session: Session,
    queue: Annotated[str | None, typer.Argument(help="Only of this queue.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what happens; Ctrl-C ends it.")
    ] = False,
    after: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="Read on behind this cursor.")
    ] = None,
    act: Annotated[
        list[Act] | None, typer.Option("--act", help="Only this act; may be given again.")
    ] = None,
    last: Annotated[
        int | None, typer.Option(min=0, help="Only so many before the end of the journal.")
    ] = None,
) -> None:
    """What happened to jobs, in order: one line for each event.

    Without --after it begins with the oldest, with --follow at the end of the journal.
    """
    if after is not None:
        _require_cursor(after)
    key = session.known_queue(queue).key if queue is not None else None
    journal = Journal(session.queues.store, session.tenant, key, frozenset(act or Act))
    if follow and after is None and last is None:
        after = session.queues.info().cursor
    past: Iterable[Event] = journal.read(after)
    if last is not None:
        past = collections.deque(past, maxlen=last)
    going_on = journal.follow() if follow else ()
    try:
        for event in itertools.chain(past, going_on):
            if session.json:
                session.document(event_document(event))
            else:
                session.line(event_line(event))
    except KeyboardInterrupt:
        if not session.json and journal.cursor:
            session.notice(f"read on with --after {journal.cursor}")
        raise


def _require_cursor(cursor: str) -> None:
    try:
        read_cursor(cursor)
    except ValueError:
        raise UsageMistake(
            f"{cursor!r} is no journal cursor; --json shows the cursor of each event"
        ) from None


class Journal:
    """A place in the journal of a tenant, all queues or one."""

    def __init__(
        self,
        store: Store,
        tenant: str,
        key: QueueKey | None = None,
        acts: frozenset[Act] = frozenset(Act),
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._key = key
        self._acts = acts
        self.cursor: str | None = None

    def read(self, after: str | None) -> Iterator[Event]:
        """From a cursor to the end; `cursor` moves along."""
        self.cursor = after
        while page := self._store.events(self._key, self.cursor, PAGE):
            for event in page:
                self.cursor = event.cursor
                if event.queue.tenant == self._tenant and event.act in self._acts:
                    yield event

    def follow(self) -> Iterator[Event]:
        """From where `read` ended, without end."""
        while True:
            keys = self._keys()
            with self._store.listen(keys, "changes") as listener:
                while keys == self._keys():
                    yield from self.read(self.cursor)
                    listener.wait(LONGEST_WAIT)

    def _keys(self) -> list[QueueKey]:
        if self._key is not None:
            return [self._key]
        return [info.key for info in self._store.describe(self._tenant)]
