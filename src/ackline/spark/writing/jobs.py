"""Rows into jobs: a bulk enqueue whose ids make it safe to be repeated."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import msgspec
import pyarrow
from pyspark.sql.types import StructType

from ackline.job import Draft
from ackline.queues import Queues
from ackline.spark.options import WriteJobs
from ackline.spark.retrying import retrying
from ackline.spark.store_address import StoreAddress
from ackline.spark.stride import CHUNK
from ackline.spark.writing.columns import Columns, columns_of_jobs
from ackline.spark.writing.drafts import DraftMaker
from ackline.spark.writing.rejected import RejectedRow
from ackline.spark.writing.rejects_place import RejectsPlace
from ackline.spark.writing.results import TaskResult
from ackline.spark.writing.writers import RowWriter, StreamWriter, TableWriter

NO_KIND: frozenset[str] = frozenset()


def enqueue_rows(
    address: StoreAddress,
    options: WriteJobs,
    columns: Columns,
    batches: Iterator[pyarrow.RecordBatch],
    rejects_place: RejectsPlace,
) -> TaskResult:
    """Enqueue the rows of one task. Done twice, the second time changes nothing."""
    written, known, keep = 0, 0, options.existing == "keep"
    with (
        rejects_place.opened(address) as rejects,
        closing(retrying(address.connect, options.retry_for)) as queues,
    ):
        maker = DraftMaker(queues, options, columns)
        made = itertools.chain.from_iterable(map(maker.make, batches))
        while chunk := list(itertools.islice(made, CHUNK)):
            drafts = [one for one in chunk if not isinstance(one, RejectedRow)]
            new = retrying(partial(_enqueue, queues, drafts, keep=keep), options.retry_for)
            written, known = written + new, known + len(drafts) - new
            rejects.add([one for one in chunk if isinstance(one, RejectedRow)], written + known)
    return TaskResult(written, known, rejects)


def _enqueue(queues: Queues, drafts: list[tuple[str, Draft]], *, keep: bool) -> int:
    """Returns how many were new; unless `keep`, failed and cancelled jobs may be replaced."""
    by_queue: dict[str, list[Draft]] = {}
    for name, draft in drafts:
        kept = msgspec.structs.replace(draft, replaces=NO_KIND) if keep else draft
        by_queue.setdefault(name, []).append(kept)
    receipts = (queues[name].put(queue_drafts) for name, queue_drafts in by_queue.items())
    return sum(receipt.accepted for receipt in itertools.chain.from_iterable(receipts))


class EnqueuesRows(RowWriter):
    """Makes a job of each row."""

    def __init__(self, options: WriteJobs, address: StoreAddress, schema: StructType) -> None:
        self.columns = columns_of_jobs(schema, options)
        self.options = options
        super().__init__(options, address)

    def write_rows(
        self, batches: Iterator[pyarrow.RecordBatch], rejects_place: RejectsPlace
    ) -> TaskResult:
        """Enqueue the rows of one task."""
        return enqueue_rows(self.address, self.options, self.columns, batches, rejects_place)


class JobsWriter(EnqueuesRows, TableWriter):
    """Writes a DataFrame's rows as jobs."""


class JobsStreamWriter(EnqueuesRows, StreamWriter):
    """Writes a stream's rows as jobs. A micro-batch that is repeated enqueues nothing twice."""
