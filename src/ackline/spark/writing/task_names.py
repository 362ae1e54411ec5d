"""Names for the files of a task, the same when it is retried."""

from __future__ import annotations

import uuid

from pyspark import TaskContext


def partition_id() -> int:
    """The number of this task among those of its write."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def micro_batch_name() -> str:
    """The name of this task's micro-batch: the same when it is replayed."""
    context = TaskContext.get()
    if context is None:
        return f"stream-{uuid.uuid4()}"
    query = context.getLocalProperty("sql.streaming.queryId")
    return f"stream-{query}-batch-{context.getLocalProperty('streaming.sql.batchId')}"
