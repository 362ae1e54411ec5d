"""The journals as far back as a store keeps them."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from ackline.queues import Queues
from ackline.spark.journal.gaps import Gap, find_gap
from ackline.spark.transforms.journal_slices import up_to


class StoreTables:
    """The tables of a store, for the named queues or for all."""

    def __init__(
        self,
        spark: SparkSession,
        url: str,
        queues: Queues,
        names: Collection[str] | None = None,
        *,
        shared_files: bool = False,
    ) -> None:
        self.spark = spark
        self.queues = queues
        self.names = None if names is None else sorted(set(names))
        self.infos = [
            info
            for info in queues.store.describe(queues.tenant, include_dropped=True)
            if self.names is None or info.key.name in self.names
        ]
        """The queues that have a journal, including those that were dropped."""
        self._options = {
            "store": url,
            "tenant": queues.tenant,
            "sharedFiles": str(shared_files).lower(),
        }

    def read(self, table: str, **options: str) -> DataFrame:
        """A table with the rows of these queues."""
        reader = self.spark.read.format("ackline").options(**self._options, **options)
        if (queue := self._single_queue(table)) is not None:
            return reader.option("queue", queue).load(table)
        return self.filter_rows(reader.load(table))

    def filter_rows(self, rows: DataFrame) -> DataFrame:
        """The rows of these queues."""
        return rows if self.names is None else rows.where(F.col("queue").isin(self.names))

    def filter_names(self, names: Collection[str]) -> set[str]:
        """Those of the names that belong to these queues."""
        return set(names) if self.names is None else set(names).intersection(self.names)

    def _single_queue(self, table: str) -> str | None:
        """The queue to pass as an option, if there is only one and the table has it."""
        if self.names is None or len(self.names) != 1:
            return None
        (name,) = self.names
        journal = table == "events"
        found = self.queues.store.describe(self.queues.tenant, name, include_dropped=journal)
        return name if found else None


class StoreHistory:
    """The journals as far back as the store keeps them."""

    def __init__(self, tables: StoreTables) -> None:
        self._tables = tables

    def events(self, end: str) -> DataFrame:
        """All events up to a cursor."""
        return up_to(self._tables.read("events"), end)

    def unseen(self) -> tuple[Gap, ...]:
        """The events that the journals have dropped."""
        store = self._tables.queues.store
        gaps = (find_gap(store, info.key) for info in self._tables.infos)
        return tuple(gap for gap in gaps if gap is not None)
