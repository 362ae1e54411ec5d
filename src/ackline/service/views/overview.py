"""The overview of a tenant's queues: one snapshot of the store serves everyone who asks."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from ackline.core.job import QueueKey, State
from ackline.service.metrics.queues import next_job_created_at
from ackline.service.threads.single_flight import SingleFlight
from ackline.stores.contract import QueueInfo, StoreInfo, WorkerRecord

if TYPE_CHECKING:
    from ackline.service.runtime import Runtime

MIN_REFRESH_INTERVAL = 0.5
"""Seconds between two snapshots of a tenant: requests in between wait for the next."""

MAX_AGE = 2.0
"""Seconds after which to read again although the journal has not grown: it has no heartbeats."""

FORGET_AFTER = 60.0
"""Seconds without a request after which a snapshot is forgotten."""


class OverviewSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The queues of a tenant at one time, with their workers and next jobs."""

    store: StoreInfo
    complete: bool
    """Whether the journal was read to its end; if not, ask again."""
    queues: list[QueueInfo]
    workers: Mapping[QueueKey, list[WorkerRecord]]
    next_job: Mapping[QueueKey, tuple[str, float | None]]
    """The last event of each queue, and when its next job was enqueued."""
    read_at: float
    """By `time.monotonic`."""

    @property
    def now(self) -> float:
        return self.store.now

    def oldest(self, queue: QueueKey) -> float | None:
        """How long the next job of a queue has been queued, in seconds; None if there is none."""
        _, at = self.next_job.get(queue, ("", None))
        return None if at is None else max(0.0, self.now - at)

    def alive(self, queue: QueueKey) -> frozenset[str]:
        """The workers of a queue that are alive."""
        return frozenset(w.heartbeat.id for w in self.workers[queue] if w.expires_at > self.now)


class OverviewCache:
    """Snapshots of tenants' queues, shared by all dashboards.

    While nothing happens, only the end of the journal is read. Otherwise the queues and their
    workers are read, and the next jobs of those queues in which something happened.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._single_flight = SingleFlight(every=MIN_REFRESH_INTERVAL)
        self._lock = threading.Lock()
        self._snapshots: dict[str, OverviewSnapshot] = {}

    async def of(
        self, tenant: str, run: Callable[[Callable[[], Any]], Awaitable[Any]]
    ) -> OverviewSnapshot:
        """A snapshot from after this call; `run` runs what blocks."""
        return await self._single_flight.call(tenant, partial(self._snapshot, tenant), run)

    def _snapshot(self, tenant: str) -> OverviewSnapshot:
        info, read_at = self._runtime.store.info(), time.monotonic()
        last = self._snapshots.get(tenant)
        if (
            last is not None
            and last.complete
            and last.store.cursor == info.cursor
            and read_at - last.read_at < MAX_AGE
        ):
            snapshot = msgspec.structs.replace(last, store=info)
        else:
            snapshot = self._read(tenant, info, read_at, last)
        with self._lock:
            self._snapshots[tenant] = snapshot
            for name, other in list(self._snapshots.items()):
                if read_at - other.read_at > FORGET_AFTER:
                    del self._snapshots[name]
        return snapshot

    def _read(
        self, tenant: str, info: StoreInfo, read_at: float, last: OverviewSnapshot | None
    ) -> OverviewSnapshot:
        store = self._runtime.store
        complete = self._runtime.throughput.catch_up(info.now)
        queues = store.describe(tenant)
        keys = [queue.key for queue in queues]
        known = last.next_job if last is not None and complete else {}
        return OverviewSnapshot(
            store=info,
            complete=complete,
            queues=queues,
            workers=dict(zip(keys, store.workers(keys), strict=True)),
            next_job={queue.key: self._next_job(queue, known) for queue in queues},
            read_at=read_at,
        )

    def _next_job(
        self, queue: QueueInfo, known: Mapping[QueueKey, tuple[str, float | None]]
    ) -> tuple[str, float | None]:
        last = self._runtime.throughput.last_cursor(queue.key)
        before = known.get(queue.key)
        if before is not None and before[0] == last:
            return before
        if not queue.counts[State.QUEUED]:
            return last, None
        return last, next_job_created_at(self._runtime.store, queue.key)
