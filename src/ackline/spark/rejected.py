"""Rows that were refused: carried back to the driver, kept or listed, never dropped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow
import pyarrow.fs
import pyarrow.parquet
from pyspark.sql.datasource import WriterCommitMessage

from ackline.errors import InvalidJob

LISTED = 10
"""How many refused rows an error shows."""

LONGEST_ROW = 10_000

SCHEMA = pyarrow.schema(
    [("row", pyarrow.string()), ("error", pyarrow.string()), ("reason", pyarrow.string())]
)


class RowsRejected(InvalidJob):
    """Some rows cannot be written; all others are."""

    def __init__(self, rejected: Sequence[Rejected], others: int) -> None:
        shown = "\n".join(f"  {one.row[:200]}: {one.reason}" for one in rejected[:LISTED])
        more = f"\n  and {len(rejected) - LISTED:,} more" if len(rejected) > LISTED else ""
        super().__init__(
            f"{len(rejected):,} rows were refused; the other {others:,} are written. "
            "Correct them and write again, which writes nothing twice, or name a folder for them "
            f"in rejectedPath:\n{shown}{more}"
        )


class Rejected(msgspec.Struct, frozen=True):
    """A row that was refused, as JSON, and why."""

    row: str
    error: str
    reason: str

    @classmethod
    def of(cls, row: dict[str, Any], error: Exception) -> Rejected:
        """A refused row."""
        text = json.dumps(row, default=_as_text, ensure_ascii=False)
        return cls(text[:LONGEST_ROW], type(error).__name__, str(error))


def _as_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


class Written(WriterCommitMessage):
    """What one task did."""

    def __init__(self, written: int, known: int, rejected: list[Rejected]) -> None:
        self.written = written
        self.known = known
        self.rejected = rejected


def report(messages: Sequence[WriterCommitMessage | None], path: str | None, name: str) -> None:
    """Keep what was refused under a name that a repeated write uses again, or list it."""
    tasks = [message for message in messages if isinstance(message, Written)]
    rejected = [one for task in tasks for one in task.rejected]
    if not rejected:
        return
    if path is None:
        raise RowsRejected(rejected, sum(task.written + task.known for task in tasks))
    keep_rejected(rejected, path, name)


def keep_rejected(rejected: Sequence[Rejected], path: str, name: str) -> None:
    """Write refused rows into a folder, as Parquet."""
    system, folder = pyarrow.fs.FileSystem.from_uri(_uri(path))
    system.create_dir(folder, recursive=True)
    table = pyarrow.Table.from_pylist([msgspec.structs.asdict(one) for one in rejected], SCHEMA)
    pyarrow.parquet.write_table(table, f"{folder}/{name}.parquet", filesystem=system)


def _uri(path: str) -> str:
    from pathlib import Path

    return path if "://" in path else Path(path).absolute().as_uri()
