"""`ackline queues`, `workers`, `pause` and `resume`."""

from __future__ import annotations

from typing import Any

from ackline.cli.app import command
from ackline.cli.options.common import current_user, queue_argument
from ackline.cli.output.documents import queue_document, recovery_document, worker_document
from ackline.cli.output.queue_tables import (
    count_cells,
    counts_table,
    oldest_age,
    queue_name,
    workers_table,
)
from ackline.cli.output.text import duration, pluralize, safe
from ackline.cli.session import Session
from ackline.core.job import State
from ackline.stores.contract import QueueInfo


@command("queues")
def queues(session: Session) -> None:
    """List all queues with their counts by state."""
    found = session.queues.describe()
    now = session.queues.store.now()
    oldest = {info.key: oldest_age(session.queue(info.key.name), now) for info in found}
    if session.json:
        session.print_json({"queues": [_full_document(session, i, oldest[i.key]) for i in found]})
        return
    if not found:
        session.print("No queues yet: a queue is created with its first job.")
        return
    table = counts_table(session, "oldest")
    for info in found:
        age = oldest[info.key]
        table.add_row(queue_name(info), *count_cells(info), "" if age is None else duration(age))
    session.print(table)


def _full_document(session: Session, info: QueueInfo, oldest: float | None) -> dict[str, Any]:
    recovery = recovery_document(session.queue(info.key.name).recovery())
    return queue_document(info, {"oldest": oldest, "recovery": recovery})


@command("workers")
@queue_argument
def workers(session: Session, queue: str) -> None:
    """List the workers of a queue, with their last heartbeat."""
    found = session.existing_queue(queue).workers()
    now = session.queues.store.now()
    if session.json:
        session.print_json({"workers": [worker_document(worker, now) for worker in found]})
        return
    if not found:
        session.print("This queue has no workers.")
        return
    session.print(workers_table(session, found, now))


@command("pause")
@queue_argument
def pause(session: Session, queue: str) -> None:
    """Pause a queue until it is resumed; running jobs continue."""
    session.existing_queue(queue).pause(by=current_user())
    _print_paused(session, queue, "paused: running jobs continue, no more are claimed")


@command("resume")
@queue_argument
def resume(session: Session, queue: str) -> None:
    """Resume a paused queue."""
    session.existing_queue(queue).resume(by=current_user())
    _print_paused(session, queue, "resumed")


def _print_paused(session: Session, queue: str, result: str) -> None:
    info = session.describe(queue)
    if session.json:
        session.print_json(queue_document(info))
    else:
        queued = pluralize(info.counts[State.QUEUED], "job")
        session.print_line(f"{safe(queue)} {result}; {queued} queued")
