"""Many small batches made few large ones, and old ones dropped.

So that it can be broken off anywhere: what is to be put together is written aside first; then a
note says what takes the place of what; then it is done. Whoever finds such a note finishes it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from pyspark.sql import DataFrame, SparkSession

from ackline.spark.lake.lake import (
    ERRORS,
    EVENTS,
    JOBS,
    KEPT_BY_BATCH,
    TRAFFIC,
    WORKERS,
    Batch,
    Lake,
)
from ackline.spark.lake.micro_batch import pass_nothing
from ackline.spark.pipelines import clusters, traffic, workers

TOGETHER = 16
"""So many batches are made one, and so many of those one again."""

NOTE, ASIDE = "compaction.json", "compacting"

_ADDED_UP: dict[tuple[str, ...], Callable[[DataFrame], DataFrame]] = {
    EVENTS: lambda rows: rows.coalesce(1),
    JOBS: lambda rows: rows.coalesce(1),
    TRAFFIC: lambda parts: traffic.add_up(parts, ("day", "hour", *traffic.GROUP)).coalesce(1),
    WORKERS: lambda parts: workers.add_up(parts, ("day", *workers.GROUP)).coalesce(1),
    ERRORS: lambda parts: clusters.add_up(parts, ("day", *clusters.GROUP)).coalesce(1),
}


class Note(msgspec.Struct, frozen=True):
    """The last of the batches takes the place of all of them."""

    batches: list[int]
    result: Batch


class Compaction:
    """Keeps the number of a lake's files small. To be run while no batch is."""

    def __init__(
        self, spark: SparkSession, lake: Lake, passing: Callable[[str], None] = pass_nothing
    ) -> None:
        self._spark = spark
        self._lake = lake
        self._pass = passing

    def finish(self) -> None:
        """Do what an earlier run has begun and not ended."""
        note: Note | None = self._lake.folder.read_json(Note, NOTE)
        if note is not None:
            self._take_place(note)
        self._lake.folder.remove(ASIDE)

    def compact(self) -> int:
        """Put batches together; answers how many became fewer."""
        self.finish()
        gone = 0
        while some := self._next():
            self._put_together(some)
            gone += len(some) - 1
        return gone

    def _next(self) -> list[Batch]:
        """Published batches of the same level, in a row, of which there are enough.

        The last one stays as it is: it may be replayed.
        """
        published = self._lake.require().published
        batches = [batch for batch in self._lake.batches[:-1] if batch.number <= published]
        for level in range(max((batch.level for batch in batches), default=0) + 1):
            some = [batch for batch in batches if batch.level == level][:TOGETHER]
            if len(some) == TOGETHER:
                return some
        return []

    def _put_together(self, batches: list[Batch]) -> None:
        last = batches[-1]
        for name in KEPT_BY_BATCH:
            paths = [
                self._lake.table(name, batch.number)
                for batch in batches
                if self._lake.has(name, batch.number)
            ]
            if paths:
                # Of batches of an earlier version some columns may be missing.
                rows = self._spark.read.option("mergeSchema", True).parquet(*paths)
                rows = _ADDED_UP[name](rows)
                rows.write.mode("overwrite").parquet(self._lake.folder.at(ASIDE, *name))
            self._pass("aside")
        result = msgspec.structs.replace(
            last,
            events=sum(batch.events for batch in batches),
            ended=sum(batch.ended for batch in batches),
            days=sorted({day for batch in batches for day in batch.days}),
            last_at=max(batch.last_at for batch in batches),
            level=last.level + 1,
        )
        note = Note([batch.number for batch in batches], result)
        self._lake.folder.write_json(note, NOTE)
        self._pass("noted")
        self._take_place(note)

    def _take_place(self, note: Note) -> None:
        for name in KEPT_BY_BATCH:
            if not self._lake.folder.exists(ASIDE, *name):
                continue  # it was done before
            for number in note.batches:
                self._lake.folder.remove(*self._lake.parts(name, number))
                self._pass("removed")
            self._lake.folder.copy((ASIDE, *name), self._lake.parts(name, note.result.number))
            self._pass("copied")
            self._lake.folder.remove(ASIDE, *name)
        self._lake.log(note.result)
        for number in note.batches:
            if number != note.result.number:
                self._lake.forget(number)
        self._lake.folder.remove(NOTE)
        self._pass("done")

    def drop(self, before: float) -> int:
        """Drop events and lives of batches that are older; answers how many batches.

        Gold stays, and what it is made of: that is small, and cannot be had again.
        """
        old = [batch for batch in self._lake.batches[:-1] if batch.last_at < before]
        dropped = 0
        for batch in old:
            for name in (EVENTS, JOBS):
                if self._lake.has(name, batch.number):
                    self._lake.folder.remove(*self._lake.parts(name, batch.number))
                    dropped += name == EVENTS
        return dropped
