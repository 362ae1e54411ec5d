"""Who is compared, and where each one's program and its packages are."""

from __future__ import annotations

from dataclasses import dataclass

OWN = "own"
PEERS = "peers"
OLDER_REDIS = "peers-older-redis"
NODE = "node"

ENQUEUE = ("one", "concurrent", "bulk")
WORK = ("drain", "start", "round_trip")


@dataclass(frozen=True)
class Entry:
    """One row of the tables."""

    program: str
    environment: str
    settings: tuple[str, ...] = ()
    variant: str = ""
    measures: tuple[str, ...] = ENQUEUE + WORK


ENTRIES = {
    "ackline": Entry("ackline_redis.py", OWN),
    "ackline-async": Entry(
        "ackline_redis.py",
        OWN,
        settings=("handlers=async",),
        variant="async handlers",
        measures=("bulk", *WORK),
    ),
    "bullmq": Entry("node/bullmq.mjs", NODE),
    "job-queue": Entry("node/job_queue.mjs", NODE),
    "huey": Entry("huey_redis.py", PEERS),
    "dramatiq": Entry("dramatiq_redis.py", PEERS),
    "taskiq": Entry("taskiq_streams.py", PEERS),
    "arq": Entry("arq_redis.py", OLDER_REDIS),
    "saq": Entry("saq_redis.py", OLDER_REDIS),
    "celery": Entry("celery_redis.py", PEERS),
    "rq": Entry("rq_redis.py", PEERS),
}
