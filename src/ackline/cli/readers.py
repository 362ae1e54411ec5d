"""`ackline readers`: who reads the journal by name, and how far behind."""

from __future__ import annotations

import math
from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from ackline.cli.app import command
from ackline.cli.exits import Refusal, UsageMistake
from ackline.cli.queues import LOOK
from ackline.cli.session import Session
from ackline.cli.tables import new_table
from ackline.cli.words import plain, span
from ackline.errors import EventsDropped
from ackline.queue import Queue, ReaderInfo

MOST_COUNTED = 1000
"""Events behind a reader; beyond it, they are many."""


class Waits(msgspec.Struct, frozen=True):
    """What waits for a reader."""

    events: int
    """At most `MOST_COUNTED` are counted."""
    first_at: float = math.inf
    dropped: bool = False
    """Whether it has lost events already."""

    def since(self, now: float) -> float:
        """Seconds that the first of them has been waiting."""
        return max(now - self.first_at, 0.0)

    def __str__(self) -> str:
        more = "+" if self.events == MOST_COUNTED else ""
        return f"{self.events:,}{more}{', some lost' if self.dropped else ''}"


def waits_for(queue: Queue[Any, Any], reader: ReaderInfo) -> Waits:
    """Count what a reader has not seen yet."""
    dropped = False
    try:
        events = queue.store.events(queue.key, reader.cursor, MOST_COUNTED)
    except EventsDropped as error:
        dropped = True
        events = queue.store.events(queue.key, error.cursor, MOST_COUNTED)
    return Waits(len(events), events[0].at if events else math.inf, dropped)


@command("readers", panel=LOOK)
def readers(
    session: Session,
    queue: Annotated[str | None, typer.Argument(help="Only of this queue.")] = None,
    forget: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Give up this reader of the queue: keep nothing for it."),
    ] = None,
) -> None:
    """Who reads the journal under a name, and how far behind.

    What a reader has not read is kept beyond its time, up to the limit of the journal.
    """
    if forget is not None:
        _forget(session, queue, forget)
        return
    names = [queue] if queue is not None else list(session.queues)
    queues = [session.known_queue(name) for name in names]
    rows = [(one, reader, waits_for(one, reader)) for one in queues for reader in one.readers()]
    if session.json:
        session.document({"readers": [_document(*row) for row in rows]})
    elif rows:
        _show(session, rows)
    else:
        session.say("No reader is registered.")


def _forget(session: Session, queue: str | None, name: str) -> None:
    if queue is None:
        raise UsageMistake("whose reader? Name the queue: ackline readers QUEUE --forget NAME")
    found = session.known_queue(queue)
    if name not in [reader.name for reader in found.readers()]:
        raise Refusal(f"queue {queue!r} has no reader {name!r}")
    found.reader(name).forget()
    if session.json:
        session.document({"forgotten": name})
    else:
        session.line(f"{plain(name)} forgotten")


def _document(queue: Queue[Any, Any], reader: ReaderInfo, waits: Waits) -> dict[str, Any]:
    return {
        "queue": queue.name,
        **msgspec.structs.asdict(reader),
        "behind": waits.events,
        "lost": waits.dropped,
    }


def _show(session: Session, rows: list[tuple[Queue[Any, Any], ReaderInfo, Waits]]) -> None:
    now = session.queues.info().now
    table = new_table(
        "queue",
        "reader",
        "cursor",
        "behind",
        "saved",
        right=2,
        spare=[("queue", 8), ("reader", 12), ("cursor", 12)],
        fold=["reader", "cursor"],
    )
    for queue, reader, waits in rows:
        table.add_row(
            Text(plain(queue.name), "bold"),
            plain(reader.name),
            reader.cursor,
            Text(str(waits), "red" if waits.dropped else ""),
            f"{span(now - reader.saved_at)} ago",
        )
    session.say(table)
