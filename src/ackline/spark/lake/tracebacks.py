"""The whole error of a job, which is in the store but not in the journal."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain

import pyarrow
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from ackline.core.job import QueueKey, Record
from ackline.queues import Queues
from ackline.spark.store.address import StoreAddress
from ackline.spark.store.page_size import PAGE_BYTES, AdaptivePageSize
from ackline.spark.store.retry import DEFAULT_RETRY_FOR, retry_transient
from ackline.spark.transforms.error_groups import INPUT_COLUMNS

CHUNK = 1000
"""Jobs per round trip, at most."""

ERROR = ("error_type", "error_message", "error_traceback")

Error = tuple[str | None, str | None, str | None]
NO_ERROR: Error = (None, None, None)


def with_errors(failed: DataFrame, address: StoreAddress) -> DataFrame:
    """Steps into the DLQ with the error of the job, null if the store no longer has it."""
    steps = failed.select(*INPUT_COLUMNS)
    error = [StructField(name, StringType()) for name in ERROR]
    columns = StructType([*steps.schema.fields, *error])
    return steps.mapInArrow(lambda batches: add_errors(address, batches), columns)


def add_errors(
    address: StoreAddress, batches: Iterator[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    """The same steps, with the errors of those jobs that still have the token of their step."""
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return  # Most tasks have no failed job: they need no connection.
    with retry_transient(address.connect, DEFAULT_RETRY_FOR) as queues:
        for batch in chain([first], filled):
            yield _with_errors(queues, batch)


def _with_errors(queues: Queues, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    found = zip(*_errors(queues, batch), strict=True)
    errors = [pyarrow.array(column, pyarrow.string()) for column in found]
    names = [*batch.schema.names, *ERROR]
    return pyarrow.RecordBatch.from_arrays([*batch.columns, *errors], names=names)


def _errors(queues: Queues, batch: pyarrow.RecordBatch) -> list[Error]:
    """The error of each row's job, in the order of the rows."""
    columns = (batch.column(name).to_pylist() for name in ("queue", "id", "token"))
    rows = list(zip(*columns, strict=True))
    known: dict[tuple[str, str, int], Error] = {}
    for queue in {queue for queue, _, _ in rows}:
        ids = list({id for name, id, _ in rows if name == queue})
        # By its token: a job that was redriven since may have failed in another way.
        known |= {
            (queue, job.id, job.token): _error(job)
            for job in _look_up(queues, QueueKey(queues.tenant, queue), ids)
        }
    return [known.get(row, NO_ERROR) for row in rows]


def _look_up(queues: Queues, key: QueueKey, ids: list[str]) -> Iterator[Record]:
    """The jobs that are still there, few at first, because they come with their payloads."""
    stride = AdaptivePageSize(CHUNK)
    while ids:
        count = stride.next(PAGE_BYTES)
        some = retry_transient(partial(queues.store.get, key, ids[:count]), DEFAULT_RETRY_FOR)
        found = [job for job in some if job is not None]
        stride.observe_jobs(found)
        yield from found
        ids = ids[count:]


def _error(job: Record) -> Error:
    failure = job.failure
    return NO_ERROR if failure is None else (failure.type, failure.message, failure.traceback)
