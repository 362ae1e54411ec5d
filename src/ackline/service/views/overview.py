"""What the overview of a tenant shows: one look at the store serves all who ask for it."""

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
"""Seconds between two looks of one tenant: those who ask meanwhile wait for the next."""

MAX_AGE = 2.0
"""Seconds after which to look although the journal has not grown: signs of life are not in it."""

FORGET_AFTER = 60.0
"""Seconds after which what nobody asks for is forgotten."""


class OverviewSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The queues of a tenant, and what was found of each."""

    store: StoreInfo
    complete: bool
    """Whether the journal has been read to its end; if not, ask again."""
    queues: list[QueueInfo]
    workers: Mapping[QueueKey, list[WorkerRecord]]
    next_job: Mapping[QueueKey, tuple[str, float | None]]
    """When the first job in line was enqueued, and as of which event of its queue."""
    read_at: float
    """By `time.monotonic`."""

    @property
    def now(self) -> float:
        return self.store.now

    def oldest(self, queue: QueueKey) -> float | None:
        """How long the first job in line has been there, in seconds; None if there is none."""
        _, at = self.next_job.get(queue, ("", None))
        return None if at is None else max(0.0, self.now - at)

    def alive(self, queue: QueueKey) -> frozenset[str]:
        """The workers of a queue that are alive."""
        return frozenset(w.heartbeat.id for w in self.workers[queue] if w.expires_at > self.now)


class OverviewCache:
    """Looks at the queues of a tenant, however many dashboards show them.

    While nothing happens, a look asks for no more than the journal's end. Otherwise it lists the
    queues and their workers, and finds the first in line of those in which something happened.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._shared = SingleFlight(every=MIN_REFRESH_INTERVAL)
        self._lock = threading.Lock()
        self._looks: dict[str, OverviewSnapshot] = {}

    async def of(
        self, tenant: str, run: Callable[[Callable[[], Any]], Awaitable[Any]]
    ) -> OverviewSnapshot:
        """What a tenant has, as of a moment after this call; `run` runs what blocks."""
        return await self._shared.call(tenant, partial(self._snapshot, tenant), run)

    def _snapshot(self, tenant: str) -> OverviewSnapshot:
        info, moment = self._runtime.store.info(), time.monotonic()
        last = self._looks.get(tenant)
        if (
            last is not None
            and last.complete
            and last.store.cursor == info.cursor
            and moment - last.read_at < MAX_AGE
        ):
            look = msgspec.structs.replace(last, store=info)
        else:
            look = self._read(tenant, info, moment, last)
        with self._lock:
            self._looks[tenant] = look
            for name, other in list(self._looks.items()):
                if moment - other.read_at > FORGET_AFTER:
                    del self._looks[name]
        return look

    def _read(
        self, tenant: str, info: StoreInfo, moment: float, last: OverviewSnapshot | None
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
            next_job={queue.key: self._first(queue, known) for queue in queues},
            read_at=moment,
        )

    def _first(
        self, queue: QueueInfo, known: Mapping[QueueKey, tuple[str, float | None]]
    ) -> tuple[str, float | None]:
        last = self._runtime.throughput.last_of(queue.key)
        before = known.get(queue.key)
        if before is not None and before[0] == last:
            return before
        if not queue.counts[State.QUEUED]:
            return last, None
        return last, next_job_created_at(self._runtime.store, queue.key)
