"""A stream of claims as a driver of its own, in which a process is killed with SIGKILL:
`python -m tests.spark.support.killed_stream MASTER STORE FOLDER [VICTIM:POINT]`.

| victim | |
| --- | --- |
| driver | its process group: the Java machine dies with it, at once and without a word |
| worker | the Python process that runs the task |
| executor | the Java process that this one belongs to, on a cluster |
| all | the driver and an executor |

A worker and an executor leave a driver behind that goes on. They die once, in a micro-batch that
waits for them: `Gate` lets the test do something to its leases first.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import InputPartition
from tests.waiting import until

from ackline.spark.data_source import AcklineSource
from ackline.spark.runtime.session import spark_session
from ackline.spark.streams.claims.stream_reader import ClaimsStreamReader

BATCH = 40
STREAM = "lake"

SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.driver.host": "127.0.0.1",
}


class Gate:
    """Two files by which a process that is about to die, and the test, wait for each other."""

    def __init__(self, folder: Path) -> None:
        self._reached = folder / "reached"
        self._opened = folder / "opened"

    @property
    def is_reached(self) -> bool:
        return self._reached.exists()

    def open(self) -> None:
        self._opened.touch()

    def is_first(self) -> bool:
        """Whether no one was here before."""
        try:
            self._reached.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def wait(self) -> None:
        until(self._opened.exists, 120.0, "the test never opened the gate")


@dataclass(frozen=True)
class Death:
    """Who dies where. It travels with the tasks: on a cluster no other process knows of it."""

    victim: str
    point: str
    folder: Path
    group: int

    def pass_by(self, point: str) -> None:
        """Die here, if it is the point to die at."""
        if point != self.point:
            return
        gate = Gate(self.folder)
        if not gate.is_first():
            return
        if self.victim in ("worker", "executor"):
            gate.wait()
        if self.victim in ("driver", "all"):
            os.killpg(self.group, signal.SIGKILL)
        if self.victim in ("executor", "all"):
            os.kill(java_of_this_task(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def java_of_this_task() -> int:
    """The parent of its parent, for Spark's Pythons are forked by one of them."""
    fields = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1])


def source_of(death: Death) -> type[AcklineSource]:
    """The format as it is, but for the points that it passes."""

    class DyingReader(ClaimsStreamReader):
        def latestOffset(self, start: Any, limit: Any) -> dict[str, Any]:  # noqa: N802
            end = super().latestOffset(start, limit)
            if end["batch"] == 2 and start["batch"] == 1:
                death.pass_by("claimed")
            return end

        def read(self, partition: InputPartition) -> Iterator[Any]:
            for batch in super().read(partition):
                death.pass_by("read")
                yield batch

    class DyingSource(AcklineSource):
        @classmethod
        def name(cls) -> str:
            return "dying"

        def streamReader(self, schema: Any) -> DyingReader:  # noqa: N802
            reader = super().streamReader(schema)
            assert isinstance(reader, ClaimsStreamReader)
            return DyingReader(reader.options, reader.address)

    return DyingSource


def main(master: str, url: str, folder: Path, victim: str, point: str) -> None:
    death = Death(victim, point, folder, os.getpgid(0))
    spark = spark_session(master, settings=SETTINGS)
    spark.dataSource.register(source_of(death))

    def in_a_task(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            death.pass_by("task")
            yield batch

    def sink(batch: Any, number: int) -> None:
        if number == 1:
            batch = batch.mapInArrow(in_a_task, batch.schema)
        batch.write.mode("overwrite").parquet(f"{folder}/lake/batch_id={number}")
        if number == 1:
            death.pass_by("sunk")

    options = {"store": url, "queue": "email", "streamId": STREAM, "wait": "0"}
    query = (
        spark.readStream.format("dying")
        .options(**options, maxJobsPerTrigger=str(BATCH), partitions="2")
        .load("jobs")
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    spec = sys.argv[4] if len(sys.argv) > 4 else ":"
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), *spec.split(":"))
