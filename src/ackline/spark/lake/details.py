"""What the journal does not tell of a job, and the store does: its priority, its whole error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ackline.events import Act
from ackline.job import QueueKey, Record, State
from ackline.spark.pipelines.lives import JOB
from ackline.spark.place import Place

CHUNK = 1000
"""Jobs per round trip."""

SCHEMA = (
    "tenant string, queue string, id string, priority int, "
    "error_type string, error_message string, error_traceback string"
)

_ARROW = pyarrow.schema(
    [
        *((name, pyarrow.string()) for name in JOB),
        ("priority", pyarrow.int32()),
        *((name, pyarrow.string()) for name in ("error_type", "error_message", "error_traceback")),
    ]
)

_TELLING = [Act.ENQUEUE.value, Act.EDIT.value, Act.MOVE.value, Act.REDRIVE.value]
"""Acts that may give a job another priority, or begin with one."""


def with_details(events: DataFrame, place: Place) -> DataFrame:
    """Events with `priority` and the error, null where the job is gone already.

    Only jobs are looked up that have begun, were changed or have failed in these events.
    """
    worth = F.col("act").isin(_TELLING) | (F.col("to") == State.FAILED.value)
    jobs = events.where(worth & (F.col("id") != "")).select(*JOB).distinct()
    found = jobs.mapInArrow(lambda batches: look_up(place, batches), SCHEMA)
    return events.join(found, [*JOB], "left")


def look_up(place: Place, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """The details of the jobs that are still there."""
    with place.open() as queues:
        for batch in batches:
            by_queue: dict[str, list[str]] = {}
            for row in batch.to_pylist():
                by_queue.setdefault(row["queue"], []).append(row["id"])
            for name, ids in by_queue.items():
                key = QueueKey(place.tenant, name)
                for start in range(0, len(ids), CHUNK):
                    found = queues.store.get(key, ids[start : start + CHUNK])
                    yield _batch(key, [job for job in found if job is not None])


def _batch(key: QueueKey, jobs: Sequence[Record]) -> pyarrow.RecordBatch:
    rows: list[dict[str, Any]] = []
    for job in jobs:
        failure = job.failure
        rows.append(
            {
                "tenant": key.tenant,
                "queue": key.name,
                "id": job.id,
                "priority": job.priority,
                "error_type": failure and failure.type,
                "error_message": failure and failure.message,
                "error_traceback": failure and failure.traceback,
            }
        )
    return pyarrow.RecordBatch.from_pylist(rows, _ARROW)
