"""`ackline events`: the journal, once or as it goes on."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterable

import click

from ackline.cli import values
from ackline.cli.app import command
from ackline.cli.documents import event_document
from ackline.cli.exits import Refusal, UsageMistake
from ackline.cli.journal import Journal, NamedJournal
from ackline.cli.session import Session
from ackline.cli.words import event_line
from ackline.errors import EventsDropped
from ackline.events import Act, Event, read_cursor


@command("events")
@click.argument("queue", required=False, help="Only of this queue.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what happens; Ctrl-C ends it.")
@click.option("--after", metavar="CURSOR", help="Continue after this cursor.")
@click.option(
    "--act",
    multiple=True,
    type=values.OneOf(Act),
    metavar="ACT",
    help=f"Only this act: {', '.join(Act)}. May be given again.",
)
@click.option(
    "--last",
    type=click.IntRange(min=0),
    metavar="N",
    help="Only so many before the end of the journal.",
)
@click.option(
    "--reader", metavar="NAME", help="Read on where this reader ended, and save as it goes."
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
    """What happened to jobs, in order: one line for each event.

    Without --after it begins with the oldest, with --follow at the end of the journal.
    A --reader begins with the oldest once; from then on, only what is new to it is shown.
    """
    if after is not None:
        _require_cursor(after)
    show = Printer(session, frozenset(act or Act))
    try:
        if reader is None:
            _read(session, show, queue, after, last, follow)
        else:
            _read_as(session, show, reader, queue, after, last, follow)
    except EventsDropped as error:
        raise Refusal(f"{error}: --after {error.cursor}") from error


def _require_cursor(cursor: str) -> None:
    try:
        read_cursor(cursor)
    except ValueError:
        raise UsageMistake(
            f"{cursor!r} is not a journal cursor; --json shows the cursor of each event"
        ) from None


class Printer:
    """Prints the events of chosen acts, and a notice where events are missing."""

    def __init__(self, session: Session, acts: frozenset[Act]) -> None:
        self._session = session
        self._acts = acts

    def print(self, events: Iterable[Event]) -> None:
        """One line each."""
        for event in self.wanted(events):
            if self._session.json:
                self._session.document(event_document(event))
            else:
                self._session.line(event_line(event))

    def wanted(self, events: Iterable[Event]) -> Iterable[Event]:
        """The events of the chosen acts."""
        return (event for event in events if event.act in self._acts)

    def tell(self, error: EventsDropped) -> None:
        """Print a notice that events are missing here."""
        self._session.notice(f"some events are missing here: {error}", "yellow")


def _read(
    session: Session,
    show: Printer,
    queue: str | None,
    after: str | None,
    last: int | None,
    follow: bool,
) -> None:
    key = session.known_queue(queue).key if queue is not None else None
    journal = Journal(session.queues.store, session.tenant, key, show.tell)
    if follow and after is None and last is None:
        after = session.queues.info().cursor
    past: Iterable[Event] = journal.read(after)
    if last is not None:
        past = collections.deque(show.wanted(past), maxlen=last)
    try:
        show.print(itertools.chain(past, journal.follow() if follow else ()))
    except KeyboardInterrupt:
        if not session.json and journal.cursor:
            session.notice(f"read on with --after {journal.cursor}")
        raise


def _read_as(
    session: Session,
    show: Printer,
    name: str,
    queue: str | None,
    after: str | None,
    last: int | None,
    follow: bool,
) -> None:
    if queue is None or last is not None:
        raise UsageMistake("--reader goes with one queue, and not with --last")
    found = session.known_queue(queue)
    reader = found.reader(name)
    if after is not None:
        reader.cursor = after
    journal = NamedJournal(found.store, found.key, reader, show.tell)
    try:
        show.print(itertools.chain(journal.read(), journal.follow() if follow else ()))
    except KeyboardInterrupt:
        journal.save()
        raise
