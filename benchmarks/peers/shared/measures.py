"""The measures: each the same for all peers."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Sequence

from shared.peer import PAYLOAD, Peer, finish, from_many_callers
from shared.worker import TENTHS, Worker

WARM_UP = 20
"""Samples of a latency that do not count: the worker is still starting."""

GAP = (0.002, 0.012)
"""Seconds between two samples: the worker is idle again, and no poller is met in step."""


async def enqueue_one(peer: Peer, jobs: int) -> dict[str, float]:
    began = time.perf_counter()
    for _ in range(jobs):
        await finish(peer.enqueue(PAYLOAD))
    return rate(jobs, began)


async def enqueue_bulk(peer: Peer, jobs: int) -> dict[str, float]:
    payloads = [PAYLOAD] * jobs
    began = time.perf_counter()
    await finish(peer.enqueue_many(payloads))
    return rate(jobs, began)


async def enqueue_concurrent(peer: Peer, jobs: int) -> dict[str, float]:
    began = time.perf_counter()
    await from_many_callers(peer.shared_enqueue, jobs)
    return rate(jobs, began)


async def drain(peer: Peer, jobs: int) -> dict[str, float]:
    """From the start of the first job until the server has the last acknowledgement."""
    with Worker("tally", jobs) as worker:
        first, used_before = worker.numbers()
        _, used = worker.numbers()
        while await finish(peer.left()):
            await asyncio.sleep(0.0005)
        return {**rate(jobs, first), "worker_us": (used - used_before) / jobs * 1e6}


async def long_drain(peer: Peer, jobs: int) -> dict[str, float]:
    """When the first job begins, and the last one of each tenth; only the worker runs meanwhile."""
    with Worker("progress", jobs) as worker:
        moments = [worker.numbers()[0] for _ in range(TENTHS + 1)]
        while await finish(peer.left()):
            await asyncio.sleep(0.01)
    return {f"moment_{at}": moment for at, moment in enumerate(moments)}


async def start_latency(peer: Peer, samples: int) -> dict[str, float]:
    """From before the call that enqueues until the handler runs, in another process."""
    with Worker("stamp", samples) as worker:

        async def sample() -> float:
            await finish(peer.enqueue({**PAYLOAD, "at": time.perf_counter()}))
            [seconds] = worker.numbers()
            return seconds

        return await latency(sample, samples)


async def round_trip(peer: Peer, samples: int) -> dict[str, float]:
    """From before the call that enqueues until its caller has the result."""
    with Worker("echo", samples):

        async def sample() -> float:
            began = time.perf_counter()
            answer = await finish(peer.request(PAYLOAD))
            took = time.perf_counter() - began
            if answer != PAYLOAD:
                raise SystemExit(f"the answer is wrong: {answer!r}")
            return took

        return await latency(sample, samples)


MEASURES: dict[str, Callable[[Peer, int], Awaitable[dict[str, float]]]] = {
    "one": enqueue_one,
    "bulk": enqueue_bulk,
    "concurrent": enqueue_concurrent,
    "drain": drain,
    "long_drain": long_drain,
    "start": start_latency,
    "round_trip": round_trip,
}


def rate(jobs: int, began: float) -> dict[str, float]:
    return {"per_second": jobs / (time.perf_counter() - began)}


async def latency(sample: Callable[[], Awaitable[float]], samples: int) -> dict[str, float]:
    chance = random.Random(samples)
    taken = []
    for _ in range(WARM_UP + samples):
        await asyncio.sleep(chance.uniform(*GAP))
        taken.append(await sample())
    ordered = sorted(taken[WARM_UP:])
    return {"p50_ms": quantile(ordered, 0.5) * 1e3, "p99_ms": quantile(ordered, 0.99) * 1e3}


def quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[math.ceil(share * len(ordered)) - 1]
