"""What workers of this process do: how long jobs wait and run, how they end, what is claimed."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from ackline.core.job import QueueKey, State
from ackline.core.lifecycle import Transition, Verdict
from ackline.metrics.histogram import BOUNDS, DurationHistogram
from ackline.worker.job_log import LOST
from ackline.worker.leased_jobs import COMPLETE

if TYPE_CHECKING:
    from ackline.worker import WorkerStats
    from ackline.worker.leased_jobs import EndedJob, JobObserver, LeasedJob


class ObservedWorker(Protocol):
    """What is measured: an `ackline.Worker`, or one of `ackline.aio`."""

    def observe(self, observer: JobObserver) -> None: ...

    def stats(self) -> WorkerStats: ...


class KindMetrics:
    """What jobs of one kind have done so far."""

    __slots__ = ("completed", "outcomes", "runs", "waits")

    def __init__(self) -> None:
        self.waits = DurationHistogram()
        self.runs = DurationHistogram()
        self.completed = 0
        self.outcomes: defaultdict[str, int] = defaultdict(int)
        """How often other states followed."""


class WorkerMetrics(Collector):
    """The metrics of workers, as a collector for a Prometheus registry.

    >>> prometheus_client.REGISTRY.register(WorkerMetrics(worker))  # doctest: +SKIP
    """

    def __init__(self, *workers: ObservedWorker) -> None:
        self._lock = threading.Lock()
        self._kinds: defaultdict[QueueKey, defaultdict[str, KindMetrics]] = defaultdict(
            lambda: defaultdict(KindMetrics)
        )
        self._workers: list[ObservedWorker] = []
        for worker in workers:
            self.add(worker)

    def add(self, worker: ObservedWorker) -> None:
        """Measure one more worker, which has not started yet."""
        worker.observe(self)
        self._workers.append(worker)

    def stats(self) -> list[WorkerStats]:
        """What the workers are doing."""
        return [worker.stats() for worker in self._workers]

    def settled(
        self, key: QueueKey, batch: Sequence[EndedJob], verdicts: Sequence[Verdict]
    ) -> None:
        """Count outcomes; called by the worker for each batch that the store has answered."""
        # Written out, as this is done for each job: see `DurationHistogram.add`.
        with self._lock:
            kinds = self._kinds[key]
            for (job, transition), verdict in zip(batch, verdicts, strict=True):
                record, seconds = job.record, job.run_seconds
                kind = kinds[record.kind]
                if verdict.applied and transition.act is COMPLETE:
                    kind.completed += 1
                else:
                    kind.outcomes[_outcome(job, transition, verdict)] += 1
                if seconds is None:
                    continue
                runs = kind.runs
                runs.counts[bisect_left(BOUNDS, seconds)] += 1
                runs.total += seconds
                if record.attempts == 1 and record.started_at is not None:
                    wait = record.started_at - record.created_at
                    waits = kind.waits
                    waits.counts[bisect_left(BOUNDS, wait)] += 1
                    waits.total += wait if wait > 0 else 0.0

    def lost(self, key: QueueKey, job: LeasedJob) -> None:
        """Count a lost lease."""
        with self._lock:
            self._kinds[key][job.kind].outcomes[LOST] += 1

    def collect(self) -> Iterator[Metric]:
        yield from self._collect_jobs()
        yield from self._collect_workers()

    def _collect_jobs(self) -> Iterator[Metric]:
        labels = ["tenant", "queue", "kind"]
        waits = HistogramMetricFamily(
            "ackline_worker_job_wait_seconds",
            "From enqueue to the claim of a job's first attempt, with its delay and snoozes.",
            labels=labels,
        )
        runs = HistogramMetricFamily(
            "ackline_worker_job_run_seconds", "How long handlers ran.", labels=labels
        )
        jobs = CounterMetricFamily(
            "ackline_worker_jobs", "Jobs by the state that followed.", labels=[*labels, "outcome"]
        )
        with self._lock:
            found = [
                ([key.tenant, key.name, kind], metrics)
                for key, kinds in self._kinds.items()
                for kind, metrics in kinds.items()
            ]
            for names, metrics in found:
                waits.add_metric(names, metrics.waits.buckets, metrics.waits.total)
                runs.add_metric(names, metrics.runs.buckets, metrics.runs.total)
                jobs.add_metric([*names, State.COMPLETED], metrics.completed)
                for outcome, number in metrics.outcomes.items():
                    jobs.add_metric([*names, outcome], number)
        return iter((waits, runs, jobs))

    def _collect_workers(self) -> Iterator[Metric]:
        workers = self.stats()
        labels = ["tenant", "queue"]
        gauges = {
            "running": "Handlers that are running.",
            "prefetched": "Leased jobs that wait for a free handler.",
            "concurrency": "Handlers that may run at once.",
        }
        families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {
            name: GaugeMetricFamily(f"ackline_worker_{name}", help, labels=labels)
            for name, help in gauges.items()
        }
        families["heartbeat_age"] = GaugeMetricFamily(
            "ackline_worker_heartbeat_age_seconds",
            "Time since the store accepted a heartbeat.",
            labels=labels,
        )
        for name, help in {"claims": "Claims.", "claimed_jobs": "Jobs that were claimed."}.items():
            families[name] = CounterMetricFamily(f"ackline_worker_{name}", help, labels=labels)
        for queue in (queue for worker in workers for queue in worker.queues):
            for name, family in families.items():
                family.add_metric([queue.key.tenant, queue.key.name], getattr(queue, name))
        ready = sum(worker.ready for worker in workers)
        yield GaugeMetricFamily("ackline_worker_ready", "Workers that are ready.", ready)
        yield from families.values()


def _outcome(job: LeasedJob, transition: Transition, verdict: Verdict) -> str:
    if verdict.applied:
        cancelled = verdict.state is State.CANCELLED
        return State.CANCELLED if cancelled or transition.to is None else transition.to
    if job.settled_in_transaction and verdict.state not in (None, State.PROCESSING):
        return verdict.state or LOST
    return LOST
