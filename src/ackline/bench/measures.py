"""The measures: each uses a queue of its own, and the public library."""

from __future__ import annotations

import asyncio
import gc
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from ackline.aio import AsyncQueue
from ackline.core import lifecycle
from ackline.core.ids import new_id
from ackline.core.job import State
from ackline.core.lifecycle import Transition
from ackline.queue import NewJob, Queue
from ackline.queues import Queues
from ackline.stores.contract import ClaimRequest
from ackline.worker import Worker

MEASURES = (
    "enqueue one",
    "enqueue bulk",
    "enqueue concurrent",
    "drain sync",
    "drain async",
    "start latency",
    "round trip",
    "growth",
    "many queues",
    "scheduled",
)


class BenchmarkPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Which measures to run, and their size."""

    jobs: int = 20_000
    singles: int = 1_000
    callers: int = 100
    round_trips: int = 300
    concurrency: int = 64
    payload_bytes: int = 100
    growth: tuple[int, ...] = (10_000, 100_000)
    queues: int = 100
    scheduled: int = 100_000
    measures: tuple[str, ...] = MEASURES


TIMEOUT = 600.0
"""Seconds after which a measure fails."""


class Measurement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One result: a rate, or latencies in milliseconds."""

    name: str
    jobs: int
    seconds: float
    per_second: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    note: str = ""


def measure(queues: Queues, plan: BenchmarkPlan) -> Iterator[Measurement]:
    """Run the planned measures one after the other."""
    for name in plan.measures:
        gc.collect()  # else a full collection falls into one measure or another, by chance
        yield from _MEASURES[name](queues, plan)


def _new_queue(queues: Queues, name: str) -> Queue[Any, Any]:
    return queues[f"bench {name} {new_id()}"]


def _payload(plan: BenchmarkPlan) -> dict[str, object]:
    return {"order": 12345, "pad": "x" * max(0, plan.payload_bytes - 25)}


def _rate(name: str, jobs: int, started_at: float, note: str = "") -> Measurement:
    seconds = time.perf_counter() - started_at
    return Measurement(name=name, jobs=jobs, seconds=seconds, per_second=jobs / seconds, note=note)


def _latency(name: str, samples: Sequence[float]) -> Measurement:
    ordered = sorted(samples)
    return Measurement(
        name=name,
        jobs=len(ordered),
        seconds=sum(ordered),
        p50_ms=_quantile(ordered, 0.5) * 1e3,
        p99_ms=_quantile(ordered, 0.99) * 1e3,
    )


def _quantile(ordered: Sequence[float], fraction: float) -> float:
    return ordered[min(len(ordered) - 1, math.ceil(fraction * len(ordered)) - 1)]


def _enqueue_one(queues: Queues, plan: BenchmarkPlan) -> Iterator[Measurement]:
    queue, payload = _new_queue(queues, "one"), _payload(plan)
    started_at = time.perf_counter()
    for _ in range(plan.singles):
        queue.enqueue(payload)
    yield _rate("enqueue, one call each", plan.singles, started_at)


def _enqueue_bulk(queues: Queues, plan: BenchmarkPlan) -> Iterator[Measurement]:
    queue, payload = _new_queue(queues, "bulk"), _payload(plan)
    started_at = time.perf_counter()
    queue.enqueue_many([payload] * plan.jobs)
    yield _rate("enqueue, bulk", plan.jobs, started_at)

    named = _new_queue(queues, "bulk named")
    jobs = [NewJob(payload, id=f"order-{number * 7919 % plan.jobs}") for number in range(plan.jobs)]
    started_at = time.perf_counter()
    named.enqueue_many(jobs)
    yield _rate("enqueue, bulk with ids", plan.jobs, started_at, "ids given by the caller")


def _enqueue_concurrent(queues: Queues, plan: BenchmarkPlan) -> Iterator[Measurement]:
    queue, payload = AsyncQueue(_new_queue(queues, "concurrent")), _payload(plan)
    each = max(1, plan.jobs // plan.callers)

    async def call() -> None:
        for _ in range(each):
            await queue.enqueue(payload)

    async def all_callers() -> None:
        await asyncio.gather(*(call() for _ in range(plan.callers)))

    started_at = time.perf_counter()
    asyncio.run(all_callers())
    yield _rate(
        "enqueue, concurrent", each * plan.callers, started_at, f"{plan.callers} asyncio callers"
    )


def _drain_sync(queues: Queues, plan: BenchmarkPlan) -> Iterator[Measurement]:
    def handler(_job: Any) -> None:
        return None

    yield _drain(queues, plan, plan.jobs, handler, "drain, sync handler")


def _drain_async(queues: Queues, plan: BenchmarkPlan) -> Iterator[Measurement]:
    async def handler(_job: Any) -> None:
        return None

    yield _drain(queues, plan, plan.jobs, handler, "drain, async handler")


def _drain(
    queues: Queues, plan: BenchmarkPlan, jobs: int, handler: Callable[[Any], Any], name: str
) -> Measurement:
    queue = _new_queue(queues, name)
    queue.enqueue_many([_payload(plan)] * jobs)
    queue.handler(handler)
    worker = Worker(queue, concurrency=plan.concurrency)
    started_at = time.perf_counter()
    worker.start()
    _await_completed(queue, jobs)
    figure = _rate(name, jobs, started_at, "1 worker process")
    worker.stop()
    return figure


def _await_completed(queue: Queue[Any, Any], jobs: int) -> None:
    until = time.monotonic() + TIMEOUT
    with queue.store.listen([queue.key], "changes") as listener:
        while queue.counts()[State.COMPLETED] < jobs:
            # Polling without a pause would slow down what is measured.
            time.sleep(0.002)
            listener.wait(0.1)
            if time.monotonic() > until:
                raise TimeoutError(f"{queue} did not drain in {TIMEOUT:g} s: {queue.counts()}")


def _start_latency(queues: Queues, plan: BenchmarkPlan) -> Iterator[Measurement]:
    queue, started = _new_queue(queues, "latency"), threading.Event()
    samples: list[float] = []

    @queue.handler
    def record_start(job: Any) -> None:
        samples.append(time.perf_counter() - job.payload)
        started.set()

    worker = Worker(queue, concurrency=4)
    worker.start()
    for _ in range(plan.round_trips):
        started.clear()
        queue.enqueue(time.perf_counter())
        started.wait(TIMEOUT)
    worker.stop()
    yield _latency("enqueue to start", samples)


def _round_trip(queues: Queues, plan: BenchmarkPlan) -> Iterator[Measurement]:
    queue = _new_queue(queues, "round trip")
    queue.handler(lambda job: job.payload)
    worker = Worker(queue, concurrency=4)
    worker.start()
    samples = []
    for number in range(plan.round_trips):
        started_at = time.perf_counter()
        queue.enqueue_and_wait(number, timeout=TIMEOUT)
        samples.append(time.perf_counter() - started_at)
    worker.stop()
    yield _latency("round trip", samples)


def _growth(queues: Queues, plan: BenchmarkPlan) -> Iterator[Measurement]:
    """The cost of a job while many others are queued: it should not depend on how many."""
    sample = min(plan.growth)
    for waiting in plan.growth:
        queue = _new_queue(queues, "growth")
        payload = _payload(plan)
        for _ in range(0, waiting - sample, 10_000):
            queue.enqueue_many([payload] * min(10_000, waiting))
        started_at = time.perf_counter()
        queue.enqueue_many([payload] * sample)
        yield _rate(f"enqueue with {waiting:,} waiting", sample, started_at)
        started_at = time.perf_counter()
        done = _claim_and_complete(queue, sample)
        yield _rate(f"claim and complete with {waiting:,} waiting", done, started_at)


def _many_queues(queues: Queues, plan: BenchmarkPlan) -> Iterator[Measurement]:
    """The cost of a job in one of many queues: it should not depend on how many there are."""
    each = max(1, plan.jobs // plan.queues)
    all_queues = [_new_queue(queues, f"one of {plan.queues}") for _ in range(plan.queues)]
    started_at = time.perf_counter()
    for queue in all_queues:
        queue.enqueue_many([_payload(plan)] * each)
    yield _rate(f"enqueue over {plan.queues} queues", each * plan.queues, started_at)
    started_at = time.perf_counter()
    done = sum(_claim_and_complete(queue, each) for queue in all_queues)
    yield _rate(f"claim and complete over {plan.queues} queues", done, started_at)


def _with_scheduled(queues: Queues, plan: BenchmarkPlan) -> Iterator[Measurement]:
    """The cost of a job while many others are scheduled: it should not depend on them."""
    queue, payload = _new_queue(queues, "scheduled"), _payload(plan)
    for _ in range(0, plan.scheduled, 10_000):
        later = [NewJob(payload, delay=86_400.0)] * min(10_000, plan.scheduled)
        queue.enqueue_many(later)
    sample = min(plan.growth)
    started_at = time.perf_counter()
    queue.enqueue_many([payload] * sample)
    yield _rate(f"enqueue with {plan.scheduled:,} scheduled", sample, started_at)
    started_at = time.perf_counter()
    done = _claim_and_complete(queue, sample)
    yield _rate(f"claim and complete with {plan.scheduled:,} scheduled", done, started_at)


def _claim_and_complete(queue: Queue[Any, Any], jobs: int) -> int:
    done = 0
    transitions: list[Transition] = []
    batch = queue.store.capabilities.batch_size
    request = ClaimRequest(worker="bench", limit=batch, lease=60.0)
    while done < jobs:
        claimed = queue.claim_records(request, transitions)
        transitions = [
            lifecycle.complete(job, None, queue.policies.of(job)) for job in claimed.jobs
        ]
        done += len(claimed.jobs)
    queue.apply(transitions)
    return done


_MEASURES: dict[str, Callable[[Queues, BenchmarkPlan], Iterator[Measurement]]] = {
    "enqueue one": _enqueue_one,
    "enqueue bulk": _enqueue_bulk,
    "enqueue concurrent": _enqueue_concurrent,
    "drain sync": _drain_sync,
    "drain async": _drain_async,
    "start latency": _start_latency,
    "round trip": _round_trip,
    "growth": _growth,
    "many queues": _many_queues,
    "scheduled": _with_scheduled,
}
