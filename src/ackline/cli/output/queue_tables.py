"""Tables of queues and workers, as `queues`, `workers`, `top` and `demo` print them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.table import Table
from rich.text import Text

from ackline.cli.output.events import STATE_STYLES
from ackline.cli.output.tables import new_table
from ackline.cli.output.text import duration, safe
from ackline.cli.session import Session
from ackline.core.job import State
from ackline.queue import Queue
from ackline.stores.contract import Filter, QueueInfo, WorkerRecord

NARROW_WIDTH = 90
"""Below this width, plus ten for each column after the states, state names are abbreviated."""

MIN_NAME_WIDTH = 8
"""Characters of a queue's name that stay in a narrow terminal, so that all digits fit."""

SHORT_STATES = ("sched.", "queued", "proc.", "failing", "compl.", "failed", "canc.")

WORKER_COLUMNS = ("worker", "state", "kinds", "pid", "leases", "concurrency", "uptime", "heartbeat")


def counts_table(session: Session, *more: str) -> Table:
    """A table of queues with their counts by state, followed by more columns of numbers."""
    narrow = session.console.width < NARROW_WIDTH + 10 * len(more)
    states = SHORT_STATES if narrow else tuple(State)
    gap = 1 if narrow else 2
    numbers = (*states, *more)
    return new_table(
        "queue", *numbers, right=len(numbers), gap=gap, shrinkable=[("queue", MIN_NAME_WIDTH)]
    )


def oldest_age(queue: Queue[Any, Any], now: float) -> float | None:
    """Seconds since the next job of a queue was created; None if no job is queued."""
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


def workers_table(session: Session, workers: list[WorkerRecord], now: float) -> Table:
    """A table of workers, live ones first."""
    table = new_table(
        *WORKER_COLUMNS,
        right=5,
        gap=1 if session.console.width < NARROW_WIDTH else 2,
        shrinkable=[("kinds", 8), ("worker", 12)],
        fold=["worker"],
    )
    by_state = sorted(workers, key=lambda worker: (worker.expires_at <= now, worker.heartbeat.id))
    for worker in by_state:
        heartbeat, alive = worker.heartbeat, worker.expires_at > now
        dead = not alive and worker.leases
        table.add_row(
            Text(safe(heartbeat.id), "" if alive else "dim"),
            _worker_state(alive=alive, leases=worker.leases),
            ", ".join(map(safe, heartbeat.kinds)) if heartbeat.kinds else "all",
            str(heartbeat.pid),
            Text(str(worker.leases), "red" if dead else ""),
            str(heartbeat.concurrency),
            duration(now - heartbeat.started_at) if alive else "",
            f"{duration(now - worker.last_heartbeat_at)} ago",
        )
    return table


def _worker_state(*, alive: bool, leases: int) -> Text:
    if alive:
        return Text("alive", "green")
    return Text("dead", "red") if leases else Text("stopped", "dim")
