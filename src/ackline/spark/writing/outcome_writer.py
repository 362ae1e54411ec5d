"""Settles claimed jobs with the outcomes in rows, each under its lease's token."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import msgspec
import pyarrow
from pyspark.sql.types import StructType

from ackline.core import lifecycle
from ackline.core.config import ResolvedPolicy
from ackline.core.errors import InvalidJob, InvalidName, InvalidOption, LeaseLost
from ackline.core.job import Record, State
from ackline.core.lifecycle import Transition, Verdict
from ackline.core.limits import require_seconds
from ackline.core.outcome import Dead, Done, Outcome, Retry
from ackline.queue import Queue
from ackline.queue.settle import failure_from
from ackline.queues import Queues
from ackline.spark.options import OutcomesWriteOptions
from ackline.spark.store.address import StoreAddress
from ackline.spark.store.page_size import MAX_BATCH
from ackline.spark.store.retry import retry_transient
from ackline.spark.streams.claims.replay import job_as_delivered
from ackline.spark.streams.claims.settlement import with_min_result_ttl
from ackline.spark.writing.columns import require_outcome_columns
from ackline.spark.writing.json_columns import validated_json
from ackline.spark.writing.rejected_rows import RejectedRow, iterate_rows
from ackline.spark.writing.rejected_target import RejectedRowsTarget
from ackline.spark.writing.task_results import TaskResult
from ackline.spark.writing.writers import RowWriter, StreamWriter, TableWriter

logger = logging.getLogger("ackline")


class OutcomeApplier:
    """Applies the outcomes in the rows of one task to their jobs."""

    def __init__(self, queues: Queues, options: OutcomesWriteOptions) -> None:
        self._queues = queues
        self._options = options
        self.settled = 0
        self.settled_before = 0
        """Rows whose job already has an outcome under the same lease."""

    def settle(self, rows: Iterable[dict[str, Any] | RejectedRow]) -> list[RejectedRow]:
        """Apply the outcomes; returns the rejected rows."""
        by_queue: dict[Queue[Any, Any], list[dict[str, Any]]] = {}
        rejected = list[RejectedRow]()
        for row in rows:
            if isinstance(row, RejectedRow):
                rejected.append(row)
                continue
            try:
                by_queue.setdefault(self._queue_of(row), []).append(row)
            except InvalidJob as error:
                rejected.append(RejectedRow.of(row, error))
        for queue, queue_rows in by_queue.items():
            rejected += retry_transient(
                partial(self._settle, queue, queue_rows), self._options.retry_for
            )
        return rejected

    def _queue_of(self, row: dict[str, Any]) -> Queue[Any, Any]:
        name = self._options.queue or row.get("queue")
        if not name or row["id"] is None or row["token"] is None:
            raise InvalidName("the row lacks its queue, id or token")
        return self._queues[str(name)]

    def _settle(self, queue: Queue[Any, Any], rows: list[dict[str, Any]]) -> list[RejectedRow]:
        rejected = []
        decided: list[tuple[dict[str, Any], Transition]] = []
        records = queue.store.get(queue.key, [row["id"] for row in rows])
        for row, record in zip(rows, records, strict=True):
            try:
                if record is None:
                    raise LeaseLost(row["id"], None)
                policy = with_min_result_ttl(queue.policies.of(record), self._options.keep_for)
                decided.append((row, transition_for(queue, row, record, policy)))
            except (InvalidJob, LeaseLost, OverflowError) as error:
                rejected.append(RejectedRow.of(row, error))
        verdicts = queue.apply([transition for _, transition in decided])
        refused = [
            (row, verdict)
            for (row, _), verdict in zip(decided, verdicts, strict=True)
            if not verdict.applied
        ]
        rejected += self._lost(queue, refused) if refused else []
        # Counted last, because all of this is repeated if the store is unavailable.
        self.settled += len(decided) - len(refused)
        return rejected

    def _lost(
        self, queue: Queue[Any, Any], refused: list[tuple[dict[str, Any], Verdict]]
    ) -> list[RejectedRow]:
        """The rows of refused transitions whose job has no outcome under their lease.

        The jobs are read again, because another row of the same write may have settled them.
        """
        rejected = []
        records = queue.store.get(queue.key, [row["id"] for row, _ in refused])
        for (row, verdict), record in zip(refused, records, strict=True):
            if record is not None and _is_settled(record, row["token"]):
                # A repeated micro-batch may have another outcome; the first one stands.
                self.settled_before += 1
            else:
                rejected.append(RejectedRow.of(row, LeaseLost(row["id"], verdict.state)))
        return rejected


def _is_settled(record: Record, token: int) -> bool:
    """Whether a job was settled under this lease."""
    leased = record.state is State.PROCESSING and record.token == token
    return not leased and job_as_delivered((record.id, token), record) is not None


def transition_for(
    queue: Queue[Any, Any], row: dict[str, Any], record: Record, policy: ResolvedPolicy
) -> Transition:
    """The transition for a row; the store refuses a stale one."""
    # With the row's token, not the job's, so that a stale row is refused.
    leased = msgspec.structs.replace(record, token=row["token"])
    error = row.get("error") or "the outcome named no error"
    return lifecycle.settle(
        leased,
        _parse_outcome(row),
        _encode_result(queue, row.get("result")),
        failure_from(leased, error),
        policy,
        queue.random,
    )


def _parse_outcome(row: dict[str, Any]) -> Outcome:
    delay = row.get("delay")
    delay = None if delay is None else float(delay)
    require_seconds("delay", delay)
    match row["outcome"]:
        case "complete":
            return Done()
        case "fail" | "retry":
            return Retry(delay)
        case "dead":
            return Dead()
        case other:
            raise InvalidOption(f"the outcome is complete, fail, retry or dead, not {other!r}")


def _encode_result(queue: Queue[Any, Any], value: str | bytes | None) -> bytes | None:
    """A result that is JSON already: its size is checked, and it is not encoded again."""
    if value is None:
        return None
    return queue.serdes.encode_result(msgspec.Raw(validated_json("result", value)))


def settle_rows(
    address: StoreAddress,
    options: OutcomesWriteOptions,
    batches: Iterator[pyarrow.RecordBatch],
    rejected_target: RejectedRowsTarget,
) -> TaskResult:
    """Settle the jobs of one task's rows. Repeating it changes nothing."""
    with (
        rejected_target.open(address) as rejected_sink,
        closing(retry_transient(address.connect, options.retry_for)) as queues,
    ):
        outcomes = OutcomeApplier(queues, options)
        for batch in batches:
            for start in range(0, batch.num_rows, MAX_BATCH):
                rejected = outcomes.settle(iterate_rows(batch.slice(start, MAX_BATCH)))
                rejected_sink.add(rejected, outcomes.settled)
    return TaskResult(outcomes.settled, outcomes.settled_before, rejected_sink)


class OutcomeRowWriter(RowWriter):
    """Settles the job that each row names."""

    def __init__(
        self, options: OutcomesWriteOptions, address: StoreAddress, schema: StructType
    ) -> None:
        require_outcome_columns(schema, options.queue)
        self.options = options
        super().__init__(options, address)

    def write_rows(
        self, batches: Iterator[pyarrow.RecordBatch], rejected_target: RejectedRowsTarget
    ) -> TaskResult:
        """Settle the jobs of one task's rows."""
        return settle_rows(self.address, self.options, batches, rejected_target)

    def report(self, results: Sequence[TaskResult]) -> None:
        """Report which rows were refused, and which jobs were settled before."""
        super().report(results)
        if before := sum(task.known for task in results):
            logger.warning(
                "%d rows name jobs that already have an outcome under the same lease; the first "
                "outcome stands",
                before,
            )


class OutcomesTableWriter(OutcomeRowWriter, TableWriter):
    """Settles the jobs that a DataFrame's rows name."""


class OutcomesStreamWriter(OutcomeRowWriter, StreamWriter):
    """Settles the jobs that a stream's rows name; a repeated micro-batch changes nothing."""
