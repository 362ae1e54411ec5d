"""Metrics of the queues, from the store: the same in every process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ackline.core.events import RecoveredBy
from ackline.core.job import QueueKey, State
from ackline.queue.metadata.recovery_counts import load_recovery_counts
from ackline.stores.contract import Filter, QueueInfo, Store

if TYPE_CHECKING:
    from ackline.service.runtime import Runtime

_FIRST = Filter(states=frozenset({State.QUEUED}))


class QueueCollector(Collector):
    """Collects the metrics of the queues of one tenant, or of all."""

    def __init__(
        self,
        runtime: Runtime,
        tenant: str | None = None,
        can_see: Callable[[str], bool] = lambda _queue: True,
    ) -> None:
        self._runtime = runtime
        self._tenant = tenant
        self._can_see = can_see

    def collect(self) -> Iterator[Metric]:
        store = self._runtime.store
        names = ["tenant", "queue"]
        jobs = GaugeMetricFamily("ackline_jobs", "Jobs by state.", labels=[*names, "state"])
        oldest = GaugeMetricFamily(
            "ackline_oldest_queued_seconds",
            "How long the next job of the queue has been queued.",
            labels=names,
        )
        expired = CounterMetricFamily(
            "ackline_expired_leases",
            "Leases expired, by who noticed.",
            labels=[*names, "by"],
        )
        now = store.now()
        for info in filter(self._is_visible, store.describe(self._tenant)):
            labels = [info.key.tenant, info.key.name]
            for state, number in info.counts.items():
                jobs.add_metric([*labels, state], number)
            oldest.add_metric(labels, oldest_age(store, info, now))
            recovered = load_recovery_counts(store, info.key)
            for by in RecoveredBy:
                expired.add_metric([*labels, by], recovered[by].jobs if by in recovered else 0)
        yield from (jobs, oldest, expired)

    def _is_visible(self, info: QueueInfo) -> bool:
        return self._can_see(info.key.name)


def oldest_age(store: Store, info: QueueInfo, now: float) -> float:
    """How long the next job of a queue has been queued; 0 if there is none."""
    if not info.counts[State.QUEUED]:
        return 0.0
    first = next_job_created_at(store, info.key)
    return 0.0 if first is None else max(0.0, now - first)


def next_job_created_at(store: Store, queue: QueueKey) -> float | None:
    """When the next job of a queue was enqueued; None if there is none."""
    first = store.page(queue, _FIRST, None, 1).jobs
    return first[0].created_at if first else None
