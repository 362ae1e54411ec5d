"""A lake beside a store that is filled without Spark: only the events are in it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import apsw
import pyarrow

from ackline.queue import Queue
from ackline.queues import Queues
from ackline.spark.audit.coverage import Coverage, QueueSpan
from ackline.spark.lake.batch_log import Batch
from ackline.spark.lake.lake import Lake
from ackline.spark.lake.layout import EVENTS, batch_folder
from ackline.spark.tables.event_rows import events_batch
from ackline.stores.registry import sqlite_file_of


class Lakeshore:
    """The events of a store's queues in a lake, a batch at a time."""

    def __init__(self, folder: Path, queues: Queues) -> None:
        self.queues = queues
        self.path = str(folder / "lake")
        self.lake = Lake(self.path)
        self.lake.open(queues)
        self._cursors: dict[str, str] = {}

    def take_in(self) -> None:
        """What has happened since the last time."""
        number = len(self.lake.log.batches)
        events = [
            event
            for name in self.queues
            for event in self.queues[name].events(self._cursors.get(name))
        ]
        table = pyarrow.Table.from_batches([events_batch(events)])
        self.lake.folder.write_table(table, *batch_folder(EVENTS, number), "part.parquet")
        self.lake.log.add(Batch(number=number, events=len(events), ended=0, days=[], last_at=0.0))
        self.lake.folder.write_json({}, "checkpoint", "offsets", str(number))
        self._cursors |= {event.queue.name: event.cursor for event in events}

    def drop_journal(self, name: str, most: int) -> None:
        drop_journal(self.queues[name], most)

    def coverage(self, unread: str = "") -> Coverage:
        """What the audit knows of the lake and its store, if it has read all but this queue."""
        numbers = [batch.number for batch in self.lake.log.batches if not batch.dropped]
        tables = [self.lake.folder.dataset(*batch_folder(EVENTS, n)).to_table() for n in numbers]
        rows = sorted(
            pyarrow.concat_tables(tables).to_pylist(), key=lambda row: (row["queue"], row["place"])
        )
        rows = [row for row in rows if row["queue"] != unread]
        kept = {}
        for name, own in groupby(rows, lambda row: row["queue"]):
            events = list(own)
            first, last = events[0], events[-1]
            kept[name] = QueueSpan(first["cursor"], first["at"].timestamp(), last["cursor"])
        return Coverage(self.queues, self.lake, kept)


def drop_journal(queue: Queue[Any, Any], most: int) -> None:
    """Let a queue drop all of its journal but so many events."""
    queue.configure(max_journal=most)
    while len(list(islice(queue.events(), most + 1))) > most:
        queue.store.prune(queue.key, 100)


def lose(url: str, ids: Iterable[str]) -> None:
    """Remove jobs from a SQLite store behind its back."""
    file = apsw.Connection(str(sqlite_file_of(url)))
    for id in ids:
        [(number,)] = file.execute("SELECT num FROM job WHERE id = ?", (id,)).fetchall()
        file.execute("DELETE FROM job_state WHERE job = ?", (number,))
        file.execute("DELETE FROM job WHERE num = ?", (number,))
    file.close()
