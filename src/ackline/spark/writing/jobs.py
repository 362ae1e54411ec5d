"""Rows into jobs: a bulk enqueue whose ids make it safe to be repeated."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial

import msgspec
import pyarrow
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from ackline.job import Draft
from ackline.queues import Queues
from ackline.spark.options import WriteJobs
from ackline.spark.retrying import retrying
from ackline.spark.store_address import StoreAddress
from ackline.spark.writing.columns import Columns, columns_of_jobs
from ackline.spark.writing.drafts import DraftMaker
from ackline.spark.writing.rejected import RejectedRow
from ackline.spark.writing.rejects_place import RejectsPlace, rejects_of
from ackline.spark.writing.results import TaskResult, require_none_listed, results_in
from ackline.spark.writing.task_names import micro_batch_name

CHUNK = 1000
"""Jobs per round trip."""

NO_KIND: frozenset[str] = frozenset()


def enqueue_rows(
    address: StoreAddress,
    options: WriteJobs,
    columns: Columns,
    batches: Iterator[pyarrow.RecordBatch],
    rejects_place: RejectsPlace,
) -> TaskResult:
    """Enqueue what one task was given. Done twice, the second time changes nothing."""
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
    """Answers how many were new; those that have failed or were cancelled may be replaced."""
    by_queue: dict[str, list[Draft]] = {}
    for name, draft in drafts:
        kept = msgspec.structs.replace(draft, replaces=NO_KIND) if keep else draft
        by_queue.setdefault(name, []).append(kept)
    receipts = (queues[name].put(some) for name, some in by_queue.items())
    return sum(receipt.accepted for receipt in itertools.chain.from_iterable(receipts))


class JobsWriter(DataSourceArrowWriter):
    """Writes a DataFrame's rows as jobs."""

    def __init__(self, options: WriteJobs, address: StoreAddress, schema: StructType) -> None:
        self.options = options
        self.address = address
        self.columns = columns_of_jobs(schema, options)
        self.rejects_place = rejects_of(options)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskResult:
        """One task's rows."""
        return enqueue_rows(self.address, self.options, self.columns, iterator, self.rejects_place)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks are done: say what was refused."""
        require_none_listed(results_in(messages))


class JobsStreamWriter(DataSourceStreamArrowWriter):
    """Writes a stream's rows as jobs. A micro-batch that is repeated enqueues nothing twice."""

    def __init__(self, options: WriteJobs, address: StoreAddress, schema: StructType) -> None:
        self.options = options
        self.address = address
        self.columns = columns_of_jobs(schema, options)
        self.rejects_place = rejects_of(options)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskResult:
        """One task's rows."""
        rejects_place = self.rejects_place.named(micro_batch_name())
        return enqueue_rows(self.address, self.options, self.columns, iterator, rejects_place)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """The micro-batch is done: say what was refused."""
        require_none_listed(results_in(messages))
