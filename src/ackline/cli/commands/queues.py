"""`ackline queues`, `workers`, `pause`, `resume`: queues as a whole."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from typing import Any

from rich.table import Table
from rich.text import Text

from ackline.cli.app import command
from ackline.cli.options.common import queue_argument
from ackline.cli.output.documents import queue_document, recovery_document, worker_document
from ackline.cli.output.tables import new_table
from ackline.cli.output.text import STATE_STYLES, duration, pluralize, safe
from ackline.cli.session import Session
from ackline.core.job import State
from ackline.queue import Queue
from ackline.stores.contract import Filter, QueueInfo, WorkerRecord


def current_user() -> str:
    """The user who acts, as the journal names them."""
    try:
        return f"{getpass.getuser()} (cli)"
    except (KeyError, OSError):
        return "cli"


NARROW = 90
"""Below this width, plus ten for each column beside the states, state names are abbreviated."""

MIN_NAME_WIDTH = 8
"""Characters of a queue's name that stay in a narrow terminal, so that all digits fit."""

SHORT_STATES = ("sched.", "queued", "proc.", "failing", "compl.", "failed", "canc.")


def counts_table(session: Session, *more: str) -> Table:
    """A table of queues with their counts by state, followed by more columns of numbers."""
    narrow = session.console.width < NARROW + 10 * len(more)
    states = SHORT_STATES if narrow else tuple(State)
    gap = 1 if narrow else 2
    numbers = (*states, *more)
    return new_table(
        "queue", *numbers, right=len(numbers), gap=gap, shrinkable=[("queue", MIN_NAME_WIDTH)]
    )


def oldest_age(queue: Queue[Any, Any], now: float) -> float | None:
    """Seconds since the next job in line was created; None if no job waits."""
    page = queue.store.page(queue.key, Filter(states=frozenset({State.QUEUED})), None, 1)
    return now - page.jobs[0].created_at if page.jobs else None


def count_cells(info: QueueInfo, write: Callable[[int], str] = "{:,}".format) -> list[Text]:
    """A cell for each state, dim where the count is 0."""
    return [
        Text(write(info.counts[state]), STATE_STYLES[state] if info.counts[state] else "dim")
        for state in State
    ]


def queue_name(info: QueueInfo) -> Text:
    """A queue's name, marked if it is paused."""
    name = Text(safe(info.key.name), "bold")
    return name.append(" paused", "yellow") if info.settings.paused else name


@command("queues")
def queues(session: Session) -> None:
    """All queues with their counts by state."""
    found = session.queues.describe()
    now = session.queues.store.now()
    waits = {info.key: oldest_age(session.queue(info.key.name), now) for info in found}
    if session.json:
        session.print_json({"queues": [_full_document(session, i, waits[i.key]) for i in found]})
        return
    if not found:
        session.print("No queue yet; a queue comes into being with its first job.")
        return
    table = counts_table(session, "waits")
    for info in found:
        wait = waits[info.key]
        table.add_row(queue_name(info), *count_cells(info), "" if wait is None else duration(wait))
    session.print(table)


def _full_document(session: Session, info: QueueInfo, wait: float | None) -> dict[str, Any]:
    recovery = recovery_document(session.queue(info.key.name).recovery())
    return queue_document(info, {"first_in_line": wait, "recovery": recovery})


@command("workers")
@queue_argument
def workers(session: Session, queue: str) -> None:
    """The workers of a queue, with their last sign of life."""
    found = session.existing_queue(queue).workers()
    now = session.queues.store.now()
    if session.json:
        session.print_json({"workers": [worker_document(worker, now) for worker in found]})
        return
    if not found:
        session.print("No worker is running on this queue.")
        return
    session.print(workers_table(found, now))


def workers_table(found: list[WorkerRecord], now: float) -> Table:
    """A table of workers, live ones first."""
    columns = ("worker", "state", "kinds", "pid", "holds", "lanes", "up", "seen")
    spare = [("kinds", 8), ("worker", 12)]
    table = new_table(*columns, right=5, shrinkable=spare, fold=["worker"])
    for worker in sorted(found, key=lambda record: (record.expires_at <= now, record.heartbeat.id)):
        beat, alive = worker.heartbeat, worker.expires_at > now
        lost = not alive and worker.leases
        table.add_row(
            Text(safe(beat.id), "" if alive else "dim"),
            Text("alive", "green") if alive else Text("dead" if lost else "gone", "red dim"),
            ", ".join(map(safe, beat.kinds)) if beat.kinds else "all",
            str(beat.pid),
            Text(str(worker.leases), "red" if lost else ""),
            str(beat.concurrency),
            duration(now - beat.started_at) if alive else "",
            f"{duration(now - worker.last_heartbeat_at)} ago",
        )
    return table


@command("pause")
@queue_argument
def pause(session: Session, queue: str) -> None:
    """Hand out no more jobs of a queue; those that run go on."""
    session.existing_queue(queue).pause(by=current_user())
    _print_paused(session, queue, "paused: no more jobs are handed out, those that run go on")


@command("resume")
@queue_argument
def resume(session: Session, queue: str) -> None:
    """Hand out a queue's jobs again."""
    session.existing_queue(queue).resume(by=current_user())
    _print_paused(session, queue, "resumed")


def _print_paused(session: Session, queue: str, words: str) -> None:
    info = session.describe(queue)
    if session.json:
        session.print_json(queue_document(info))
    else:
        waiting = pluralize(info.counts[State.QUEUED], "job")
        session.print_line(f"{safe(queue)} {words}; {waiting} queued")
