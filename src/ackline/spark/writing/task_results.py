"""The results that the tasks of a write report to its driver."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.datasource import WriterCommitMessage

from ackline.spark.writing.rejected_rows import RowsRejected
from ackline.spark.writing.rejected_target import RejectedRowsSink


class TaskResult(WriterCommitMessage):
    """The result of one task."""

    def __init__(self, written: int, known: int, rejected_sink: RejectedRowsSink) -> None:
        self.written = written
        self.known = known
        self.rejected = rejected_sink.count
        self.listed = rejected_sink.listed


def task_results(messages: Sequence[WriterCommitMessage | None]) -> list[TaskResult]:
    """The results of all tasks."""
    return [message for message in messages if isinstance(message, TaskResult)]


def require_none_rejected(results: Sequence[TaskResult]) -> None:
    """Raise `RowsRejected` if rejected rows were not written to a folder."""
    if listed := [row for task in results for row in task.listed]:
        raise RowsRejected(listed, sum(task.written + task.known for task in results))
