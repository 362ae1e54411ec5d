"""The journals as far back as a lake has them, up to now."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ackline.spark.audit.coverage import Coverage, Kept
from ackline.spark.audit.store_history import StoreTables
from ackline.spark.events.gaps import Gap
from ackline.spark.lake.lake import EVENTS, Lake
from ackline.spark.lake.reading import read_batches
from ackline.spark.pipelines.journal import behind, up_to


class LakeHistory:
    """What a lake has, and what its store has told since."""

    def __init__(self, tables: StoreTables, lake: Lake) -> None:
        lake.require_of(tables.queues)
        self._tables = tables
        self._bronze = _bronze(tables, lake)
        kept = {} if self._bronze is None else kept_in(self._bronze)
        self._ends = {queue: one.last for queue, one in kept.items()}
        self._coverage = Coverage(tables.queues, lake, kept)
        self._names = sorted({info.key.name for info in tables.infos} | kept.keys())

    def events(self, end: str) -> DataFrame:
        """All that has happened up to a cursor."""
        start = self._coverage.start(self._names, end)
        since = up_to(self._tables.read("events", start=start), end)
        if self._bronze is None:
            return since
        return self._bronze.unionByName(behind(since, self._ends), allowMissingColumns=True)

    def unseen(self) -> tuple[Gap, ...]:
        """What neither the lake nor the store has."""
        return tuple(gap for name in self._names for gap in self._coverage.unseen(name))


def _bronze(tables: StoreTables, lake: Lake) -> DataFrame | None:
    kept = [batch for batch in lake.batches if not batch.dropped]
    if not kept:
        return None
    return tables.of_these(read_batches(tables.spark, lake, EVENTS, kept))


def kept_in(bronze: DataFrame) -> dict[str, Kept]:
    """What a lake has of each queue."""
    first = F.min_by(F.struct("cursor", F.unix_micros("at").alias("at")), "place")
    last = F.max_by("cursor", "place")
    rows = bronze.groupBy("queue").agg(first.alias("first"), last.alias("last")).collect()
    return {
        row["queue"]: Kept(row["first"]["cursor"], row["first"]["at"] / 1e6, row["last"])
        for row in rows
    }
