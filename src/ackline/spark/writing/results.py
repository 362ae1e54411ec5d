"""What the tasks of a write report to its driver."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.datasource import WriterCommitMessage

from ackline.spark.writing.rejected import RowsRejected
from ackline.spark.writing.rejects_place import RejectedRowsSink


class TaskResult(WriterCommitMessage):
    """What one task did."""

    def __init__(self, written: int, known: int, rejects: RejectedRowsSink) -> None:
        self.written = written
        self.known = known
        self.rejected = rejects.count
        self.listed = rejects.listed


def task_results(messages: Sequence[WriterCommitMessage | None]) -> list[TaskResult]:
    """What all tasks did."""
    return [message for message in messages if isinstance(message, TaskResult)]


def require_none_rejected(results: Sequence[TaskResult]) -> None:
    """`RowsRejected` if rows were rejected and are in no folder."""
    if listed := [row for task in results for row in task.listed]:
        raise RowsRejected(listed, sum(task.written + task.known for task in results))
