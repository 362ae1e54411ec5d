"""The journal as a stream: the interface that Spark calls."""

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

from ackline.spark.journal.ranges import JournalRange, plan_ranges
from ackline.spark.options import EventsOptions
from ackline.spark.store.address import StoreAddress
from ackline.spark.store.retry import retry_transient
from ackline.spark.streams.events.offset import dump_offset, parse_offset
from ackline.spark.streams.events.planner import EventsPlanner
from ackline.spark.tables.events import JournalPartition, read_partition

T = TypeVar("T")
Offset = Mapping[str, Any]


class EventsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads `events` as a stream. An offset has a cursor for each queue.

    If events were pruned before the stream has read them, it fails with `EventsDropped`; it skips
    them only if the options name the queue. A store that was restored since is refused with
    `StreamMismatch`. Planning happens in one process that lives as long as the query; reading in
    any.
    """

    def __init__(self, options: EventsOptions, address: StoreAddress) -> None:
        self.options = options
        self.address = address
        self._planner: EventsPlanner | None = None
        self._initial: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a new stream begins; Spark asks again until its first micro-batch is done."""
        if self._initial is None:
            self._initial = dump_offset(self._retrying(EventsPlanner.initial_offset))
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """At most as many events as the options allow."""
        max_events = self.options.max_events_per_trigger
        return ReadMaxRows(max_events) if max_events is not None else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Leave later events to the next run."""
        self._retrying(EventsPlanner.stop_at_current_end)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next micro-batch ends."""
        begin = parse_offset(start)
        max_events = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return dump_offset(self._retrying(lambda planner: planner.next_offset(begin, max_events)))

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """The same events each time that Spark asks."""
        begin, last = parse_offset(start), parse_offset(end)

        def plan(planner: EventsPlanner) -> list[list[JournalRange]]:
            starts = planner.start_cursors(begin, last)
            return plan_ranges(planner.queues, starts, last.cursors, self.options.target_tasks)

        return [*map(JournalPartition, self._retrying(plan))]

    def commit(self, end: Offset) -> None:
        """Save that everything before this offset is done, so that the journal need not keep it."""
        done = parse_offset(end)
        self._retrying(lambda planner: planner.save_progress(done))

    def stop(self) -> None:
        """Close the store."""
        if self._planner is not None:
            self._planner.close()
            self._planner = None

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """The events of its stretches, a page at a time."""
        return read_partition(self.address, partition, self.options)

    def _retrying(self, act: Callable[[EventsPlanner], T]) -> T:
        """Call `act` with this driver's planner, retrying transient errors of the store."""
        return retry_transient(lambda: act(self._open()), self.options.retry_for)

    def _open(self) -> EventsPlanner:
        if self._planner is None:
            self._planner = EventsPlanner(self.address.connect(), self.options)
        return self._planner
