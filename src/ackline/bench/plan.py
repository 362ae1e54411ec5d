"""How much to measure, and of what."""

from __future__ import annotations

import msgspec

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
    """The size of each measure."""

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
