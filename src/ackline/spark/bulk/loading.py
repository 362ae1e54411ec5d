"""Files into jobs. If a file is loaded twice, nothing is enqueued twice while its job is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pyarrow
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, StringType, StructType

from ackline.errors import ConfigError
from ackline.spark.bulk.broken_lines import CsvLines
from ackline.spark.bulk.files import TYPES, Files, naming_the_file
from ackline.spark.options import WriteJobs
from ackline.spark.store_address import StoreAddress
from ackline.spark.writing.columns import Columns, NoQueue, WrongType, columns_of_jobs
from ackline.spark.writing.jobs import enqueue_rows
from ackline.spark.writing.rejected import RejectedRow
from ackline.spark.writing.rejects_place import RejectsPlace

OF_JSON = {"headers": "map<string,string>", "keys_if_undelivered": "array<array<string>>"}
"""Columns that no cast makes of text, and their types."""

SCHEMA = "written long, known long, refused long, row string, error string, reason string"

_ARROW = pyarrow.schema(
    [
        ("written", pyarrow.int64()),
        ("known", pyarrow.int64()),
        ("refused", pyarrow.int64()),
        *((name, pyarrow.string()) for name in ("row", "error", "reason")),
    ]
)


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the rows of files."""

    written: int
    known: int
    """Rows whose id was enqueued before, or is in the files twice: the first to arrive is kept."""
    refused: int
    rejected: list[RejectedRow]
    """The refused rows, unless a folder has them."""


def load(files: Files, options: WriteJobs, address: StoreAddress, name: str) -> Loaded:
    """Enqueue each row; those that cannot be jobs come back with the reason, or go to a folder."""
    columns, names = columns_of_rows(files.rows.schema, options), files.rows.columns
    rejects = RejectsPlace.planned(
        options.rejected_path, name, options.max_rejected, "--rejected FOLDER"
    )
    # Spark looks columns up by name, and would take a dot for access to a field.
    numbered = _numbered(files.rows)

    def enqueue(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        named = (batch.rename_columns(names) for batch in batches)
        return enqueue_some(address, options, columns, named, rejects)

    with naming_the_file():
        rows = numbered.mapInArrow(enqueue, SCHEMA).toArrow().to_pylist()
    if files.broken is not None and (lines := files.lines) is not None:
        aside = rejects.named(f"{name}-broken")
        broken = _numbered(files.broken).mapInArrow(
            lambda batches: refuse_some(address, batches, aside, lines), SCHEMA
        )
        rows += broken.toArrow().to_pylist()
    return Loaded(
        written=sum(row["written"] for row in rows),
        known=sum(row["known"] for row in rows),
        refused=sum(row["refused"] for row in rows),
        rejected=RejectedRow.in_report(rows),
    )


def columns_of_rows(schema: StructType, options: WriteJobs) -> Columns:
    """The columns by what they are for; what is wrong is refused as a command says it."""
    try:
        return columns_of_jobs(schema, options)
    except WrongType as error:
        raise ConfigError(
            f"{error.problem}: convert it, such as with {_conversion(error.column, error.kind)}"
        ) from None
    except NoQueue:
        raise ConfigError("which queue? Add --queue NAME, or a column 'queue'") from None


def _conversion(column: str, kind: DataType) -> str:
    """The option that makes a column what it must be."""
    if column in OF_JSON:
        text = column if isinstance(kind, StringType) else f"to_json({column})"
        return f"--set \"{column}=from_json({text}, '{OF_JSON[column]}')\""
    if column == "backoff" and isinstance(kind, ArrayType):
        return '--set "backoff=cast(backoff as array<double>)"'
    said = f'--set "{column}=cast({column} as {TYPES[column].simpleString()})"'
    if column == "backoff":
        said += ", or for a list --set \"backoff=from_json(backoff, 'array<double>')\""
    return said


def enqueue_some(
    address: StoreAddress,
    options: WriteJobs,
    columns: Columns,
    batches: Iterator[pyarrow.RecordBatch],
    rejects_place: RejectsPlace,
) -> Iterator[pyarrow.RecordBatch]:
    """What one task did: how many were written, then a row for each refused one to be listed."""
    done = enqueue_rows(address, options, columns, batches, rejects_place)
    yield _report(done.written, done.known, done.rejected, done.listed)


def _numbered(rows: DataFrame) -> DataFrame:
    return rows.toDF(*(f"c{number}" for number in range(len(rows.columns))))


def refuse_some(
    address: StoreAddress,
    batches: Iterator[pyarrow.RecordBatch],
    rejects_place: RejectsPlace,
    lines: CsvLines,
) -> Iterator[pyarrow.RecordBatch]:
    """Lines that could not be read, reported in the same way."""
    with rejects_place.opened(address) as rejects:
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
