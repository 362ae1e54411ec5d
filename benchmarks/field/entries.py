"""Who is compared, and where each one's program and its packages are."""

from __future__ import annotations

from dataclasses import dataclass

OWN = "own"
PEERS = "peers"
OLDER_REDIS = "peers-older-redis"
ON_POSTGRES = "peers-postgres"
OBAN = "peers-oban"
NODE = "node"

ENQUEUE = ("one", "concurrent", "bulk")
WORK = ("drain", "start", "round_trip")
WITHOUT_RESULTS = (*ENQUEUE, "drain", "start")


@dataclass(frozen=True)
class Entry:
    """One row of the tables."""

    program: str
    environment: str
    settings: tuple[str, ...] = ()
    variant: str = ""
    measures: tuple[str, ...] = ENQUEUE + WORK
    share: float = 1.0
    """Of the jobs that are drained: the slow ones would take hours for all of them."""


REDIS_FIELD = {
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

POSTGRES_FIELD = {
    "ackline": Entry("ackline_postgres.py", OWN),
    "ackline-async": Entry(
        "ackline_postgres.py",
        OWN,
        settings=("handlers=async",),
        variant="async handlers",
        measures=("bulk", *WORK),
    ),
    "pgqueuer": Entry("pgqueuer_postgres.py", ON_POSTGRES, measures=WITHOUT_RESULTS),
    "procrastinate": Entry(
        "procrastinate_postgres.py", ON_POSTGRES, measures=WITHOUT_RESULTS, share=0.05
    ),
    "oban": Entry("oban_postgres.py", OBAN, measures=WITHOUT_RESULTS, share=0.1),
    "bullmq": Entry("node/bullmq_postgres.mjs", NODE, share=0.1),
}
