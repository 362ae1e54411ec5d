"""A store with a history and a lake beside it; and how a run of the lake can die."""

from __future__ import annotations

import datetime
import os
import time
from collections import Counter
from typing import Any

import pyarrow
import pyarrow.fs
import pyarrow.parquet
import pytest
from tests.spark.support.job_histories import live_through

from ackline.core.clock import ManualClock
from ackline.core.events import Act
from ackline.core.job import State
from ackline.queues import Queues
from ackline.spark import schemas
from ackline.spark.lake.gold import BY_DAY, OF_ALL, Publisher
from ackline.spark.lake.lake import Lake
from ackline.spark.lake.layout import batch_folder
from ackline.spark.lake.micro_batch import MicroBatch, pass_nothing
from ackline.spark.lake.running import Asked, Run
from ackline.spark.options import CommonOptions
from ackline.spark.store.address import resolve_address
from ackline.spark.tables.event_rows import events_batch
from ackline.stores.registry import store_from_url

DAY = 86_400.0

GOLD_TABLES = (*BY_DAY, *OF_ALL)


class Died(Exception):
    """The run was killed here."""


def dying(point):
    def pass_by(passed):
        if passed == point:
            raise Died(point)

    return pass_by


class Appending(MicroBatch):
    """A sink as one would write it first."""

    def _save(self, table, name, number):
        table.write.mode("append").parquet(self._lake.table(name, number))
        return self._lake.folder.count_rows(*batch_folder(name, number))


def some_hours_ago():
    """A time of the day that a history does not lead out of.

    Not long ago, because jobs that are past their retention cannot be looked up any more.
    """
    recently = time.time() - 3600
    return min(recently, recently - recently % DAY + DAY / 2)


class Lakeside:
    """A store with a history, and a lake beside it."""

    def __init__(self, spark, folder, url=None):
        self.spark = spark
        self.url = url or f"sqlite:///{folder}/jobs.db?durability=normal"
        self.path = str(folder / "lake")
        self.clock = ManualClock(some_hours_ago())
        store = store_from_url(self.url, self.clock)
        store.open()
        self.queues = Queues(store)

        self.edited = ""
        self.files: dict[str, int] = {}
        self.days: list[datetime.date] = []
        self._cursors: dict[str, str] = {}
        self._number = 0

    def run(self, die_at="", lake=None, batch=MicroBatch, passing=None, **asked):
        """As the command does it, with a stream of Spark's."""
        values = Asked(url=self.url, tenant="default", lake=str(lake or self.path), **asked)
        return Run(self.spark, self.queues, values, passing or dying(die_at), batch).to_now()

    def take_in(self, *die_at, batch=MicroBatch):
        """What Spark does in a run, without the stream: the same batch again until it is done."""
        events = self._told_since()
        frame = self._frame(events)
        self.lake.open(self.queues)
        for point in die_at:
            with pytest.raises(Died, match=point):
                self.micro_batch(dying(point), batch)(frame, self._number)
        self.micro_batch(pass_nothing, batch)(frame, self._number)
        # The checkpoint is what a stream would have left.
        os.makedirs(f"{self.path}/checkpoint/offsets", exist_ok=True)
        self._cursors |= {event.queue.name: event.cursor for event in events}
        self._number += 1
        return Publisher(self.spark, self.lake).publish(self.clock.now())

    def micro_batch(self, passing, batch=MicroBatch):
        return batch(
            self.lake, resolve_address(CommonOptions(store=self.url, table="events")), passing
        )

    def new_events(self):
        """What the next `take_in` takes in."""
        return self._frame(self._told_since())

    def _told_since(self):
        return [
            event
            for name in self.queues
            for event in self.queues[name].events(self._cursors.get(name))
        ]

    def _frame(self, events):
        table = pyarrow.Table.from_batches([events_batch(events)])
        return self.spark.createDataFrame(table, schemas.EVENTS)

    @property
    def lake(self):
        return Lake(self.path)

    def rows(self, *table):
        found: list[dict[str, Any]] = pyarrow.parquet.read_table(
            "/".join((self.path, *table))
        ).to_pylist()
        return found

    def gold(self, name):
        return self.rows("gold", name)

    def gold_files(self):
        return self.files_of(("gold",))

    def files_of(self, table):
        """The files of a table, and when each was written."""
        above = pyarrow.fs.FileSelector("/".join((self.path, *table)), recursive=True)
        found = pyarrow.fs.LocalFileSystem().get_file_info(above)
        return {one.path: one.mtime_ns for one in found if one.is_file}


def in_three_batches(spark, folder):
    """Jobs go on between the batches; at last the clock is set back by a day."""
    side = Lakeside(spark, folder)
    queue = side.queues["email"]
    queue.enqueue_many(range(20), kind="k", priority=8)
    claimed = queue.claim(10, worker="one")
    # The last that the first batch hears of this one.
    side.edited = queue.jobs(states=[State.QUEUED], limit=1).jobs[0].id
    queue.edit(side.edited, priority=1)
    side.take_in()
    side.clock.advance(2.0)
    for job in claimed:
        queue.complete(job)
    live_through(side.queues, side.clock, 40)
    side.take_in()
    side.files = side.gold_files()
    side.clock.advance(-DAY)
    queue.enqueue_many(range(3), kind="late")
    queue.complete(queue.claim(1, kinds=["late"])[0])
    side.days = side.take_in()
    return side


def contents(path):
    """All that a lake tells, however it was cut into batches and files.

    But for the forecast: that begins now, which may be another hour in the next run.
    """
    gold = (("gold", name) for name in GOLD_TABLES if name != "forecast")
    tables = [("bronze", "events"), ("silver", "jobs"), *gold]
    found = {}
    for table in tables:
        rows = pyarrow.parquet.read_table("/".join((str(path), *table))).to_pylist()
        cleaned = [{name: row[name] for name in row if name != "batch_id"} for row in rows]
        found["/".join(table)] = sorted(map(repr, cleaned))
    return found


def counted(events):
    """How often each act happened in each hour, counted plainly."""
    names = {Act.ENQUEUE: "enqueued", Act.CLAIM: "claimed", Act.COMPLETE: "completed"}
    names |= {Act.EXPIRE: "stalled", Act.RELEASE: "released", Act.REDRIVE: "redriven"}
    ends = {State.FAILING: "retried", State.FAILED: "failed", State.CANCELLED: "cancelled"}
    found: Counter[tuple[str, datetime.datetime, str]] = Counter()
    for event in events:
        if event.source == event.to or (event.act is Act.MOVE and event.to in ends):
            continue
        hour = datetime.datetime.fromtimestamp(event.at // 3600 * 3600, datetime.UTC)
        for name in {names.get(event.act, ""), ends.get(event.to, "")} - {""}:
            found[event.queue.name, hour, name] += 1
    return found


def counted_in(gold):
    found: Counter[tuple[str, datetime.datetime, str]] = Counter()
    names = ("enqueued", "claimed", "completed", "stalled", "released", "redriven")
    for row in gold:
        for name in (*names, "retried", "failed", "cancelled"):
            if row[name]:
                found[row["queue"], row["hour"], name] += row[name]
    return found
