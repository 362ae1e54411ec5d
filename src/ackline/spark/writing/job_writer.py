"""Enqueues rows as jobs; because of their ids, a write can be repeated."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import msgspec
import pyarrow
from pyspark.sql.types import StructType

from ackline.core.job import Draft
from ackline.queues import Queues
from ackline.spark.options import JobsWriteOptions
from ackline.spark.store.address import StoreAddress
from ackline.spark.store.page_size import MAX_BATCH
from ackline.spark.store.retry import retry_transient
from ackline.spark.writing.columns import ColumnRoles, classify_columns
from ackline.spark.writing.drafts import DraftBuilder
from ackline.spark.writing.rejected_rows import RejectedRow
from ackline.spark.writing.rejected_target import RejectedRowsTarget
from ackline.spark.writing.task_results import TaskResult
from ackline.spark.writing.writers import RowWriter, StreamWriter, TableWriter

REPLACE_NOTHING: frozenset[str] = frozenset()


def enqueue_rows(
    address: StoreAddress,
    options: JobsWriteOptions,
    columns: ColumnRoles,
    batches: Iterator[pyarrow.RecordBatch],
    rejected_target: RejectedRowsTarget,
) -> TaskResult:
    """Enqueue the rows of one task. Repeating it changes nothing."""
    written, known, keep = 0, 0, options.existing == "keep"
    with (
        rejected_target.open(address) as rejected_sink,
        closing(retry_transient(address.connect, options.retry_for)) as queues,
    ):
        builder = DraftBuilder(queues, options, columns)
        built = itertools.chain.from_iterable(map(builder.build, batches))
        while chunk := list(itertools.islice(built, MAX_BATCH)):
            drafts = [one for one in chunk if not isinstance(one, RejectedRow)]
            new = retry_transient(partial(_enqueue, queues, drafts, keep=keep), options.retry_for)
            written, known = written + new, known + len(drafts) - new
            rejected_sink.add(
                [one for one in chunk if isinstance(one, RejectedRow)], written + known
            )
    return TaskResult(written, known, rejected_sink)


def _enqueue(queues: Queues, drafts: list[tuple[str, Draft]], *, keep: bool) -> int:
    """Enqueue drafts; returns how many were new. `keep` means to replace no job."""
    by_queue: dict[str, list[Draft]] = {}
    for name, draft in drafts:
        kept = msgspec.structs.replace(draft, replaces=REPLACE_NOTHING) if keep else draft
        by_queue.setdefault(name, []).append(kept)
    receipts = (queues[name].store_drafts(queue_drafts) for name, queue_drafts in by_queue.items())
    return sum(receipt.accepted for receipt in itertools.chain.from_iterable(receipts))


class JobRowWriter(RowWriter):
    """Enqueues each row as a job."""

    def __init__(
        self, options: JobsWriteOptions, address: StoreAddress, schema: StructType
    ) -> None:
        self.columns = classify_columns(schema, options)
        self.options = options
        super().__init__(options, address)

    def write_rows(
        self, batches: Iterator[pyarrow.RecordBatch], rejected_target: RejectedRowsTarget
    ) -> TaskResult:
        """Enqueue the rows of one task."""
        return enqueue_rows(self.address, self.options, self.columns, batches, rejected_target)


class JobsTableWriter(JobRowWriter, TableWriter):
    """Writes a DataFrame's rows as jobs."""


class JobsStreamWriter(JobRowWriter, StreamWriter):
    """Writes a stream's rows as jobs. A micro-batch that is repeated enqueues nothing twice."""
