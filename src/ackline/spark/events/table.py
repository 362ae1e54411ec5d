"""The journal as a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pyarrow
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ackline.queues import Queues
from ackline.spark.events.journal import (
    JournalStretch,
    cut,
    journals,
    news_after,
    read_stretch,
    require_reached,
    whole_journal,
)
from ackline.spark.events.rows import events_batch
from ackline.spark.events.wanted import conditions_of, wanted
from ackline.spark.options import ReadEvents
from ackline.spark.retrying import retrying
from ackline.spark.store_address import StoreAddress
from ackline.spark.stride import PAGE_BYTES, Stride

FIRST_EVENTS = 1000
"""How many a task asks for first: events are mostly small, but a reason may be of any length."""


class StretchPartition(InputPartition):
    """A stretch of the journal, for one task."""

    def __init__(self, stretch: JournalStretch) -> None:
        super().__init__(stretch)
        self.stretch = stretch


def read_partition(
    address: StoreAddress, partition: InputPartition, options: ReadEvents
) -> Iterator[pyarrow.RecordBatch]:
    """The events of one stretch as Arrow batches."""
    if not isinstance(partition, StretchPartition):
        return
    queues = retrying(address.connect, options.retry_for)
    stride = Stride(options.page_size, FIRST_EVENTS, PAGE_BYTES // FIRST_EVENTS)
    conditions = conditions_of(options)
    with closing(queues):
        pages = read_stretch(
            queues.store,
            address.tenant,
            partition.stretch,
            lambda: stride.next(PAGE_BYTES),
            options.retry_for,
        )
        for page in pages:
            batch = events_batch(page)
            stride.measured(batch.num_rows, batch.nbytes)
            yield wanted(batch, conditions)


class EventsReader(DataSourceReader):
    """Reads `events`: all that are kept, or those after a cursor, up to now.

    Spark plans a DataFrame once, so "now" is when it is first used; later uses read the same.
    """

    def __init__(self, options: ReadEvents, address: StoreAddress) -> None:
        self.options = options
        self.address = address

    def partitions(self) -> list[InputPartition]:
        """Stretches of about equal length, of each queue."""
        with self.address.open() as queues:
            starts, ends = self._span(queues)
        stretches = cut(starts, ends, self.options.tasks)
        return [*map(StretchPartition, stretches)] or [InputPartition(None)]

    def _span(self, queues: Queues) -> tuple[dict[str, str], dict[str, str]]:
        match self.options.start:
            case "oldest":
                starts, end = whole_journal(queues, self.options.queue)
                return starts, dict.fromkeys(starts, end)
            case "now":
                return {}, {}
            case cursor:
                return self._span_after(queues, cursor)

    def _span_after(self, queues: Queues, cursor: str) -> tuple[dict[str, str], dict[str, str]]:
        """From a cursor to the end, of the queues that may have events there."""
        end, only = queues.info().cursor, self.options.queue
        require_reached(cursor, end)
        names = journals(queues) if only is None else [only]
        if only is None and (news := news_after(queues, cursor, end, len(names))) is not None:
            names, end = list(news.names), news.end
        return dict.fromkeys(names, cursor), dict.fromkeys(names, end)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """The events of one stretch, a page at a time."""
        return read_partition(self.address, partition, self.options)
