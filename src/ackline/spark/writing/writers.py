"""What all writers have in common, of tables and of streams, whatever they do with the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import pyarrow
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from ackline.spark.options import WriteOptions
from ackline.spark.store.address import StoreAddress
from ackline.spark.writing.rejects_place import RejectedRowsTarget, rejected_rows_target
from ackline.spark.writing.results import TaskResult, require_none_rejected, task_results
from ackline.spark.writing.task_names import micro_batch_name


class RowWriter(ABC):
    """Writes rows to a store; refused ones are kept in a folder, or reported at the end."""

    def __init__(self, options: WriteOptions, address: StoreAddress) -> None:
        self.address = address
        self.rejects_place = rejected_rows_target(options)

    @abstractmethod
    def write_rows(
        self, batches: Iterator[pyarrow.RecordBatch], rejects_place: RejectedRowsTarget
    ) -> TaskResult:
        """Write the rows of one task. Done twice, the second time changes nothing."""

    def report(self, results: Sequence[TaskResult]) -> None:
        """All tasks are done: raise or log what was refused."""
        require_none_rejected(results)


class TableWriter(RowWriter, DataSourceArrowWriter):
    """Writes a DataFrame once."""

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskResult:
        """One task's rows."""
        return self.write_rows(iterator, self.rejects_place)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks are done."""
        self.report(task_results(messages))


class StreamWriter(RowWriter, DataSourceStreamArrowWriter):
    """Writes a stream; a micro-batch that is repeated puts its refused rows in the same place."""

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskResult:
        """One task's rows."""
        return self.write_rows(iterator, self.rejects_place.named(micro_batch_name()))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """The micro-batch is done."""
        self.report(task_results(messages))
