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
class ComparedQueue:
    """One row of the tables."""

    program: str
    environment: str
    settings: tuple[str, ...] = ()
    variant: str = ""
    measures: tuple[str, ...] = ENQUEUE + WORK
    share: float = 1.0
    """Fraction of the jobs: fast peers need many, slow ones would take hours."""


REDIS_QUEUES = {
    "ackline": ComparedQueue("ackline_redis.py", OWN),
    "ackline-async": ComparedQueue(
        "ackline_redis.py",
        OWN,
        settings=("handlers=async",),
        variant="async handlers",
        measures=("bulk", *WORK),
    ),
    "bullmq": ComparedQueue("node/bullmq.mjs", NODE, share=0.4),
    "job-queue": ComparedQueue("node/job_queue.mjs", NODE, share=0.4),
    "huey": ComparedQueue("huey_redis.py", PEERS, share=0.1),
    "dramatiq": ComparedQueue("dramatiq_redis.py", PEERS, share=0.1),
    "taskiq": ComparedQueue("taskiq_streams.py", PEERS, share=0.1),
    "arq": ComparedQueue("arq_redis.py", OLDER_REDIS, share=0.05),
    "saq": ComparedQueue("saq_redis.py", OLDER_REDIS, share=0.05),
    "celery": ComparedQueue("celery_redis.py", PEERS, share=0.03),
    "rq": ComparedQueue("rq_redis.py", PEERS, share=0.01),
}

POSTGRES_QUEUES = {
    "ackline": ComparedQueue("ackline_postgres.py", OWN),
    "ackline-async": ComparedQueue(
        "ackline_postgres.py",
        OWN,
        settings=("handlers=async",),
        variant="async handlers",
        measures=("bulk", *WORK),
    ),
    "pgqueuer": ComparedQueue("pgqueuer_postgres.py", ON_POSTGRES, measures=WITHOUT_RESULTS),
    "procrastinate": ComparedQueue(
        "procrastinate_postgres.py", ON_POSTGRES, measures=WITHOUT_RESULTS, share=0.05
    ),
    "oban": ComparedQueue("oban_postgres.py", OBAN, measures=WITHOUT_RESULTS, share=0.1),
    "bullmq": ComparedQueue("node/bullmq_postgres.mjs", NODE, share=0.1),
}
