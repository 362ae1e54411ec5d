"""Rows into jobs: a bulk enqueue whose ids make it safe to be repeated."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator, Sequence

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
from ackline.spark.place import Place
from ackline.spark.writing.columns import Columns, columns_of_jobs
from ackline.spark.writing.drafts import DraftMaker
from ackline.spark.writing.rejected import Aside, Rejected, Written, micro_batch, report

CHUNK = 1000
"""Jobs per round trip."""

NO_KIND: frozenset[str] = frozenset()


def enqueue_rows(
    place: Place,
    options: WriteJobs,
    columns: Columns,
    batches: Iterator[pyarrow.RecordBatch],
    name: str,
) -> Written:
    """Enqueue what one task was given. Done twice, the second time changes nothing."""
    written, known = 0, 0
    aside = Aside(options.rejected_path, name, options.max_rejected)
    with place.open() as queues, aside.refusing() as refused:
        maker = DraftMaker(queues, options, columns)
        made = itertools.chain.from_iterable(map(maker.make, batches))
        while chunk := list(itertools.islice(made, CHUNK)):
            drafts = [one for one in chunk if not isinstance(one, Rejected)]
            new = _enqueue(queues, drafts, keep=options.existing == "keep")
            written, known = written + new, known + len(drafts) - new
            refused.add([one for one in chunk if isinstance(one, Rejected)], written + known)
    return Written(written, known, refused)


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

    def __init__(self, options: WriteJobs, place: Place, schema: StructType) -> None:
        self.options = options
        self.place = place
        self.columns = columns_of_jobs(schema, options)
        self.name = f"write-{uuid.uuid4()}"

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> Written:
        """One task's rows."""
        return enqueue_rows(self.place, self.options, self.columns, iterator, self.name)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks are done: say what was refused."""
        report(messages)


class JobsStreamWriter(DataSourceStreamArrowWriter):
    """Writes a stream's rows as jobs. A micro-batch that is repeated enqueues nothing twice."""

    def __init__(self, options: WriteJobs, place: Place, schema: StructType) -> None:
        self.options = options
        self.place = place
        self.columns = columns_of_jobs(schema, options)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> Written:
        """One task's rows."""
        return enqueue_rows(self.place, self.options, self.columns, iterator, micro_batch())

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """The micro-batch is done: say what was refused."""
        report(messages)
