"""Loads files as jobs. Loading a file again enqueues nothing twice while its jobs are kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pyarrow
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, StringType, StructType

from ackline.core.errors import ConfigError
from ackline.spark.bulk.input_files import CSV_COLUMN_TYPES, InputRows, unreadable_file_named
from ackline.spark.bulk.malformed_csv import CsvLayout
from ackline.spark.options import JobsWriteOptions
from ackline.spark.store.address import StoreAddress
from ackline.spark.writing.columns import (
    ColumnRoles,
    MissingQueue,
    WrongColumnType,
    classify_columns,
)
from ackline.spark.writing.job_writer import enqueue_rows
from ackline.spark.writing.rejected_rows import RejectedRow
from ackline.spark.writing.rejected_target import RejectedRowsTarget

FROM_JSON_TYPES = {"headers": "map<string,string>", "keys_if_undelivered": "array<array<string>>"}
"""Columns whose types need `from_json` instead of a cast."""

TASK_REPORT_SCHEMA = (
    "written long, known long, refused long, row string, error string, reason string"
)

_ARROW = pyarrow.schema(
    [
        ("written", pyarrow.int64()),
        ("known", pyarrow.int64()),
        ("refused", pyarrow.int64()),
        *((name, pyarrow.string()) for name in ("row", "error", "reason")),
    ]
)


class LoadResult(msgspec.Struct, frozen=True, kw_only=True):
    """How many rows were enqueued, and which were rejected."""

    enqueued: int
    duplicates: int
    """Rows whose id was enqueued before or is in the files twice; the first one counts."""
    rejected: int
    rejected_rows: list[RejectedRow]
    """The rejected rows, unless they are in a folder."""


def load_files(
    files: InputRows, options: JobsWriteOptions, address: StoreAddress, name: str
) -> LoadResult:
    """Enqueue each row; rejected rows are returned with the reason, or go to a folder."""
    columns, names = classify_file_columns(files.rows.schema, options), files.rows.columns
    rejected_target = RejectedRowsTarget.create(
        options.rejected_path, name, options.max_rejected, "--rejected FOLDER"
    )
    # Spark looks columns up by name, and would take a dot for access to a field.
    numbered = _with_numbered_columns(files.rows)

    def enqueue(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        named = (batch.rename_columns(names) for batch in batches)
        return enqueue_task(address, options, columns, named, rejected_target)

    with unreadable_file_named():
        rows = numbered.mapInArrow(enqueue, TASK_REPORT_SCHEMA).toArrow().to_pylist()
    if files.broken is not None and (lines := files.lines) is not None:
        malformed = rejected_target.named(f"{name}-broken")
        broken = _with_numbered_columns(files.broken).mapInArrow(
            lambda batches: reject_task(address, batches, malformed, lines), TASK_REPORT_SCHEMA
        )
        rows += broken.toArrow().to_pylist()
    return LoadResult(
        enqueued=sum(row["written"] for row in rows),
        duplicates=sum(row["known"] for row in rows),
        rejected=sum(row["refused"] for row in rows),
        rejected_rows=RejectedRow.in_report(rows),
    )


def classify_file_columns(schema: StructType, options: JobsWriteOptions) -> ColumnRoles:
    """The columns by their use; errors name the options of the command."""
    try:
        return classify_columns(schema, options)
    except WrongColumnType as error:
        raise ConfigError(
            f"{error.problem}: convert it, such as with {_suggested_set(error.column, error.kind)}"
        ) from None
    except MissingQueue:
        raise ConfigError("which queue? Add --queue NAME, or a column 'queue'") from None


def _suggested_set(column: str, kind: DataType) -> str:
    """The option that converts a column."""
    if column in FROM_JSON_TYPES:
        text = column if isinstance(kind, StringType) else f"to_json({column})"
        return f"--set \"{column}=from_json({text}, '{FROM_JSON_TYPES[column]}')\""
    if column == "backoff" and isinstance(kind, ArrayType):
        return '--set "backoff=cast(backoff as array<double>)"'
    option = f'--set "{column}=cast({column} as {CSV_COLUMN_TYPES[column].simpleString()})"'
    if column == "backoff":
        option += ", or for a list --set \"backoff=from_json(backoff, 'array<double>')\""
    return option


def enqueue_task(
    address: StoreAddress,
    options: JobsWriteOptions,
    columns: ColumnRoles,
    batches: Iterator[pyarrow.RecordBatch],
    rejected_target: RejectedRowsTarget,
) -> Iterator[pyarrow.RecordBatch]:
    """The report of one task: its counts, then a row for each rejected one that is listed."""
    done = enqueue_rows(address, options, columns, batches, rejected_target)
    yield _report(done.written, done.known, done.rejected, done.listed)


def _with_numbered_columns(rows: DataFrame) -> DataFrame:
    return rows.toDF(*(f"c{number}" for number in range(len(rows.columns))))


def reject_task(
    address: StoreAddress,
    batches: Iterator[pyarrow.RecordBatch],
    rejected_target: RejectedRowsTarget,
    lines: CsvLayout,
) -> Iterator[pyarrow.RecordBatch]:
    """The report of a task with malformed lines."""
    with rejected_target.open(address) as rejected_sink:
        for batch in batches:
            rejected_sink.add(list(lines.refused(batch)), 0)
    yield _report(0, 0, rejected_sink.count, rejected_sink.listed)


def _report(
    written: int, known: int, refused: int, rejected: Sequence[RejectedRow]
) -> pyarrow.RecordBatch:
    none = {"written": 0, "known": 0, "refused": 0}
    return pyarrow.RecordBatch.from_pylist(
        [
            {"written": written, "known": known, "refused": refused},
            *({**none, **msgspec.structs.asdict(row)} for row in rejected),
        ],
        _ARROW,
    )
