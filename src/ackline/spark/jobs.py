"""Jobs as a table: each task reads one state of one queue, page by page.

Not several tasks each: a page continues where the one before ended, and a cursor in the middle
would be a place that jobs pass while they are read, so some would be read twice or never.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.datasource import Filter as SparkFilter

from ackline.job import QueueKey, Record, State
from ackline.spark.filters import Wanted, narrow
from ackline.spark.options import ReadJobs
from ackline.spark.place import Place
from ackline.spark.rows import jobs_batch
from ackline.stores.base import Filter

COLUMNS = frozenset({"queue", "state", "kind", "created_at"})
"""What the store can filter by."""

LARGE_PAYLOADS = 16 << 20
"""Bytes of a page above which the next ones are smaller."""


class Shelf(InputPartition):
    """The jobs of one queue in one state."""

    def __init__(self, queue: str, state: State, wanted: Wanted) -> None:
        super().__init__((queue, state))
        self.queue = queue
        self.state = state
        self.wanted = wanted


class JobsReader(DataSourceReader):
    """Reads `jobs`, or of them only the failed ones: `dlq`.

    It is not a snapshot: a job that changes its state meanwhile may be seen in both or in neither.
    """

    def __init__(self, options: ReadJobs, place: Place) -> None:
        self.options = options
        self.place = place
        queues = None if options.queue is None else frozenset({options.queue})
        states = frozenset({State.FAILED}) if options.table == "dlq" else frozenset(State)
        self.wanted = Wanted(queues=queues, states=states)

    def partitions(self) -> list[InputPartition]:
        """One for each queue and state that has jobs, the largest first."""
        with self.place.open() as queues:
            sizes = [
                (count, info.key.name, state)
                for info in queues.describe()
                if self.wanted.queues is None or info.key.name in self.wanted.queues
                for state, count in info.counts.items()
                if count and state in self.wanted.states
            ]
        sizes.sort(reverse=True)
        shelves = [Shelf(queue, state, self.wanted) for _, queue, state in sizes]
        return [*shelves] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """The jobs of one shelf, a page at a time."""
        if not isinstance(partition, Shelf):
            return
        key = QueueKey(self.place.tenant, partition.queue)
        which = Filter(
            states=frozenset({partition.state}),
            kinds=partition.wanted.kinds,
            created_after=partition.wanted.created_after,
            created_before=partition.wanted.created_before,
        )
        size, cursor = self.options.page_size, None
        with self.place.open() as queues:
            while True:
                page = queues.store.page(key, which, cursor, size)
                if page.jobs:
                    yield jobs_batch(key, page.jobs)
                if page.cursor is None:
                    return
                cursor, size = page.cursor, next_size(size, page.jobs, self.options.page_size)


def next_size(size: int, jobs: list[Record], most: int) -> int:
    """Fewer to a page where payloads are large, so that a page always fits into memory."""
    room = sum(len(job.payload) for job in jobs)
    if room > LARGE_PAYLOADS:
        return max(1, size // 2)
    return min(most, size * 2) if room < LARGE_PAYLOADS // 4 else size


class PushingJobsReader(JobsReader):
    """The same, when filters are left to the store. Spark refuses it unless it is set to do so."""

    def pushFilters(self, filters: list[SparkFilter]) -> list[SparkFilter]:  # noqa: N802
        """Take the filters that the store can apply."""
        self.wanted, left = narrow(self.wanted, filters, COLUMNS)
        return left
