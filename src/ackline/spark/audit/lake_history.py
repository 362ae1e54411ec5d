"""The journals as far back as a lake has them, up to now."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from ackline.spark.audit.coverage import Coverage, QueueSpan
from ackline.spark.audit.store_history import StoreTables
from ackline.spark.journal.gaps import Gap
from ackline.spark.lake.batch_log import Batch
from ackline.spark.lake.counts import require_unbroken
from ackline.spark.lake.lake import Lake
from ackline.spark.lake.layout import EVENTS
from ackline.spark.lake.reading import read_batches
from ackline.spark.transforms.journal_slices import after_cursors, up_to


class LakeHistory:
    """The events of a lake, and those that its store has recorded since."""

    def __init__(self, tables: StoreTables, lake: Lake) -> None:
        lake.require_of(tables.queues)
        self._tables = tables
        bronze = read_bronze(tables.spark, lake)
        self._bronze = None if bronze is None else tables.filter_rows(bronze)
        kept = {} if self._bronze is None else queue_spans(self._bronze)
        self._ends = {queue: one.last for queue, one in kept.items()}
        self._coverage = Coverage(tables.queues, lake, kept)
        known = {info.key.name for info in tables.infos} | kept.keys()
        self._names = sorted(known | tables.filter_names(self._coverage.incomplete_queues))

    def events(self, end: str) -> DataFrame:
        """All events up to a cursor."""
        start = self._coverage.start(self._names, end)
        since = up_to(self._tables.read("events", start=start), end)
        if self._bronze is None:
            return since
        return self._bronze.unionByName(after_cursors(since, self._ends), allowMissingColumns=True)

    def unseen(self) -> tuple[Gap, ...]:
        """The events that neither the lake nor the store has."""
        return tuple(gap for name in self._names for gap in self._coverage.gaps(name))


def read_bronze(spark: SparkSession, lake: Lake) -> DataFrame | None:
    """The events that a lake has, if any; `LakeDamaged` if some of them are missing."""
    kept = retained_batches(lake)
    return read_batches(spark, lake, EVENTS, kept) if kept else None


def retained_batches(lake: Lake) -> list[Batch]:
    """The batches that were not dropped; `LakeDamaged` if one between batches is missing."""
    batches = lake.log.batches
    require_unbroken(lake, batches)
    return [batch for batch in batches if not batch.dropped]


def queue_spans(bronze: DataFrame) -> dict[str, QueueSpan]:
    """The first and the last event that a lake has of each queue."""
    first = F.min_by(F.struct("cursor", F.unix_micros("at").alias("at")), "place")
    last = F.max_by("cursor", "place")
    rows = bronze.groupBy("queue").agg(first.alias("first"), last.alias("last")).collect()
    return {
        row["queue"]: QueueSpan(row["first"]["cursor"], row["first"]["at"] / 1e6, row["last"])
        for row in rows
    }
