"""`ackline events`: print the journal, once or continuously."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import click

from ackline.cli.app import command
from ackline.cli.exits import CommandError, UsageError
from ackline.cli.options import values
from ackline.cli.options.common import any_queue_argument
from ackline.cli.output.events import event_line
from ackline.cli.session import Session
from ackline.core.errors import EventsDropped
from ackline.core.events import Act, Event, make_cursor, read_cursor
from ackline.core.job import QueueKey
from ackline.journal_views.latest_events import latest_events
from ackline.queue import JournalReader
from ackline.queue.transfer.documents import event_document
from ackline.stores.contract import Store

PAGE = 1000
BEGINNING = make_cursor(0, 0)
MAX_WAIT = 0.5
"""Seconds between two checks for new queues."""

OnDropped = Callable[[EventsDropped], None]
"""Called where events are missing."""


class JournalFollower:
    """Reads the journal of a tenant, of all queues or one.

    It raises `EventsDropped` only if the events right after the given cursor were dropped. If
    events are dropped while it reads, it calls `on_dropped` and continues after them.
    """

    def __init__(
        self, store: Store, tenant: str, key: QueueKey | None, on_dropped: OnDropped
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._key = key
        self._on_dropped = on_dropped
        self.cursor: str | None = None

    def read(self, after: str | None) -> Iterator[Event]:
        """Events from a cursor to the end; `cursor` moves on after each event that was consumed."""
        started = after is None
        if after is None and self._key is None:
            after = self._last_gap()
            yield from self._yield_own(self._before(after) if after is not None else ())
        self.cursor = after
        yield from self._yield_own(self._pages(self._key, after, started=started))

    def follow(self) -> Iterator[Event]:
        """Events from where `read` ended, without end."""
        while True:
            keys = self._keys()
            with self._store.listen(keys, "changes") as listener:
                while keys == self._keys():
                    yield from self._yield_own(self._pages(self._key, self.cursor, started=True))
                    listener.wait(MAX_WAIT)

    def _yield_own(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            if event.queue.tenant == self._tenant:
                yield event
            self.cursor = event.cursor

    def _last_gap(self) -> str | None:
        """The cursor after which no journal has gaps; None if nothing was ever dropped."""
        try:
            self._store.events(None, BEGINNING, 1)
        except EventsDropped as error:
            return error.cursor
        return None

    def _before(self, gap: str) -> Iterator[Event]:
        """The events kept up to the gap, in order; each queue's journal starts elsewhere."""
        journals = [self._pages(key, None, started=True) for key in self._keys()]
        for event in heapq.merge(*journals, key=lambda event: read_cursor(event.cursor)):
            if read_cursor(event.cursor) > read_cursor(gap):
                return
            yield event

    def _pages(self, key: QueueKey | None, after: str | None, *, started: bool) -> Iterator[Event]:
        while True:
            try:
                page = self._store.events(key, after, PAGE)
            except EventsDropped as error:
                if not started:
                    raise
                self._on_dropped(error)
                after = error.cursor
                continue
            if not page:
                return
            yield from page
            after, started = page[-1].cursor, True

    def _keys(self) -> list[QueueKey]:
        if self._key is not None:
            return [self._key]
        return [info.key for info in self._store.describe(self._tenant)]


class ReaderFollower:
    """Reads the journal of one queue as a registered reader, and saves its cursor."""

    def __init__(
        self, store: Store, key: QueueKey, reader: JournalReader, on_dropped: OnDropped
    ) -> None:
        self._store = store
        self._key = key
        self._reader = reader
        self._on_dropped = on_dropped
        self._started = False
        self._done: str | None = None

    def read(self) -> Iterator[Event]:
        """Events to the end; the cursor is saved after each page that was consumed."""
        while page := self._page():
            for event in page:
                yield event
                self._done = event.cursor
            self._reader.save()

    def follow(self) -> Iterator[Event]:
        """Events from there on, without end."""
        with self._store.listen([self._key], "changes") as listener:
            while True:
                yield from self.read()
                listener.wait(MAX_WAIT)

    def save(self) -> None:
        """Save the cursor within a page that was not consumed to its end."""
        if self._done is not None:
            self._reader.cursor = self._done
            self._reader.save()

    def _page(self) -> list[Event]:
        while True:
            try:
                page = self._reader.read(PAGE)
            except EventsDropped as error:
                if not self._started:
                    raise
                self._on_dropped(error)
                self._reader.cursor = error.cursor
            else:
                self._started = True
                return page


@command("events")
@any_queue_argument
@click.option("--follow", "-f", is_flag=True, help="Continue with new events, until Ctrl-C.")
@click.option("--after", metavar="CURSOR", help="Continue after this cursor.")
@click.option(
    "--act",
    multiple=True,
    type=values.OneOf(Act),
    metavar="ACT",
    help=f"Only this act: {', '.join(Act)}. Can be repeated.",
)
@click.option(
    "--last",
    type=click.IntRange(min=0),
    metavar="N",
    help="Only the last N events.",
)
@click.option(
    "--reader",
    metavar="NAME",
    help="Continue as this registered reader, and save its cursor.",
)
def events(
    session: Session,
    queue: str | None,
    follow: bool,
    after: str | None,
    act: tuple[Act, ...],
    last: int | None,
    reader: str | None,
) -> None:
    """Print what happened to jobs, in order, one line for each event.

    It starts with the oldest event or, with --follow, at the end of the journal, unless --after
    is given. A --reader starts with the oldest event once; later runs print only what is new.
    """
    if after is not None:
        _require_cursor(after)
    show = EventPrinter(session, frozenset(act or Act))
    try:
        if reader is None:
            _print_events(session, show, queue, after, last, follow)
        else:
            _print_as_reader(session, show, reader, queue, after, last, follow)
    except EventsDropped as error:
        raise CommandError(f"{error}: --after {error.cursor}") from error


def _require_cursor(cursor: str) -> None:
    try:
        read_cursor(cursor)
    except ValueError:
        raise UsageError(
            f"{cursor!r} is not a journal cursor; --json shows the cursor of each event"
        ) from None


class EventPrinter:
    """Prints the events of selected acts, and a notice where events are missing."""

    def __init__(self, session: Session, acts: frozenset[Act]) -> None:
        self._session = session
        self._acts = acts

    def print(self, events: Iterable[Event]) -> None:
        """Print one line for each event."""
        for event in events:
            if event.act not in self._acts:
                continue
            if self._session.json:
                self._session.print_json(event_document(event))
            else:
                self._session.print_line(event_line(event))

    def select(self, events: Iterable[Event]) -> list[Event]:
        """The events of the selected acts."""
        return [event for event in events if event.act in self._acts]

    def print_gap(self, error: EventsDropped) -> None:
        """Print a notice that events are missing here."""
        self._session.notice(f"some events are missing here: {error}", "yellow")


def _print_events(
    session: Session,
    show: EventPrinter,
    queue: str | None,
    after: str | None,
    last: int | None,
    follow: bool,
) -> None:
    key = session.existing_queue(queue).key if queue is not None else None
    store, tenant, end = session.queues.store, session.tenant, session.queues.info().cursor
    journal = JournalFollower(store, tenant, key, show.print_gap)
    past: Iterable[Event]
    if last is None:
        past = journal.read(end if follow and after is None else after)
    elif after is not None:
        raise UsageError("--last counts back from the end: leave out --after")
    else:
        read = partial(store.events, key, tenant=tenant)
        past = latest_events(read, end, last, show.select, math.inf).events
        journal.cursor = end
    try:
        show.print(itertools.chain(past, journal.follow() if follow else ()))
    except KeyboardInterrupt:
        if not session.json and journal.cursor:
            session.notice(f"continue with --after {journal.cursor}")
        raise


def _print_as_reader(
    session: Session,
    show: EventPrinter,
    name: str,
    queue: str | None,
    after: str | None,
    last: int | None,
    follow: bool,
) -> None:
    if queue is None or last is not None:
        raise UsageError("--reader needs one queue, and cannot be combined with --last")
    found = session.existing_queue(queue)
    reader = found.reader(name)
    if after is not None:
        reader.cursor = after
    journal = ReaderFollower(found.store, found.key, reader, show.print_gap)
    try:
        show.print(itertools.chain(journal.read(), journal.follow() if follow else ()))
    except KeyboardInterrupt:
        journal.save()
        raise
