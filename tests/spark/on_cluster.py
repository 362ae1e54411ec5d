"""Drivers for a cluster: `python -m tests.spark.on_cluster WHAT MASTER STORE FOLDER`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ackline
from ackline.spark.fleet.fleet import Fleet
from ackline.spark.fleet.running import run_fleet
from ackline.spark.lake.running import Asked, Run
from ackline.spark.session import spark_session

SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.driver.host": "127.0.0.1",
}


def kill_executor_once(folder: Path) -> None:
    """The Java process that a task's Python belongs to: the parent of its parent."""
    try:
        (folder / "killed").touch(exist_ok=False)
    except FileExistsError:
        return
    daemon = os.getppid()
    fields = Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()
    os.kill(int(fields[1]), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def claims(spark: Any, url: str, folder: Path) -> None:
    def dying(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            kill_executor_once(folder)
            yield batch

    def sink(batch: Any, number: int) -> None:
        batch.mapInArrow(dying, batch.schema).write.mode("overwrite").parquet(
            f"{folder}/claims/batch_id={number}"
        )

    options = {"store": url, "queue": "email", "streamId": "s", "maxJobsPerTrigger": "50"}
    query = (
        spark.readStream.format("ackline")
        .options(**options, wait="0")
        .load("jobs")
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


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
    {"claims": claims, "fleet": fleet, "lake": lake}[what](spark, url, Path(folder))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
