"""`ackline export`: jobs as JSON lines, which `ackline enqueue --full` takes."""

from __future__ import annotations

import sys

from ackline.cli.app import command
from ackline.cli.jobs import KindOption, StateOption
from ackline.cli.queues import LOOK, QueueArgument
from ackline.cli.session import Session
from ackline.job import State
from ackline.queue.copying import each_job
from ackline.queue.lines import line_of
from ackline.stores.base import Filter


@command("export", panel=LOOK)
def export(
    session: Session, queue: QueueArgument, state: StateOption = None, kind: KindOption = None
) -> None:
    """Write jobs as JSON lines: all, or of some states or kinds.

    Each line has what it takes to enqueue the job again, and what became of it. Enqueued again,
    jobs that had finished run once more: choose with --state.

    ackline export email --state failed > failed.jsonl
    ackline enqueue email --from failed.jsonl --full
    """
    found = session.known_queue(queue)
    which = Filter(
        states=frozenset(state or State), kinds=frozenset(kind) if kind is not None else None
    )
    for piece in each_job(found.store, found.key, which):
        for record in piece:
            sys.stdout.write(line_of(record, queue).decode())
    sys.stdout.flush()
