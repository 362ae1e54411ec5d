"""`ackline readers`: the registered readers of the journal, and how far behind they are."""

from __future__ import annotations

import math
from typing import Any

import click
import msgspec
from rich.text import Text

from ackline.cli.app import command
from ackline.cli.exits import Refusal, UsageError
from ackline.cli.options.common import any_queue_argument
from ackline.cli.output.tables import new_table
from ackline.cli.output.text import duration, safe
from ackline.cli.session import Session
from ackline.core.errors import EventsDropped
from ackline.queue import Queue, ReaderInfo
from ackline.queue.journal.reader import readers_of_every_queue
from ackline.queue.journal.saved_cursor import ALL_QUEUES, ReaderCursor

MAX_COUNTED = 1000
"""Events behind a reader are counted up to this number."""


class ReaderLag(msgspec.Struct, frozen=True):
    """What waits for a reader."""

    events: int
    """At most `MOST_COUNTED` are counted."""
    first_at: float = math.inf
    dropped: bool = False
    """Whether the reader has lost events."""

    def since(self, now: float) -> float:
        """Seconds that the first event has been waiting."""
        return max(now - self.first_at, 0.0)

    def __str__(self) -> str:
        more = "+" if self.events == MAX_COUNTED else ""
        return f"{self.events:,}{more}{', some lost' if self.dropped else ''}"


def reader_lag(queue: Queue[Any, Any], reader: ReaderInfo) -> ReaderLag:
    """Count what a reader has not seen yet."""
    dropped = False
    try:
        events = queue.store.events(queue.key, reader.cursor, MAX_COUNTED)
    except EventsDropped as error:
        dropped = True
        events = queue.store.events(queue.key, error.cursor, MAX_COUNTED)
    return ReaderLag(len(events), events[0].at if events else math.inf, dropped)


class Row(msgspec.Struct, frozen=True):
    """A reader, and what waits for it."""

    queue: str | None
    """None stands for all queues in which it has no place of its own."""
    reader: ReaderInfo
    waits: ReaderLag


@command("readers")
@any_queue_argument
@click.option(
    "--forget",
    metavar="NAME",
    help="Give up this reader of the queue, or without a queue one that reads all: keep nothing "
    "for it.",
)
def readers(session: Session, queue: str | None, forget: str | None) -> None:
    """Who reads the journal under a name, and how far behind.

    What a reader has not read is kept beyond its time, up to the limit of the journal. One that
    reads all queues has a place in each that it has seen, and one more for all others.
    """
    if forget is not None:
        _forget(session, queue, forget)
        return
    names = [queue] if queue is not None else list(session.queues)
    rows = _rows(session, [session.existing_queue(name) for name in names], queue is None)
    if session.json:
        session.print_json({"readers": list(map(_document, rows))})
    elif rows:
        _show(session, rows)
    else:
        session.print("No reader is registered.")


def _rows(session: Session, queues: list[Queue[Any, Any]], with_idle: bool) -> list[Row]:
    found = [
        Row(queue.name, reader, reader_lag(queue, reader))
        for queue in queues
        for reader in queue.readers()
    ]
    own = [row for row in found if not row.reader.every_queue]
    for reader in readers_of_every_queue(session.queues.store, session.tenant):
        unseen = [row.waits for row in found if row not in own and row.reader.name == reader.name]
        if unseen or with_idle:
            own.append(Row(None, reader, _sum(unseen)))
    return own


def _sum(waits: list[ReaderLag]) -> ReaderLag:
    return ReaderLag(
        min(sum(part.events for part in waits), MAX_COUNTED),
        min((part.first_at for part in waits), default=math.inf),
        any(part.dropped for part in waits),
    )


def _forget(session: Session, queue: str | None, name: str) -> None:
    if queue is None:
        _forget_everywhere(session, name)
    else:
        found = session.existing_queue(queue)
        readers = {reader.name: reader for reader in found.readers()}
        if name not in readers:
            raise Refusal(f"queue {queue!r} has no reader {name!r}")
        if readers[name].every_queue:
            raise Refusal(f"reader {name!r} reads all queues: ackline readers --forget {name}")
        found.reader(name).forget()
    if session.json:
        session.print_json({"forgotten": name})
    else:
        session.print_line(f"{safe(name)} forgotten")


def _forget_everywhere(session: Session, name: str) -> None:
    """Its place for future queues goes last: if this is interrupted, the reader is found again."""
    store, tenant = session.queues.store, session.tenant
    if name not in [reader.name for reader in readers_of_every_queue(store, tenant)]:
        raise UsageError(
            f"no reader {name!r} reads all queues. If it reads one, name that queue: "
            "ackline readers QUEUE --forget NAME"
        )
    known = [info.key.name for info in store.describe(tenant, include_dropped=True)]
    for queue in (*known, ALL_QUEUES):
        ReaderCursor(store, tenant, queue, name).forget()


def _document(row: Row) -> dict[str, Any]:
    return {
        "queue": row.queue,
        **msgspec.structs.asdict(row.reader),
        "behind": row.waits.events,
        "lost": row.waits.dropped,
    }


def _show(session: Session, rows: list[Row]) -> None:
    now = session.queues.store.now()
    table = new_table(
        "queue",
        "reader",
        "cursor",
        "behind",
        "saved",
        right=2,
        shrinkable=[("queue", 8), ("reader", 12), ("cursor", 12)],
        fold=["reader", "cursor"],
    )
    for row in rows:
        queue = Text("all others", "dim") if row.queue is None else Text(safe(row.queue), "bold")
        table.add_row(
            queue,
            safe(row.reader.name),
            row.reader.cursor,
            Text(str(row.waits), "red" if row.waits.dropped else ""),
            f"{duration(now - row.reader.saved_at)} ago",
        )
    session.print(table)
