"""`ackline readers`: the registered readers of the journal, and how far they are behind."""

from __future__ import annotations

import math
from typing import Any

import click
import msgspec
from rich.text import Text

from ackline.cli.app import command
from ackline.cli.exits import CommandError, UsageError
from ackline.cli.options.common import any_queue_argument
from ackline.cli.output.reader_lag import MAX_COUNTED, ReaderLag, reader_lag
from ackline.cli.output.tables import new_table
from ackline.cli.output.text import duration, safe
from ackline.cli.session import Session
from ackline.queue import Queue, ReaderInfo
from ackline.queue.journal.reader import readers_of_every_queue
from ackline.queue.journal.saved_cursor import ALL_QUEUES, ReaderCursor


class Row(msgspec.Struct, frozen=True):
    """A reader, and how far it is behind."""

    queue: str | None
    """None stands for all queues in which it has no cursor of its own."""
    reader: ReaderInfo
    lag: ReaderLag


@command("readers")
@any_queue_argument
@click.option(
    "--forget",
    metavar="NAME",
    help="Remove this reader of the queue or, without a queue, one that reads all queues: the "
    "journal no longer keeps events for it.",
)
def readers(session: Session, queue: str | None, forget: str | None) -> None:
    """List the registered readers of the journal, and how far they are behind.

    The journal keeps events for a reader beyond their retention, up to its size limit. A reader
    of all queues has a cursor for each queue it has read, and one more for all others.
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
        session.print("No readers are registered.")


def _rows(session: Session, queues: list[Queue[Any, Any]], with_idle: bool) -> list[Row]:
    found = [
        Row(queue.name, reader, reader_lag(queue, reader))
        for queue in queues
        for reader in queue.readers()
    ]
    own = [row for row in found if not row.reader.every_queue]
    for reader in readers_of_every_queue(session.queues.store, session.tenant):
        lags = [row.lag for row in found if row not in own and row.reader.name == reader.name]
        if lags or with_idle:
            own.append(Row(None, reader, _sum(lags)))
    return own


def _sum(lags: list[ReaderLag]) -> ReaderLag:
    return ReaderLag(
        min(sum(lag.events for lag in lags), MAX_COUNTED),
        min((lag.first_at for lag in lags), default=math.inf),
        any(lag.dropped for lag in lags),
    )


def _forget(session: Session, queue: str | None, name: str) -> None:
    if queue is None:
        _forget_everywhere(session, name)
    else:
        found = session.existing_queue(queue)
        readers = {reader.name: reader for reader in found.readers()}
        if name not in readers:
            raise CommandError(f"queue {queue!r} has no reader {name!r}")
        if readers[name].every_queue:
            raise CommandError(f"reader {name!r} reads all queues: ackline readers --forget {name}")
        found.reader(name).forget()
    if session.json:
        session.print_json({"forgotten": name})
    else:
        session.print_line(f"{safe(name)} forgotten")


def _forget_everywhere(session: Session, name: str) -> None:
    """Delete the cursor for future queues last, so that an interrupted call can be repeated."""
    store, tenant = session.queues.store, session.tenant
    if name not in [reader.name for reader in readers_of_every_queue(store, tenant)]:
        raise UsageError(
            f"no reader {name!r} reads all queues. If it reads one queue, name it: "
            "ackline readers QUEUE --forget NAME"
        )
    known = [info.key.name for info in store.describe(tenant, include_dropped=True)]
    for queue in (*known, ALL_QUEUES):
        ReaderCursor(store, tenant, queue, name).forget()


def _document(row: Row) -> dict[str, Any]:
    return {
        "queue": row.queue,
        **msgspec.structs.asdict(row.reader),
        "behind": row.lag.events,
        "lost": row.lag.dropped,
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
            Text(str(row.lag), "red" if row.lag.dropped else ""),
            f"{duration(now - row.reader.saved_at)} ago",
        )
    session.print(table)
