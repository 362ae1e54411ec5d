"""Redrives jobs of the DLQ by a condition; repeating it redrives no job twice."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import msgspec
import pyarrow
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DataType, IntegralType, NullType

from ackline.core import lifecycle
from ackline.core.errors import ConfigError, InvalidJob, InvalidOption, InvalidPayload
from ackline.core.job import Record, State
from ackline.core.lifecycle import Edit
from ackline.core.limits import MAX_DELAY, require_priority
from ackline.queue import Queue
from ackline.queues import Queues
from ackline.spark.bulk.input_files import first_line
from ackline.spark.store.address import StoreAddress
from ackline.spark.store.retry import retry_transient
from ackline.spark.writing.json_columns import validated_json
from ackline.spark.writing.rejected_rows import RejectedRow
from ackline.spark.writing.rejected_target import RejectedRowsTarget

MAX_BATCH = 500
"""Jobs per round trip."""

RETRY_FOR = 60.0
"""Seconds that a task retries calls to an unavailable store, as readers and writers do."""

SETTABLE = ("payload", "priority")

TASKS = 16
"""Tasks of a redrive: the single task that reads the DLQ of a queue would show no progress."""

LISTED = 10
"""Rejected jobs that a check lists for each task."""

_REJECTED = [(name, pyarrow.string()) for name in ("row", "error", "reason")]
_COUNTS = [(name, pyarrow.int64()) for name in ("redriven", "skipped", "refused")]
_ARROW = pyarrow.schema([("queue", pyarrow.string()), *_COUNTS, *_REJECTED])
_CHECKED_ARROW = pyarrow.schema([("refused", pyarrow.int64()), *_REJECTED])
TASK_REPORT_SCHEMA, REJECTIONS_SCHEMA = from_arrow_schema(_ARROW), from_arrow_schema(_CHECKED_ARROW)

_NOTHING = {"redriven": 0, "skipped": 0, "refused": 0}


class RedriveResult(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the selected jobs were redriven, skipped and rejected."""

    redriven: Mapping[str, int]
    """By queue."""
    skipped: int
    """Jobs that have changed since they were selected: they were redriven by others, or have
    failed again."""
    refused: int
    """Jobs whose `--set` values are invalid; they are still in the DLQ."""
    rejected: list[RejectedRow]
    """The rejected jobs, unless they are in a folder."""


def plan_redrive(
    dead: DataFrame, expressions: Mapping[str, str], rate: float | None, total: int
) -> DataFrame:
    """For each selected job: its failure, what to change, and when it is due.

    With a rate, jobs are spread over the time that `total` of them take, by their ids and so the
    same way each time.
    """
    require_settable(expressions)
    share = F.pmod(F.xxhash64("queue", "id"), F.lit(1_000_000)) / 1e6
    delay = share * duration_at_rate(total, rate)
    try:
        priority = F.expr(expressions.get("priority", "null"))
        require_whole_number(dead.select(priority).schema[0].dataType)
        values = {
            "priority": priority.cast("long"),
            "payload": F.expr(expressions.get("payload", "null")).cast("string"),
        }
        nulls = [F.when(values[name].isNull(), F.lit(name)) for name in expressions]
        return dead.select(
            *("tenant", "queue", "id", "token", "codec"),
            delay.alias("delay"),
            *(value.alias(name) for name, value in values.items()),
            F.coalesce(*nulls, F.lit(None).cast("string")).alias("set_to_null"),
        )
    except PySparkException as error:
        raise ConfigError(f"invalid --set: {first_line(error)}") from None


def require_settable(names: Iterable[str]) -> None:
    """Refuse names of `--set` that a redrive cannot change."""
    for name in names:
        if name not in SETTABLE:
            raise ConfigError(
                f"--set {name}=…: only {' and '.join(SETTABLE)} of a failed job can be set"
            )


def duration_at_rate(total: int, rate: float | None) -> float:
    """The seconds that `total` jobs take at a rate; 0 without one."""
    if rate is None:
        return 0.0
    if not (rate > 0 and math.isfinite(rate)):
        raise ConfigError(f"--rate must be a number of jobs each second above 0, not {rate!r}")
    if (seconds := total / rate) > MAX_DELAY:
        least = math.ceil(1000 * total / MAX_DELAY) / 1000
        raise ConfigError(
            f"--rate {rate:g} would spread {total:,} jobs over more than "
            f"{MAX_DELAY / 86400:,.0f} days: take at least {least:g}, or a narrower --where"
        )
    return seconds


def require_whole_number(priority: DataType) -> None:
    """Refuse a priority that is not a whole number, instead of rounding it."""
    if not isinstance(priority, (IntegralType, NullType)):
        raise ConfigError(
            f"--set priority=… is {priority.simpleString()}, but must be a whole number: "
            "cast it, such as cast(… as int)"
        )


def redrive_jobs(
    plan: DataFrame, address: StoreAddress, by: str, rejected_target: RejectedRowsTarget
) -> RedriveResult:
    """Redrive the planned jobs, in several tasks."""
    reports = plan.repartition(TASKS, "queue", "id").mapInArrow(
        lambda batches: redrive_task(address, by, batches, rejected_target), TASK_REPORT_SCHEMA
    )
    rows = reports.toArrow().to_pylist()
    counts: dict[str, int] = {}
    for row in rows:
        if row["redriven"]:
            counts[row["queue"]] = counts.get(row["queue"], 0) + row["redriven"]
    return RedriveResult(
        redriven=counts,
        skipped=sum(row["skipped"] for row in rows),
        refused=sum(row["refused"] for row in rows),
        rejected=RejectedRow.in_report(rows),
    )


def redrive_task(
    address: StoreAddress,
    by: str,
    batches: Iterator[pyarrow.RecordBatch],
    rejected_target: RejectedRowsTarget,
) -> Iterator[pyarrow.RecordBatch]:
    """The report of one task: its counts, then a row for each rejected job that is listed."""
    with (
        rejected_target.open(address) as rejected_sink,
        closing(retry_transient(address.connect, RETRY_FOR)) as queues,
    ):
        done = 0
        for batch in batches:
            for start in range(0, batch.num_rows, MAX_BATCH):
                rows = batch.slice(start, MAX_BATCH).to_pylist()
                counts, rejected = _redrive(queues, rows, by)
                done += sum(count["redriven"] for count in counts)
                rejected_sink.add(rejected, done)
                yield pyarrow.RecordBatch.from_pylist(counts, _ARROW)
    yield pyarrow.RecordBatch.from_pylist(
        [
            {**_NOTHING, "refused": rejected_sink.count},
            *({**_NOTHING, **msgspec.structs.asdict(one)} for one in rejected_sink.listed),
        ],
        _ARROW,
    )


def _redrive(
    queues: Queues, rows: Sequence[dict[str, Any]], by: str
) -> tuple[list[dict[str, Any]], list[RejectedRow]]:
    by_queue: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_queue.setdefault(row["queue"], []).append(row)
    counts, rejected = list[dict[str, Any]](), list[RejectedRow]()
    for name, queue_rows in by_queue.items():
        redriven, refused = retry_transient(
            partial(_redrive_queue, queues[name], queue_rows, by), RETRY_FOR
        )
        skipped = len(queue_rows) - redriven - len(refused)
        counts.append({**_NOTHING, "queue": name, "redriven": redriven, "skipped": skipped})
        rejected += refused
    return counts, rejected


def _redrive_queue(
    queue: Queue[Any, Any], rows: Sequence[dict[str, Any]], by: str
) -> tuple[int, list[RejectedRow]]:
    """How many were redriven, and which were rejected.

    It can be repeated: jobs that the first call has redriven are then skipped.
    """
    unchanged = unchanged_since_plan(queue.store.get(queue.key, [row["id"] for row in rows]), rows)
    rejected, steps = [], []
    for row in unchanged:
        try:
            change = _change(queue, row)
        except InvalidJob as error:
            rejected.append(RejectedRow.of(row, error))
            continue
        # The store checks the token again: others may redrive the job meanwhile.
        step = lifecycle.redrive(row["id"], row["delay"], by, token=row["token"], change=change)
        steps.append(step)
    return sum(verdict.applied for verdict in queue.apply(steps)), rejected


def unchanged_since_plan(
    found: Sequence[Record | None], rows: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The jobs that are still in the DLQ because of the same failure."""
    return [
        row
        for record, row in zip(found, rows, strict=True)
        if record is not None and record.state is State.FAILED and record.token == row["token"]
    ]


def _change(queue: Queue[Any, Any], row: dict[str, Any]) -> Edit | None:
    if (name := row["set_to_null"]) is not None:
        raise InvalidOption(f"--set {name}=… is NULL for this job: give a value")
    payload, priority = row["payload"], row["priority"]
    if payload is None and priority is None:
        return None
    if priority is not None:
        require_priority(priority)
    data = None if payload is None else _payload(queue, row["codec"], payload)
    return Edit(payload=data, priority=priority)


def _payload(queue: Queue[Any, Any], codec: str, text: str) -> bytes:
    """A new payload; a job keeps the codec of its old one, so only JSON may take its place."""
    if codec != queue.serdes.payload.name:
        raise InvalidPayload(
            f"the payload was written as {codec}, and --set payload=… writes JSON: redrive the job "
            "as it is, or edit it in a queue opened with the serde that wrote it"
        )
    return queue.serdes.encode_payload(msgspec.Raw(validated_json("payload", text)))


# --- checking without changes ---


class Rejections(msgspec.Struct, frozen=True, kw_only=True):
    """What a redrive would reject."""

    refused: int
    rejected: list[RejectedRow]
    """Some of them."""


def find_rejections(plan: DataFrame, address: StoreAddress) -> Rejections:
    """Compute the changes of all selected jobs, and store none."""
    reports = plan.repartition(TASKS, "queue", "id").mapInArrow(
        lambda batches: find_rejections_task(address, batches), REJECTIONS_SCHEMA
    )
    rows = reports.toArrow().to_pylist()
    return Rejections(
        refused=sum(row["refused"] for row in rows),
        rejected=RejectedRow.in_report(rows),
    )


def find_rejections_task(
    address: StoreAddress, batches: Iterator[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    """How many jobs one task would reject, and the first of them."""
    refused, listed = 0, list[RejectedRow]()
    with closing(retry_transient(address.connect, RETRY_FOR)) as queues:
        for batch in batches:
            for row in batch.to_pylist():
                try:
                    _change(queues[row["queue"]], row)
                except InvalidJob as error:
                    refused += 1
                    if len(listed) < LISTED:
                        listed.append(RejectedRow.of(row, error).shortened)
    rows = [{"refused": 0, **msgspec.structs.asdict(one)} for one in listed]
    yield pyarrow.RecordBatch.from_pylist([{"refused": refused}, *rows], _CHECKED_ARROW)
