"""The base classes of all writers of tables and streams."""

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
from ackline.spark.writing.rejected_target import RejectedRowsTarget, rejected_rows_target
from ackline.spark.writing.task_names import micro_batch_name
from ackline.spark.writing.task_results import TaskResult, require_none_rejected, task_results


class RowWriter(ABC):
    """Writes rows to a store; rejected rows go to a folder or are reported at the end."""

    def __init__(self, options: WriteOptions, address: StoreAddress) -> None:
        self.address = address
        self.rejected_target = rejected_rows_target(options)

    @abstractmethod
    def write_rows(
        self, batches: Iterator[pyarrow.RecordBatch], rejected_target: RejectedRowsTarget
    ) -> TaskResult:
        """Write the rows of one task. Repeating it changes nothing."""

    def report(self, results: Sequence[TaskResult]) -> None:
        """Report rejected rows when all tasks are done."""
        require_none_rejected(results)


class TableWriter(RowWriter, DataSourceArrowWriter):
    """Writes a DataFrame once."""

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskResult:
        """One task's rows."""
        return self.write_rows(iterator, self.rejected_target)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks are done."""
        self.report(task_results(messages))


class StreamWriter(RowWriter, DataSourceStreamArrowWriter):
    """Writes a stream; a repeated micro-batch replaces its files of rejected rows."""

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskResult:
        """One task's rows."""
        return self.write_rows(iterator, self.rejected_target.named(micro_batch_name()))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """The micro-batch is done."""
        self.report(task_results(messages))
