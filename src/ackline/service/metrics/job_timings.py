"""How long jobs that pass through this process wait and run."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from ackline.core.events import Act
from ackline.core.job import QueueKey, State
from ackline.core.lifecycle import Transition, Verdict
from ackline.metrics.histogram import DurationHistogram
from ackline.stores.contract import ClaimResult

MAX_RUNNING = 100_000
"""Maximum number of running jobs to remember; older ones are not measured."""


class JobTimings(Collector):
    """Measures the claims and settled jobs that pass through this process, batch by batch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waits: defaultdict[QueueKey, DurationHistogram] = defaultdict(DurationHistogram)
        self._runs: defaultdict[QueueKey, DurationHistogram] = defaultdict(DurationHistogram)
        self._stale: defaultdict[QueueKey, int] = defaultdict(int)
        self._started_at: OrderedDict[tuple[QueueKey, str, int], float] = OrderedDict()

    def claimed(self, key: QueueKey, claimed: ClaimResult) -> None:
        """Record claimed jobs."""
        if not claimed.jobs:
            return
        started_at = time.monotonic()
        with self._lock:
            waits = self._waits[key]
            for job in claimed.jobs:
                waits.add(max(0.0, claimed.now - (job.run_at or job.created_at)))
                self._started_at[key, job.id, job.token] = started_at
            while len(self._started_at) > MAX_RUNNING:
                self._started_at.popitem(last=False)

    def settled(
        self, key: QueueKey, transitions: Sequence[Transition], verdicts: Sequence[Verdict]
    ) -> None:
        """Record the store's verdicts on these transitions."""
        now = time.monotonic()
        with self._lock:
            for transition, verdict in zip(transitions, verdicts, strict=True):
                if transition.token is None or transition.act is Act.EXPIRE:
                    continue
                if not verdict.applied:
                    self._stale[key] += 1
                elif verdict.state is not State.PROCESSING:
                    started_at = self._started_at.pop((key, transition.id, transition.token), None)
                    if started_at is not None:
                        self._runs[key].add(now - started_at)

    def retain_queues(self, queues: Collection[QueueKey]) -> None:
        """Report these queues, even before anything happens, and forget all others."""
        with self._lock:
            self._stale.update({key: 0 for key in queues if key not in self._stale})
            metrics: tuple[dict[QueueKey, Any], ...] = (self._waits, self._runs, self._stale)
            for by_queue in metrics:
                for key in by_queue.keys() - set(queues):
                    del by_queue[key]

    def collect(self) -> Iterator[Metric]:
        labels = ["tenant", "queue"]
        waits = HistogramMetricFamily(
            "ackline_job_wait_seconds", "From when a job became due to its claim.", labels=labels
        )
        runs = HistogramMetricFamily(
            "ackline_job_run_seconds", "From a job's claim until it was settled.", labels=labels
        )
        stale = CounterMetricFamily(
            "ackline_stale_settles", "Outcomes refused because the lease was lost.", labels=labels
        )
        with self._lock:
            for family, by_queue in ((waits, self._waits), (runs, self._runs)):
                for key, histogram in by_queue.items():
                    family.add_metric([key.tenant, key.name], histogram.buckets, histogram.total)
            for key, number in self._stale.items():
                stale.add_metric([key.tenant, key.name], number)
        yield from (waits, runs, stale)
