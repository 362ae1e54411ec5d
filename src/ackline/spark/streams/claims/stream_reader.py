"""Jobs as a stream: the interface that Spark calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any, TypeVar

import pyarrow
import pyarrow.ipc
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from ackline.core.errors import ConfigError
from ackline.core.job import QueueKey, Record
from ackline.queues import Queues
from ackline.spark.errors import StreamMismatch
from ackline.spark.options import ClaimsOptions
from ackline.spark.store.address import StoreAddress
from ackline.spark.store.page_size import job_bytes
from ackline.spark.store.retry import retry_transient
from ackline.spark.streams.claims.coordinator import ClaimCoordinator
from ackline.spark.streams.claims.manifest_store import StateCheck
from ackline.spark.streams.claims.manifests import StreamState
from ackline.spark.tables.job_rows import claims_batch

T = TypeVar("T")
Offset = Mapping[str, Any]

MAX_PARTITION_BYTES = 8 << 20
"""Bytes of jobs for one task: what Spark sends to an executor has a limit of 128 MB."""


class ClaimedJobsPartition(InputPartition):
    """Claimed jobs for one task, in Arrow's format, so that a retried task needs no store."""

    def __init__(self, jobs: bytes) -> None:
        super().__init__(len(jobs))
        self.jobs = jobs


class ClaimsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads `jobs` as a stream.

    Planning happens in one process on the driver, which opens the store at Spark's first call; the
    copies on executors never do.
    """

    def __init__(self, options: ClaimsOptions, address: StoreAddress) -> None:
        self.options = options
        self.address = address
        self._queues: Queues | None = None
        self._claims: ClaimCoordinator | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """The offset before the first micro-batch; called again if Spark restarts in it."""

        def find(claims: ClaimCoordinator) -> dict[str, Any]:
            if self.options.reset:
                claims.reset()
            return self._offset(claims.find_or_create().generation, 0)

        return self._retrying(find)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """At most as many jobs as the options allow."""
        return ReadMaxRows(self.options.max_jobs_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Claim no more jobs than are waiting now."""
        self._retrying(ClaimCoordinator.stop_at_current_jobs)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Settle what is committed, then claim the next micro-batch.

        Spark calls this at every trigger, but `commit` only when there are more jobs. So the last
        micro-batch before a pause is settled here.
        """
        max_jobs = min(self.options.max_jobs_per_trigger, _max_rows(limit))

        def accept(state: StreamState) -> None:
            self._require_own(state, start)
            self._require_known(state, start)

        def take(claims: ClaimCoordinator) -> dict[str, Any]:
            self._begin(claims, accept, start)
            batch, state = (
                claims.claim_next_batch(start["batch"], max_jobs),
                claims.manifest_store.state,
            )
            if batch == start["batch"]:
                # Spark takes any other offset for new data.
                return dict(start)
            return self._offset(state.offered_generation or state.generation, batch)

        return self._retrying(take)

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """The jobs of one micro-batch, distributed to tasks; the same jobs after a crash."""
        if start["batch"] == end["batch"]:
            return []

        def plan(claims: ClaimCoordinator) -> list[Record]:
            self._begin(claims, lambda state: self._require_own(state, start, end), end)
            batches = range(start["batch"] + 1, end["batch"] + 1)
            return [job for batch in batches for job in claims.jobs_of_batch(batch)]

        key = QueueKey(self.address.tenant, self.options.queue)
        records = self._retrying(plan)
        return [
            ClaimedJobsPartition(to_arrow_stream(key, part))
            for part in split_into_partitions(records, self.options.partitions)
        ]

    def commit(self, end: Offset) -> None:
        """Settle the micro-batch, unless `latestOffset` has done it already."""

        def settle(claims: ClaimCoordinator) -> None:
            self._begin(claims, lambda state: self._require_own(state, end), end)
            claims.settle(end["batch"])

        self._retrying(settle)

    def stop(self) -> None:
        """Close the store; the next driver takes over the leases."""
        if self._claims is not None:
            self._claims.close()
        if self._queues is not None:
            self._queues.close()
        self._queues = self._claims = None

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """The jobs that came with the task."""
        if isinstance(partition, ClaimedJobsPartition):
            with pyarrow.ipc.open_stream(partition.jobs) as batches:
                yield from batches

    # --- planning ---

    def _retrying(self, act: Callable[[ClaimCoordinator], T]) -> T:
        """Call `act` with this driver's coordinator, retrying transient errors of the store."""
        return retry_transient(lambda: act(self._open()), self.options.retry_for)

    def _open(self) -> ClaimCoordinator:
        if self._claims is None:
            self._queues = self.address.connect()
            self._claims = ClaimCoordinator(self._queues, self.options)
        return self._claims

    def _begin(self, claims: ClaimCoordinator, accept: StateCheck, logged: Offset) -> None:
        """Take over the stream with an offset that Spark has logged, if it is accepted."""
        claims.begin(accept)
        if logged["batch"]:
            claims.use_generation(logged["generation"])

    def _offset(self, generation: str, batch: int) -> dict[str, Any]:
        return {
            "stream": self.options.stream_id,
            "queue": self.options.queue,
            "generation": generation,
            "batch": batch,
        }

    def _require_own(self, state: StreamState, *offsets: Offset) -> None:
        """Refuse offsets of another stream, or of another checkpoint of this one."""
        expected = self._offset(state.generation, 0)
        for offset, part in product(offsets, ("stream", "queue", "generation")):
            if part == "generation" and (
                not offset["batch"] or offset.get(part) == state.offered_generation
            ):
                # Before its first micro-batch, a checkpoint fits any generation.
                continue
            if offset.get(part) != expected[part]:
                raise StreamMismatch(
                    f"the checkpoint belongs to {part} {offset.get(part)!r}, and this is "
                    f"{expected[part]!r}: use the checkpoint of this stream on this store, "
                    "or a new one with another streamId"
                )

    def _require_known(self, state: StreamState, start: Offset) -> None:
        """Refuse a new checkpoint of a stream that was read with another one.

        `initialOffset` cannot do it: Spark calls that also to read the first micro-batch again.
        """
        if not start["batch"] and state.committed:
            raise StreamMismatch(
                f"stream {self.options.stream_id!r} was read up to micro-batch {state.committed} "
                "with another checkpoint. Use that one, or another streamId; or set reset=true "
                "to start over, which releases the jobs of the other one"
            )


def _max_rows(limit: ReadLimit) -> int:
    """How many rows Spark asks for; only `trigger(once=True)` asks for all, and is refused."""
    if not isinstance(limit, ReadMaxRows):
        raise ConfigError(
            "trigger(once=True) ends before its jobs can be completed, so they would be "
            "delivered again: use trigger(availableNow=True)"
        )
    return limit.max_rows


def to_arrow_stream(key: QueueKey, records: list[Record]) -> bytes:
    """Jobs as one Arrow stream."""
    batch, sink = claims_batch(key, records), pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def split_into_partitions(records: list[Record], count: int) -> Iterator[list[Record]]:
    """About this many parts of equal size; more of them where payloads are large."""
    each = -(-len(records) // count)
    part: list[Record] = []
    size = 0
    for record in records:
        if part and (len(part) >= each or size + job_bytes(record) > MAX_PARTITION_BYTES):
            yield part
            part, size = [], 0
        part.append(record)
        size += job_bytes(record)
    if part:
        yield part
