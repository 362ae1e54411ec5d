"""The queues that are compared, and where the program and the packages of each are."""

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
    """The share of the jobs: fast peers need many, slow ones would take hours for them."""


REDIS_FIELD = {
    "ackline": Entry("ackline_redis.py", OWN),
    "ackline-async": Entry(
        "ackline_redis.py",
        OWN,
        settings=("handlers=async",),
        variant="async handlers",
        measures=("bulk", *WORK),
    ),
    "bullmq": Entry("node/bullmq.mjs", NODE, share=0.4),
    "job-queue": Entry("node/job_queue.mjs", NODE, share=0.4),
    "huey": Entry("huey_redis.py", PEERS, share=0.1),
    "dramatiq": Entry("dramatiq_redis.py", PEERS, share=0.1),
    "taskiq": Entry("taskiq_streams.py", PEERS, share=0.1),
    "arq": Entry("arq_redis.py", OLDER_REDIS, share=0.05),
    "saq": Entry("saq_redis.py", OLDER_REDIS, share=0.05),
    "celery": Entry("celery_redis.py", PEERS, share=0.03),
    "rq": Entry("rq_redis.py", PEERS, share=0.01),
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
