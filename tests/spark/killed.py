"""A driver as a process of its own, that is killed at a point: `python -m tests.spark.killed …`.

Its process group is killed, so the Java machine dies with it, at once and without a word.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ackline.spark.claims.stream import ClaimsStreamReader
from ackline.spark.session import spark_session
from ackline.spark.source import AcklineSource

POINT, GROUP = "ACKLINE_TEST_POINT", "ACKLINE_TEST_GROUP"


def pass_point(point: str) -> None:
    """Die here, if it is the point to die at. Spark's workers know it from their environment."""
    if os.environ.get(POINT) == point:
        os.killpg(int(os.environ[GROUP]), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


class DyingReader(ClaimsStreamReader):
    """Dies after the second claim, before Spark can log it."""

    def latestOffset(self, start: Any, limit: Any) -> dict[str, Any]:  # noqa: N802
        end = super().latestOffset(start, limit)
        if end["batch"] == 2 and start["batch"] == 1:
            pass_point("claimed")
        return end


class DyingSource(AcklineSource):
    @classmethod
    def name(cls) -> str:
        return "dying"

    def streamReader(self, schema: Any) -> DyingReader:  # noqa: N802
        reader = super().streamReader(schema)
        assert isinstance(reader, ClaimsStreamReader)
        return DyingReader(reader.options, reader.place)


def inside_a_task(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        pass_point("read")
        yield batch


def main(url: str, folder: Path, lease: str) -> None:
    os.environ[GROUP] = str(os.getpgid(0))
    spark = spark_session("local[2]", settings={"spark.sql.shuffle.partitions": "2"})
    spark.dataSource.register(DyingSource)

    def sink(batch: Any, number: int) -> None:
        if number == 1:
            batch = batch.mapInArrow(inside_a_task, batch.schema)
        batch.write.mode("overwrite").parquet(f"{folder}/lake/batch_id={number}")
        if number == 1:
            pass_point("sunk")

    frame = spark.readStream.format("dying").options(
        store=url,
        queue="email",
        streamId="lake",
        maxJobsPerTrigger="40",
        lease=lease,
        wait="0",
    )
    query = (
        frame.load("jobs")
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
