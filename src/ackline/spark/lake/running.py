"""The run of a lake: from where it stands to now, or on and on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ackline.queues import Queues
from ackline.spark.lake.compaction import Compaction
from ackline.spark.lake.delta import DeltaTables
from ackline.spark.lake.gold import Publisher
from ackline.spark.lake.lake import CHECKPOINT, Lake
from ackline.spark.lake.micro_batch import MicroBatch, pass_nothing
from ackline.spark.options import Common
from ackline.spark.place import find_place

NO_DELTA = "none"

PAUSE = 10.0
"""Seconds between the batches of a run without an end."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is asked for."""

    url: str
    tenant: str
    lake: str
    reader: str | None = "lake"
    objectives: Mapping[str, float] = {}
    """To be remembered by the lake."""
    delta: str | None = None
    """Where to keep its tables as Delta tables, to be remembered; `NO_DELTA` ends that."""
    keep: float | None = None
    moved: bool = False
    shared_files: bool = False
    events_per_batch: int | None = None
    """At most, in one batch; None takes in all there is."""


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """What a run did."""

    lake: str
    batches: int
    events: int
    ended: int
    days: int
    """Of the gold tables, that were made anew."""
    compacted: int
    dropped: int
    seconds: float


class Run:
    """One run of a lake."""

    def __init__(
        self,
        spark: SparkSession,
        queues: Queues,
        asked: Asked,
        passing: Callable[[str], None] = pass_nothing,
        batch: type[MicroBatch] = MicroBatch,
    ) -> None:
        self._spark = spark
        self._batch = batch
        self._asked = asked
        self._pass = passing
        common = Common(
            store=asked.url, table="events", tenant=asked.tenant, shared_files=asked.shared_files
        )
        self._place = find_place(common)
        self.lake = Lake(asked.lake)
        mark = self.lake.open(queues, moved=asked.moved)
        if asked.objectives:
            self.lake.change(objectives={**mark.objectives, **asked.objectives})
        self._delta = self._delta_tables(asked.delta)
        self._compaction = Compaction(spark, self.lake, passing)
        self._publisher = Publisher(spark, self.lake)

    def _delta_tables(self, asked: str | None) -> DeltaTables | None:
        path = self.lake.require().delta if asked is None else asked
        tables = None if path in (None, NO_DELTA) else DeltaTables(self.lake, path)
        if asked is not None:
            self.lake.change(delta=None if tables is None else tables.path)
        return tables

    def to_now(self) -> Ran:
        """Take in what has happened up to now."""
        began = time.monotonic()
        self._compaction.finish()
        before = {batch.number for batch in self.lake.batches}
        self._start(self._batch(self.lake, self._place, self._pass)).awaitTermination()
        self._pass("ran")
        new = [batch for batch in self.lake.batches if batch.number not in before]
        days, compacted, dropped = self._tidy()
        return Ran(
            lake=self.lake.folder.path,
            batches=len(new),
            events=sum(batch.events for batch in new),
            ended=sum(batch.ended for batch in new),
            days=days,
            compacted=compacted,
            dropped=dropped,
            seconds=time.monotonic() - began,
        )

    def for_ever(self, told: Callable[[Ran], None], stopping: threading.Event) -> None:
        """Take in what happens, every few seconds, until a stop is asked for."""
        while not stopping.is_set():
            ran = self.to_now()
            if ran.events:
                told(ran)
            stopping.wait(PAUSE)

    def _tidy(self) -> tuple[int, int, int]:
        days = self._publisher.publish()
        self._pass("published")
        if self._delta is not None:
            self._delta.bring_up_to_date()
            self._pass("exported")
        compacted = self._compaction.compact()
        keep = self._asked.keep
        dropped = 0 if keep is None else self._compaction.drop(time.time() - keep)
        return len(days), compacted, dropped

    def _start(self, act: MicroBatch) -> StreamingQuery:
        options = {
            "store": self._asked.url,
            "tenant": self._asked.tenant,
            "sharedFiles": str(self._asked.shared_files).lower(),
        }
        if self._asked.reader is not None:
            options["reader"] = self._asked.reader
        if self._asked.events_per_batch is not None:
            options["maxEventsPerTrigger"] = str(self._asked.events_per_batch)
        events = self._spark.readStream.format("ackline").options(**options).load("events")
        return (
            events.writeStream.foreachBatch(act)
            .option("checkpointLocation", self.lake.folder.at(*CHECKPOINT))
            .trigger(availableNow=True)
            .start()
        )
