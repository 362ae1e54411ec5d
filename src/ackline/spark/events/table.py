"""The journal as a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pyarrow
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ackline.queues import Queues
from ackline.spark.events.journal import (
    Piece,
    cut,
    read_piece,
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


class Stretch(InputPartition):
    """A piece of the journal, for one task."""

    def __init__(self, piece: Piece) -> None:
        super().__init__(piece)
        self.piece = piece


def read_stretch(
    address: StoreAddress, partition: InputPartition, options: ReadEvents
) -> Iterator[pyarrow.RecordBatch]:
    """The events of one piece as Arrow batches."""
    if not isinstance(partition, Stretch):
        return
    queues = retrying(address.connect, options.retry_for)
    stride = Stride(options.page_size, FIRST_EVENTS, PAGE_BYTES // FIRST_EVENTS)
    conditions = conditions_of(options)
    with closing(queues):
        pages = read_piece(
            queues.store,
            address.tenant,
            partition.piece,
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
        pieces = cut(starts, ends, self.options.tasks)
        return [Stretch(piece) for piece in pieces] or [InputPartition(None)]

    def _span(self, queues: Queues) -> tuple[dict[str, str], dict[str, str]]:
        starts, end = whole_journal(queues, self.options.queue)
        ends = dict.fromkeys(starts, end)
        match self.options.start:
            case "oldest":
                return starts, ends
            case "now":
                return ends, ends
            case cursor:
                require_reached(cursor, end)
                return dict.fromkeys(starts, cursor), ends

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """The events of one stretch, a page at a time."""
        return read_stretch(self.address, partition, self.options)
