"""A fleet and a lake on a cluster: `python -m tests.spark.support.cluster_programs WHAT MASTER
STORE FOLDER`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.spark.support.killed_stream import SETTINGS, Gate, java_of_this_task

import ackline
from ackline.spark.fleet.fleet import Fleet
from ackline.spark.fleet.running import run_fleet
from ackline.spark.lake.running import Asked, Run
from ackline.spark.runtime.session import spark_session


def kill_executor_once(folder: Path) -> None:
    if Gate(folder).is_first():
        os.kill(java_of_this_task(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def fleet(spark: Any, url: str, folder: Path) -> None:
    def load() -> Any:
        queue = ackline.open(url)["email"]

        @queue.handler("welcome", lease=3.0)
        def welcome(job: Any) -> Any:
            if job.payload == 7:
                kill_executor_once(folder)
            return job.payload

        return [queue]

    run_fleet(spark, load, Fleet(name="f", executors=2, until_empty=True))


def lake(spark: Any, url: str, folder: Path) -> None:
    with ackline.open(url) as queues:
        Run(spark, queues, Asked(url=url, tenant="default", lake=f"{folder}/lake")).to_now()


def main(what: str, master: str, url: str, folder: str) -> None:
    spark = spark_session(master, settings=SETTINGS)
    {"fleet": fleet, "lake": lake}[what](spark, url, Path(folder))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
