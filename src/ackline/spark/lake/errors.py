"""What the journal does not tell of a job, and the store does: its whole error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow
from pyspark.sql import DataFrame

from ackline.job import QueueKey, Record
from ackline.spark.pipelines.lives import JOB
from ackline.spark.place import Place

CHUNK = 1000
"""Jobs per round trip."""

ERROR = ("error_type", "error_message", "error_traceback")

SCHEMA = ", ".join(f"{name} string" for name in (*JOB, *ERROR))

_ARROW = pyarrow.schema([(name, pyarrow.string()) for name in (*JOB, *ERROR)])


def with_errors(failed: DataFrame, place: Place) -> DataFrame:
    """Steps into the DLQ with the error of the job, null where it is gone already."""
    jobs = failed.select(*JOB).distinct()
    found = jobs.mapInArrow(lambda batches: look_up(place, batches), SCHEMA)
    return failed.join(found, [*JOB], "left")


def look_up(place: Place, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """The errors of the jobs that are still there."""
    for batch in batches:
        by_queue: dict[str, list[str]] = {}
        for row in batch.to_pylist():
            by_queue.setdefault(row["queue"], []).append(row["id"])
        # Only now, for most tasks have no failed job to ask for.
        with place.open() as queues:
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
                "error_type": failure and failure.type,
                "error_message": failure and failure.message,
                "error_traceback": failure and failure.traceback,
            }
        )
    return pyarrow.RecordBatch.from_pylist(rows, _ARROW)
