"""`ackline top`: queues, rates and workers, live."""

from __future__ import annotations

import itertools
import time
from typing import Any

import click
import msgspec
from rich.console import Group
from rich.live import Live
from rich.text import Text

from ackline.cli.app import command
from ackline.cli.options import values
from ackline.cli.output.documents import queue_document, worker_document
from ackline.cli.output.queue_tables import (
    count_cells,
    counts_table,
    oldest_age,
    queue_name,
    workers_table,
)
from ackline.cli.output.text import compact_number, duration, time_of_day
from ackline.cli.session import Session
from ackline.core.job import QueueKey
from ackline.journal_views.throughput import ThroughputReader
from ackline.stores.contract import QueueInfo, WorkerRecord

REFRESH_EVERY = 0.5
"""Seconds between two reads of the store."""

STOPPED_SHOWN = 60.0
"""Seconds for which a stopped worker stays in the list."""


@command("top")
@click.option(
    "--seconds",
    type=values.seconds,
    metavar="SPAN",
    help="How long to run (default: until Ctrl-C).",
)
def top(session: Session, seconds: float | None) -> None:
    """Show queues, rates and workers, live.

    Without a terminal, it prints one snapshot.
    """
    view = LiveView(session)
    live = session.console.is_terminal and not session.json
    if seconds is None and not live:
        seconds = REFRESH_EVERY
    until = None if seconds is None else time.monotonic() + seconds
    if live:
        with Live(
            view.render(), console=session.console, auto_refresh=False, screen=True
        ) as screen:
            while until is None or time.monotonic() < until:
                time.sleep(REFRESH_EVERY)
                screen.update(view.render(), refresh=True)
        session.print(view.render())
        return
    while until is not None and time.monotonic() < until:
        time.sleep(min(REFRESH_EVERY, max(until - time.monotonic(), 0.0)))
        if session.json:
            session.print_json(view.document())
    if not session.json:
        session.print(view.render())


class LiveView:
    """Reads the store for each refresh."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._throughput = ThroughputReader(
            session.queues.store, bucket=1, bucket_count=10, rate_buckets=5
        )

    def render(self) -> Group:
        """The current state, for a terminal."""
        queues = self._session.queues
        info, found = queues.info(), queues.describe()
        complete = self._throughput.catch_up(info.now)
        title = Text(f"{info.name} {info.location}   {time_of_day(info.now)[:-4]}", "dim")
        table = counts_table(self._session, "in/s", "out/s", "oldest")
        for queue in found:
            cells = count_cells(queue, compact_number)
            table.add_row(queue_name(queue), *cells, *self._rate_cells(queue, info.now, complete))
        workers = self._workers([queue.key for queue in found])
        return Group(
            title,
            table if found else Text("No queues yet."),
            Text(),
            workers_table(self._session, workers, info.now)
            if workers
            else Text("No workers.", "dim"),
        )

    def document(self) -> dict[str, Any]:
        """The current state, as JSON."""
        queues = self._session.queues
        info, found = queues.info(), queues.describe()
        self._throughput.catch_up(info.now)
        return {
            "now": info.now,
            "queues": [queue_document(queue, self._extra(queue, info.now)) for queue in found],
            "workers": [
                worker_document(worker, info.now)
                for worker in self._workers([queue.key for queue in found])
            ],
        }

    def _extra(self, queue: QueueInfo, now: float) -> dict[str, float | None]:
        enqueued, completed = self._rates(queue, now)
        return {
            "rate_in": round(enqueued, 2),
            "rate_out": round(completed, 2),
            "oldest": oldest_age(self._session.queue(queue.key.name), now),
        }

    def _rate_cells(self, queue: QueueInfo, now: float, complete: bool) -> list[str]:
        oldest = oldest_age(self._session.queue(queue.key.name), now)
        mark = "" if complete else "≥"
        rates = [mark + compact_number(rate, 1) for rate in self._rates(queue, now)]
        return [*rates, "" if oldest is None else duration(oldest)]

    def _rates(self, queue: QueueInfo, now: float) -> tuple[float, float]:
        """Jobs enqueued and completed per second, recently."""
        reader = self._throughput
        found = reader.of(queue.key, now)
        return reader.rate(found.enqueued), reader.rate(found.completed)

    def _workers(self, keys: list[QueueKey]) -> list[WorkerRecord]:
        """Each worker once, with its leases of all queues, without those that stopped long ago."""
        store, by_id = self._session.queues.store, dict[str, WorkerRecord]()
        now = self._session.queues.store.now()
        for worker in itertools.chain.from_iterable(store.workers(keys)):
            if worker.expires_at > now - STOPPED_SHOWN or worker.leases:
                by_id[worker.heartbeat.id] = merge_workers(by_id.get(worker.heartbeat.id), worker)
        return list(by_id.values())


def merge_workers(one: WorkerRecord | None, other: WorkerRecord) -> WorkerRecord:
    """Combine the records that two queues have of the same worker."""
    if one is None:
        return other
    kinds = None
    if one.heartbeat.kinds is not None and other.heartbeat.kinds is not None:
        kinds = tuple(sorted({*one.heartbeat.kinds, *other.heartbeat.kinds}))
    return WorkerRecord(
        heartbeat=msgspec.structs.replace(one.heartbeat, kinds=kinds),
        last_heartbeat_at=max(one.last_heartbeat_at, other.last_heartbeat_at),
        expires_at=max(one.expires_at, other.expires_at),
        leases=one.leases + other.leases,
    )
