"""A fleet that Spark gives up: `python -m tests.spark.support.abandoned_fleet STORE FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.spark.support.cluster_programs import kill_executor_once
from tests.spark.support.killed_stream import SETTINGS

import ackline
from ackline.spark.fleet.fleet import Fleet
from ackline.spark.fleet.running import run_fleet
from ackline.spark.runtime.session import spark_session

DEADLY = (7, 8, 9)
"""Payloads that kill the executor which runs them, each once: of two workers, one dies twice."""


def main(url: str, folder: Path) -> None:
    def load() -> Any:
        queue = ackline.open(url)["email"]

        @queue.handler("welcome", lease=3.0, max_attempts=10)
        def welcome(job: Any) -> Any:
            if job.payload in DEADLY:
                deaths = folder / str(job.payload)
                deaths.mkdir(exist_ok=True)
                kill_executor_once(deaths)
            return job.payload

        return [queue]

    settings = SETTINGS | {"spark.task.maxFailures": "2"}
    spark = spark_session("local-cluster[2,1,1024]", settings=settings)
    fleet = Fleet(name="f", executors=2, concurrency=1, until_empty=True)
    served = run_fleet(spark, load, fleet)
    print("ended", sum(one.ended for one in served))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
