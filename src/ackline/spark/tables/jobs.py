"""Jobs as a table: each task reads some states of some queues, one after the other.

Several tasks cannot share one state of one queue: each page continues where the last one ended.
A task that began in the middle would read some jobs twice or never, because jobs move past its
first cursor while others are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pyarrow
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ackline.core.job import QueueKey, State
from ackline.queues import Queues
from ackline.spark.options import JobsReadOptions
from ackline.spark.store.address import StoreAddress
from ackline.spark.store.page_size import PAGE_BYTES, read_pages, split_by_bytes
from ackline.spark.store.retry import retry_transient
from ackline.spark.store.task_balance import balance
from ackline.spark.tables.job_rows import jobs_batch
from ackline.stores.contract import Filter, Page

QueueState = tuple[str, State]
"""A queue and a state: its jobs in that state are read together."""


class QueueStatesPartition(InputPartition):
    """States of queues that had jobs when the query was planned."""

    def __init__(self, queue_states: list[QueueState]) -> None:
        super().__init__(queue_states)
        self.queue_states = queue_states


class OtherStatesPartition(InputPartition):
    """All states of queues that have jobs when this is read, except those that others read."""

    def __init__(self, others: frozenset[QueueState]) -> None:
        super().__init__(len(others))
        self.others = others


class JobsTableReader(DataSourceReader):
    """Reads `jobs`, or `dlq`, which is only the failed ones.

    It is not a snapshot: a job that changes its state meanwhile may be read in both or in neither.
    """

    def __init__(self, options: JobsReadOptions, address: StoreAddress) -> None:
        self.options = options
        self.address = address

    def partitions(self) -> list[InputPartition]:
        """About as many as the options ask for, each with about as many jobs, and one for the rest.

        Spark plans a DataFrame once and reads it each time it is used; by then, states that were
        empty may have jobs.
        """
        with self.address.open() as queues:
            sizes = self._sizes(queues)
        tasks = balance(dict(sorted(sizes.items())), self.options.target_tasks)
        return [*map(QueueStatesPartition, tasks), OtherStatesPartition(frozenset(sizes))]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """The jobs of its states, a page at a time."""
        queues = retry_transient(self.address.connect, self.options.retry_for)
        with closing(queues):
            for queue_state in self._queue_states(queues, partition):
                yield from self._read(queues, queue_state)

    def _queue_states(self, queues: Queues, partition: InputPartition) -> list[QueueState]:
        if isinstance(partition, QueueStatesPartition):
            return partition.queue_states
        if isinstance(partition, OtherStatesPartition):
            return sorted(self._sizes(queues).keys() - partition.others)
        return []

    def _sizes(self, queues: Queues) -> dict[QueueState, int]:
        """How many jobs each queue has in each state, without those that have none."""
        states = self.options.state_set
        return {
            (info.key.name, state): count
            for info in queues.store.describe(self.address.tenant, self.options.queue)
            for state, count in info.counts.items()
            if count and state in states
        }

    def _read(self, queues: Queues, queue_state: QueueState) -> Iterator[pyarrow.RecordBatch]:
        name, state = queue_state
        key = QueueKey(self.address.tenant, name)
        which = Filter(
            states=frozenset({state}),
            kinds=self.options.kinds_or_all,
            created_after=self.options.since,
            created_before=self.options.until,
        )

        def read(cursor: str | None, limit: int) -> Page:
            read_once = partial(queues.store.page, key, which, cursor, limit)
            return retry_transient(read_once, self.options.retry_for)

        for jobs in read_pages(read, self.options.page_size):
            for part in split_by_bytes(jobs, PAGE_BYTES):
                yield jobs_batch(key, part, self.options.column_set)
