"""`ackline pipeline streams`: which streams of Spark claim jobs, and how far they have come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ackline.cli.app import command
from ackline.cli.exits import CommandError, UsageError
from ackline.cli.options.common import any_queue_argument
from ackline.cli.output.tables import new_table
from ackline.cli.output.text import safe
from ackline.cli.pipeline import pipeline
from ackline.cli.session import Session

if TYPE_CHECKING:
    from ackline.spark.claims.manifests import StreamState

StreamStates = list[tuple[str, str, "StreamState"]]
"""Queues, their streams, and the states of these."""


@command("streams", group=pipeline)
@any_queue_argument
@click.option(
    "--forget",
    metavar="NAME",
    help="Give back what this stream of the queue holds, and forget it. A query that still reads "
    "it stops.",
)
def streams(session: Session, queue: str | None, forget: str | None) -> None:
    """Which streams claim a queue's jobs, and up to which micro-batch.

    What a stream has claimed is kept under its streamId until it is forgotten, or the queue
    dropped.
    """
    if forget is not None:
        _forget(session, queue, forget)
        return
    found = _stream_states(session, queue)
    if session.json:
        session.print_json({"streams": [_document(*one) for one in found]})
    elif found:
        _show(session, found)
    else:
        session.print("No stream claims jobs.")


def _stream_states(session: Session, queue: str | None) -> StreamStates:
    from ackline.spark.claims.stream_keys import list_streams

    names = [queue] if queue is not None else list(session.queues)
    known = [session.existing_queue(name) for name in names]
    return [
        (source.name, stream, state)
        for source in known
        for stream, state in list_streams(source.store, source.key).items()
    ]


def _forget(session: Session, queue: str | None, name: str) -> None:
    if queue is None:
        raise UsageError("name the queue, too: ackline pipeline streams QUEUE --forget NAME")
    if name not in [stream for _, stream, _ in _stream_states(session, queue)]:
        raise CommandError(f"queue {queue!r} has no stream {name!r}")
    from ackline.spark.claims.forgetting import forget_stream

    forget_stream(session.queues, queue, name)
    if session.json:
        session.print_json({"forgotten": name})
    else:
        session.print_line(f"{safe(name)} forgotten")


def _document(queue: str, stream: str, state: StreamState) -> dict[str, object]:
    return {
        "queue": queue,
        "stream": stream,
        "committed": state.committed,
        "drivers": state.epoch,
    }


def _show(session: Session, found: StreamStates) -> None:
    table = new_table("queue", "stream", "committed", "drivers", right=2)
    for queue, stream, state in found:
        table.add_row(safe(queue), safe(stream), f"{state.committed:,}", f"{state.epoch:,}")
    session.print(table)
