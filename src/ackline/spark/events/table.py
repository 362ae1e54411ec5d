"""The journal as a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pyarrow
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ackline.queues import Queues
from ackline.spark.events.journal import journals, news_after, require_reached, whole_journal
from ackline.spark.events.rows import events_batch
from ackline.spark.events.stretches import JournalStretch, read_stretch, shared_out
from ackline.spark.events.wanted import conditions_of, wanted
from ackline.spark.options import ReadEvents
from ackline.spark.retrying import retrying
from ackline.spark.store_address import StoreAddress
from ackline.spark.stride import PAGE_BYTES, Stride

FIRST_EVENTS = 1000
"""How many a task asks for first: events are mostly small, but a reason may be of any length."""


class Stretches(InputPartition):
    """Stretches of journals that one task reads, one after the other."""

    def __init__(self, stretches: list[JournalStretch]) -> None:
        super().__init__(stretches)
        self.stretches = stretches


def read_partition(
    address: StoreAddress, partition: InputPartition, options: ReadEvents
) -> Iterator[pyarrow.RecordBatch]:
    """The events of a task's stretches as Arrow batches."""
    if not isinstance(partition, Stretches):
        return
    queues = retrying(address.connect, options.retry_for)
    conditions = conditions_of(options)
    with closing(queues):
        for stretch in partition.stretches:
            for batch in _batches(queues, stretch, options):
                yield wanted(batch, conditions)


def _batches(
    queues: Queues, stretch: JournalStretch, options: ReadEvents
) -> Iterator[pyarrow.RecordBatch]:
    """The events of one stretch, in pages of its own size: other queues have other events."""
    stride = Stride(options.page_size, FIRST_EVENTS, PAGE_BYTES // FIRST_EVENTS)
    pages = read_stretch(queues, stretch, lambda: stride.next(PAGE_BYTES), options.retry_for)
    for page in pages:
        batch = events_batch(page)
        stride.measured(batch.num_rows, batch.nbytes)
        yield batch


class EventsReader(DataSourceReader):
    """Reads `events`: all that are kept, or those after a cursor, up to now.

    Spark plans a DataFrame once, so "now" is when it is first used; later uses read the same.
    """

    def __init__(self, options: ReadEvents, address: StoreAddress) -> None:
        self.options = options
        self.address = address

    def partitions(self) -> list[InputPartition]:
        """About as many as the options ask for, each with about as many events."""
        with self.address.open() as queues:
            shares = shared_out(queues, *self._span(queues), self.options.tasks)
        return [*map(Stretches, shares)] or [InputPartition(None)]

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
        """The events of its stretches, a page at a time."""
        return read_partition(self.address, partition, self.options)
