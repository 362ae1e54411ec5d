"""What becomes of jobs on their way through this process: how long they wait and run."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from ackline.core.events import Act
from ackline.core.job import QueueKey, State
from ackline.core.lifecycle import Transition, Verdict
from ackline.stores.contract import ClaimResult

BOUNDS = (0.005, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 60.0, 300.0, 1800.0, 7200.0, 86_400.0)
MAX_RUNNING = 100_000
"""Running jobs that are remembered; how long older ones ran is not measured."""


class DurationHistogram:
    """Spans of time, counted by length."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one more span."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    @property
    def buckets(self) -> list[tuple[str, float]]:
        """As Prometheus wants them: how many up to each length."""
        bounds = [*map(str, BOUNDS), "+Inf"]
        return list(zip(bounds, map(float, accumulate(self.counts)), strict=True))


class JobTimings(Collector):
    """Measures the claims and settlings that go through this process, batch by batch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waits: defaultdict[QueueKey, DurationHistogram] = defaultdict(DurationHistogram)
        self._runs: defaultdict[QueueKey, DurationHistogram] = defaultdict(DurationHistogram)
        self._stale: defaultdict[QueueKey, int] = defaultdict(int)
        self._started_at: OrderedDict[tuple[QueueKey, str, int], float] = OrderedDict()

    def claimed(self, key: QueueKey, claimed: ClaimResult) -> None:
        """Jobs were handed out."""
        if not claimed.jobs:
            return
        began = time.monotonic()
        with self._lock:
            waits = self._waits[key]
            for job in claimed.jobs:
                waits.add(max(0.0, claimed.now - (job.run_at or job.created_at)))
                self._started_at[key, job.id, job.token] = began
            while len(self._started_at) > MAX_RUNNING:
                self._started_at.popitem(last=False)

    def settled(
        self, key: QueueKey, steps: Sequence[Transition], verdicts: Sequence[Verdict]
    ) -> None:
        """The store has answered these transitions."""
        now = time.monotonic()
        with self._lock:
            for step, verdict in zip(steps, verdicts, strict=True):
                if step.token is None or step.act is Act.EXPIRE:
                    continue
                if not verdict.applied:
                    self._stale[key] += 1
                elif verdict.state is not State.PROCESSING:
                    began = self._started_at.pop((key, step.id, step.token), None)
                    if began is not None:
                        self._runs[key].add(now - began)

    def retain_queues(self, queues: Collection[QueueKey]) -> None:
        """Report these queues, even before anything happens; forget all others: they are gone."""
        with self._lock:
            self._stale.update({key: 0 for key in queues if key not in self._stale})
            figures: tuple[dict[QueueKey, Any], ...] = (self._waits, self._runs, self._stale)
            for by_queue in figures:
                for key in by_queue.keys() - set(queues):
                    del by_queue[key]

    def collect(self) -> Iterator[Metric]:
        labels = ["tenant", "queue"]
        waits = HistogramMetricFamily(
            "ackline_job_wait_seconds", "From when a job was due to its claim.", labels=labels
        )
        runs = HistogramMetricFamily(
            "ackline_job_run_seconds", "From a job's claim to its settling.", labels=labels
        )
        stale = CounterMetricFamily(
            "ackline_stale_settles", "Settlings that came too late and were refused.", labels=labels
        )
        with self._lock:
            for family, by_queue in ((waits, self._waits), (runs, self._runs)):
                for key, spans in by_queue.items():
                    family.add_metric([key.tenant, key.name], spans.buckets, spans.total)
            for key, number in self._stale.items():
                stale.add_metric([key.tenant, key.name], number)
        yield from (waits, runs, stale)
