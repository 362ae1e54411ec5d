"""The journal as a stream: a micro-batch lies between two places, and can be read again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import pyarrow
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ackline.spark.events.offset import read_offset, write_offset
from ackline.spark.events.planning import EventsPlanning
from ackline.spark.events.stretches import JournalStretch, shared_out
from ackline.spark.events.table import Stretches, read_partition
from ackline.spark.options import ReadEvents
from ackline.spark.retrying import retrying
from ackline.spark.store_address import StoreAddress

T = TypeVar("T")
Offset = Mapping[str, Any]


class EventsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads `events` as they happen. An offset has a cursor for each queue.

    If events were pruned before the stream has read them, it fails with `EventsDropped`; it skips
    them only if the options name the queue. A store that was restored since is refused with
    `StreamMismatch`. Planning happens in one process that lives as long as the query; reading in
    any.
    """

    def __init__(self, options: ReadEvents, address: StoreAddress) -> None:
        self.options = options
        self.address = address
        self._planning: EventsPlanning | None = None
        self._initial: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a new stream begins; Spark asks again until its first micro-batch is done."""
        if self._initial is None:
            self._initial = write_offset(self._with(EventsPlanning.first))
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """At most as many events as the options allow."""
        most = self.options.max_events_per_trigger
        return ReadMaxRows(most) if most is not None else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Leave all events from now on to the next run."""
        self._with(EventsPlanning.stop_at_present)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next micro-batch ends."""
        begin = read_offset(start)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return write_offset(self._with(lambda planning: planning.latest(begin, most)))

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """The same events each time that Spark asks for them."""
        begin, last = read_offset(start), read_offset(end)

        def plan(planning: EventsPlanning) -> list[list[JournalStretch]]:
            starts = planning.starts(begin, last)
            return shared_out(planning.queues, starts, last.queues, self.options.tasks)

        return [*map(Stretches, self._with(plan))]

    def commit(self, end: Offset) -> None:
        """Save that all before this offset is done: its events need not be kept for us any more."""
        done = read_offset(end)
        self._with(lambda planning: planning.save(done))

    def stop(self) -> None:
        """Close the store."""
        if self._planning is not None:
            self._planning.close()
            self._planning = None

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """The events of its stretches, a page at a time."""
        return read_partition(self.address, partition, self.options)

    def _with(self, act: Callable[[EventsPlanning], T]) -> T:
        """Call `act` with the planning of this driver, again if the store fails for a while."""
        return retrying(lambda: act(self._opened()), self.options.retry_for)

    def _opened(self) -> EventsPlanning:
        if self._planning is None:
            self._planning = EventsPlanning(self.address.connect(), self.options)
        return self._planning
