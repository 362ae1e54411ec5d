"""Files into jobs. If a file is loaded twice, nothing is enqueued twice while its job is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pyarrow
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, StringType, StructType

from ackline.core.errors import ConfigError
from ackline.spark.bulk.input_files import CSV_COLUMN_TYPES, InputRows, naming_unreadable_file
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
from ackline.spark.writing.rejected import RejectedRow
from ackline.spark.writing.rejects_place import RejectedRowsTarget

FROM_JSON_TYPES = {"headers": "map<string,string>", "keys_if_undelivered": "array<array<string>>"}
"""Columns that no cast makes of text, and their types."""

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
    """What became of the rows of files."""

    enqueued: int
    duplicates: int
    """Rows whose id was enqueued before, or is in the files twice: the first to arrive is kept."""
    rejected: int
    rejected_rows: list[RejectedRow]
    """The refused rows, unless a folder has them."""


def load_files(
    files: InputRows, options: JobsWriteOptions, address: StoreAddress, name: str
) -> LoadResult:
    """Enqueue each row; those that cannot be jobs come back with the reason, or go to a folder."""
    columns, names = classify_file_columns(files.rows.schema, options), files.rows.columns
    rejects = RejectedRowsTarget.create(
        options.rejected_path, name, options.max_rejected, "--rejected FOLDER"
    )
    # Spark looks columns up by name, and would take a dot for access to a field.
    numbered = _with_numbered_columns(files.rows)

    def enqueue(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        named = (batch.rename_columns(names) for batch in batches)
        return enqueue_task(address, options, columns, named, rejects)

    with naming_unreadable_file():
        rows = numbered.mapInArrow(enqueue, TASK_REPORT_SCHEMA).toArrow().to_pylist()
    if files.broken is not None and (lines := files.lines) is not None:
        aside = rejects.named(f"{name}-broken")
        broken = _with_numbered_columns(files.broken).mapInArrow(
            lambda batches: reject_task(address, batches, aside, lines), TASK_REPORT_SCHEMA
        )
        rows += broken.toArrow().to_pylist()
    return LoadResult(
        enqueued=sum(row["written"] for row in rows),
        duplicates=sum(row["known"] for row in rows),
        rejected=sum(row["refused"] for row in rows),
        rejected_rows=RejectedRow.in_report(rows),
    )


def classify_file_columns(schema: StructType, options: JobsWriteOptions) -> ColumnRoles:
    """The columns by what they are for; what is wrong is refused as a command says it."""
    try:
        return classify_columns(schema, options)
    except WrongColumnType as error:
        raise ConfigError(
            f"{error.problem}: convert it, such as with {_suggested_set(error.column, error.kind)}"
        ) from None
    except MissingQueue:
        raise ConfigError("which queue? Add --queue NAME, or a column 'queue'") from None


def _suggested_set(column: str, kind: DataType) -> str:
    """The option that makes a column what it must be."""
    if column in FROM_JSON_TYPES:
        text = column if isinstance(kind, StringType) else f"to_json({column})"
        return f"--set \"{column}=from_json({text}, '{FROM_JSON_TYPES[column]}')\""
    if column == "backoff" and isinstance(kind, ArrayType):
        return '--set "backoff=cast(backoff as array<double>)"'
    said = f'--set "{column}=cast({column} as {CSV_COLUMN_TYPES[column].simpleString()})"'
    if column == "backoff":
        said += ", or for a list --set \"backoff=from_json(backoff, 'array<double>')\""
    return said


def enqueue_task(
    address: StoreAddress,
    options: JobsWriteOptions,
    columns: ColumnRoles,
    batches: Iterator[pyarrow.RecordBatch],
    rejects_place: RejectedRowsTarget,
) -> Iterator[pyarrow.RecordBatch]:
    """What one task did: how many were written, then a row for each refused one to be listed."""
    done = enqueue_rows(address, options, columns, batches, rejects_place)
    yield _report(done.written, done.known, done.rejected, done.listed)


def _with_numbered_columns(rows: DataFrame) -> DataFrame:
    return rows.toDF(*(f"c{number}" for number in range(len(rows.columns))))


def reject_task(
    address: StoreAddress,
    batches: Iterator[pyarrow.RecordBatch],
    rejects_place: RejectedRowsTarget,
    lines: CsvLayout,
) -> Iterator[pyarrow.RecordBatch]:
    """Lines that could not be read, reported in the same way."""
    with rejects_place.open(address) as rejects:
        for batch in batches:
            rejects.add(list(lines.refused(batch)), 0)
    yield _report(0, 0, rejects.count, rejects.listed)


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
