"""The journal as a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pyarrow
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ackline.queues import Queues
from ackline.spark.journal.journals import (
    find_active_queues,
    full_range,
    list_journals,
    require_not_past_end,
)
from ackline.spark.journal.ranges import JournalRange, plan_ranges, read_range
from ackline.spark.options import EventsOptions
from ackline.spark.store.address import StoreAddress
from ackline.spark.store.page_size import PAGE_BYTES, AdaptivePageSize
from ackline.spark.store.retry import retry_transient
from ackline.spark.tables.event_filter import filter_conditions, filter_events
from ackline.spark.tables.event_rows import events_batch

FIRST_PAGE = 1000
"""Rows of the first page: most events are small, but the text of an error may have any length."""


class JournalPartition(InputPartition):
    """Ranges of journals that one task reads, one after the other."""

    def __init__(self, ranges: list[JournalRange]) -> None:
        super().__init__(ranges)
        self.ranges = ranges


def read_partition(
    address: StoreAddress, partition: InputPartition, options: EventsOptions
) -> Iterator[pyarrow.RecordBatch]:
    """The events of a task's ranges as Arrow batches."""
    if not isinstance(partition, JournalPartition):
        return
    queues = retry_transient(address.connect, options.retry_for)
    conditions = filter_conditions(options)
    with closing(queues):
        for journal_range in partition.ranges:
            for batch in _batches(queues, journal_range, options):
                yield filter_events(batch, conditions)


def _batches(
    queues: Queues, journal_range: JournalRange, options: EventsOptions
) -> Iterator[pyarrow.RecordBatch]:
    """The events of one range, with a page size that fits its queue's events."""
    page_size = AdaptivePageSize(options.page_size, FIRST_PAGE, PAGE_BYTES // FIRST_PAGE)
    pages = read_range(queues, journal_range, lambda: page_size.next(PAGE_BYTES), options.retry_for)
    for page in pages:
        batch = events_batch(page)
        page_size.observe(batch.num_rows, batch.nbytes)
        yield batch


class EventsTableReader(DataSourceReader):
    """Reads `events`: all that are kept, or those after a cursor, up to now.

    Spark plans a DataFrame once, so "now" is when it is first used; later uses read the same.
    """

    def __init__(self, options: EventsOptions, address: StoreAddress) -> None:
        self.options = options
        self.address = address

    def partitions(self) -> list[InputPartition]:
        """About as many as the options ask for, each with about as many events."""
        with self.address.open() as queues:
            tasks = plan_ranges(queues, *self._span(queues), self.options.target_tasks)
        return [*map(JournalPartition, tasks)] or [InputPartition(None)]

    def _span(self, queues: Queues) -> tuple[dict[str, str], dict[str, str]]:
        match self.options.start:
            case "oldest":
                starts, end = full_range(queues, self.options.queue)
                return starts, dict.fromkeys(starts, end)
            case "now":
                return {}, {}
            case cursor:
                return self._span_after(queues, cursor)

    def _span_after(self, queues: Queues, cursor: str) -> tuple[dict[str, str], dict[str, str]]:
        """From a cursor to the end, of the queues that may have events there."""
        end, only = queues.info().cursor, self.options.queue
        require_not_past_end(cursor, end)
        names = list_journals(queues) if only is None else [only]
        if (
            only is None
            and (active := find_active_queues(queues, cursor, end, len(names))) is not None
        ):
            names, end = list(active.names), active.end
        return dict.fromkeys(names, cursor), dict.fromkeys(names, end)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """The events of its ranges, a page at a time."""
        return read_partition(self.address, partition, self.options)
