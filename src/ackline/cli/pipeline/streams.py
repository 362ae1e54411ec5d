"""`ackline pipeline streams`: the Spark streams that claim jobs, and their progress."""

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
    from ackline.spark.streams.claims.manifests import StreamState

StreamStates = list[tuple[str, str, "StreamState"]]
"""Queues, the names of their streams, and the state of each stream."""


@command("streams", group=pipeline)
@any_queue_argument
@click.option(
    "--forget",
    metavar="NAME",
    help="Release the jobs of this stream of the queue, and forget it. A query that still reads "
    "it stops.",
)
def streams(session: Session, queue: str | None, forget: str | None) -> None:
    """List the streams that claim jobs of a queue, and their last micro-batch.

    The jobs that a stream has claimed are kept under its streamId until the stream is forgotten
    or the queue is dropped.
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
        session.print("No streams claim jobs.")


def _stream_states(session: Session, queue: str | None) -> StreamStates:
    from ackline.spark.streams.claims.stream_keys import list_streams

    names = [queue] if queue is not None else list(session.queues)
    queues = [session.existing_queue(name) for name in names]
    return [
        (source.name, stream, state)
        for source in queues
        for stream, state in list_streams(source.store, source.key).items()
    ]


def _forget(session: Session, queue: str | None, name: str) -> None:
    if queue is None:
        raise UsageError("name the queue: ackline pipeline streams QUEUE --forget NAME")
    if name not in [stream for _, stream, _ in _stream_states(session, queue)]:
        raise CommandError(f"queue {queue!r} has no stream {name!r}")
    from ackline.spark.streams.claims.forget_stream import forget_stream

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
