"""What the queues hold, as the store knows it: the same whichever process is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ackline.core.job import QueueKey, State
from ackline.queue.metadata.recovery_counts import RecoveredBy, load_recovery_counts
from ackline.stores.contract import Filter, QueueInfo, Store

if TYPE_CHECKING:
    from ackline.service.runtime import Runtime

_FIRST = Filter(states=frozenset({State.QUEUED}))


class QueueCollector(Collector):
    """The queues of one tenant, or of all."""

    def __init__(
        self,
        runtime: Runtime,
        tenant: str | None = None,
        may_see: Callable[[str], bool] = lambda _queue: True,
    ) -> None:
        self._runtime = runtime
        self._tenant = tenant
        self._may_see = may_see

    def collect(self) -> Iterator[Metric]:
        store = self._runtime.store
        names = ["tenant", "queue"]
        jobs = GaugeMetricFamily("ackline_jobs", "Jobs by state.", labels=[*names, "state"])
        oldest = GaugeMetricFamily(
            "ackline_oldest_queued_seconds",
            "How long the first job in line has been there.",
            labels=names,
        )
        expired = CounterMetricFamily(
            "ackline_expired_leases",
            "Leases taken back from consumers, by who noticed.",
            labels=[*names, "way"],
        )
        now = store.now()
        for info in filter(self._wanted, store.describe(self._tenant)):
            place = [info.key.tenant, info.key.name]
            for state, number in info.counts.items():
                jobs.add_metric([*place, state], number)
            oldest.add_metric(place, oldest_age(store, info, now))
            by_way = load_recovery_counts(store, info.key)
            for way in RecoveredBy:
                expired.add_metric([*place, way], by_way[way].jobs if way in by_way else 0)
        yield from (jobs, oldest, expired)

    def _wanted(self, info: QueueInfo) -> bool:
        return self._may_see(info.key.name)


def oldest_age(store: Store, info: QueueInfo, now: float) -> float:
    """How long the first job in line has been there; 0 if there is none."""
    if not info.counts[State.QUEUED]:
        return 0.0
    first = next_job_created_at(store, info.key)
    return 0.0 if first is None else max(0.0, now - first)


def next_job_created_at(store: Store, queue: QueueKey) -> float | None:
    """When the first job in line was enqueued; None if there is none."""
    first = store.page(queue, _FIRST, None, 1).jobs
    return first[0].created_at if first else None
