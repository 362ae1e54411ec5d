"""Rows that were refused: each task keeps its own in a folder, or they are listed."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow
import pyarrow.fs
import pyarrow.parquet
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from ackline.errors import InvalidJob

LISTED = 10
"""How many refused rows an error shows."""

LONGEST_LISTED = 10_000
"""Characters of a row that is listed; a folder has all of it."""

SCHEMA = pyarrow.schema(
    [("row", pyarrow.string()), ("error", pyarrow.string()), ("reason", pyarrow.string())]
)

UNREADABLE = (KeyError, OverflowError, ValueError)
"""What Arrow raises for a value that Python cannot represent, such as a time in the year 10000."""


class RowsRejected(InvalidJob):
    """Some rows cannot be written; all others are, or those before too many were refused."""

    def __init__(self, rejected: Sequence[Rejected], others: int, *, stopped: bool = False) -> None:
        shown = "\n".join(f"  {one.row[:200]}: {one.reason}" for one in rejected[:LISTED])
        more = f"\n  and {len(rejected) - LISTED:,} more" if len(rejected) > LISTED else ""
        done = (
            f"so its task stopped after it had written {others:,} others"
            if stopped
            else f"the other {others:,} are written"
        )
        super().__init__(
            f"{len(rejected):,} rows were refused; {done}. "
            "Correct them and write again, which writes nothing twice, or name a folder for them "
            f"(rejectedPath, or --rejected), which takes any number:\n{shown}{more}"
        )


class Rejected(msgspec.Struct, frozen=True):
    """A row that was refused, as JSON, with bytes in base64; and why."""

    row: str
    error: str
    reason: str

    @classmethod
    def of(cls, row: dict[str, Any], error: Exception) -> Rejected:
        """A refused row."""
        try:
            text = json.dumps(row, default=_as_text, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):
            text = str(row)
        return cls(text, type(error).__name__, str(error))

    @property
    def listed(self) -> Rejected:
        """The same with as much of the row as can be shown."""
        if len(self.row) <= LONGEST_LISTED:
            return self
        return Rejected(self.row[:LONGEST_LISTED] + "…", self.error, self.reason)


def _as_text(value: Any) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def rows_of(batch: pyarrow.RecordBatch) -> Iterator[dict[str, Any] | Rejected]:
    """The rows of a batch; one with a value that cannot be read does not spoil the others."""
    try:
        yield from batch.to_pylist(maps_as_pydicts="strict")
    except UNREADABLE:
        for number in range(batch.num_rows):
            yield _row_of(batch, number)


def _row_of(batch: pyarrow.RecordBatch, number: int) -> dict[str, Any] | Rejected:
    row: dict[str, Any] = {}
    reason = ""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            row[name] = column[number].as_py(maps_as_pydicts="strict")
        except UNREADABLE as error:
            row[name] = _as_it_is(column[number])
            reason = reason or f"column {name!r} cannot be read: {error}"
    return Rejected.of(row, InvalidJob(reason)) if reason else row


def _as_it_is(value: pyarrow.Scalar[Any]) -> bytes | int | str:
    """The bytes of a text that is none, or the number of a time that Python does not know."""
    if pyarrow.types.is_string(value.type) or pyarrow.types.is_large_string(value.type):
        return bytes(value.as_buffer().to_pybytes())
    if pyarrow.types.is_temporal(value.type):
        return int(value.value)
    return f"a {value.type} that cannot be read"


class Refused:
    """The refused rows of one task.

    Where there is a folder they go into a file in it as they come, any number of them. Its name is
    that of the write and the task's number, so a task that is tried again replaces its own.
    """

    def __init__(self, folder: str | None, name: str, most: int) -> None:
        self.count = 0
        self.listed: list[Rejected] = []
        """Where there is no folder."""
        self._most = most
        self._files: pyarrow.fs.FileSystem | None = None
        self._writer: pyarrow.parquet.ParquetWriter | None = None
        if folder is not None:
            self._files, root = pyarrow.fs.FileSystem.from_uri(_uri(folder))
            self._path = f"{root}/{name}-{partition():05d}.parquet"
            # Readers of Parquet pass over hidden files.
            self._new = f"{root}/.{name}-{uuid.uuid4()}"

    def add(self, rejected: Sequence[Rejected], written: int) -> None:
        """Keep these; `RowsRejected` if they are too many to be listed."""
        if not rejected:
            return
        self.count += len(rejected)
        if self._files is None:
            self.listed += [one.listed for one in rejected]
            if self.count > self._most:
                raise RowsRejected(self.listed, written, stopped=True)
            return
        if self._writer is None:
            self._files.create_dir(self._new.rpartition("/")[0], recursive=True)
            self._writer = pyarrow.parquet.ParquetWriter(self._new, SCHEMA, filesystem=self._files)
        rows = [msgspec.structs.asdict(one) for one in rejected]
        self._writer.write_table(pyarrow.Table.from_pylist(rows, SCHEMA))

    def close(self, *, complete: bool) -> None:
        """Publish the file, or discard it."""
        if self._files is None:
            return
        if self._writer is not None:
            self._writer.close()
            if complete:
                self._files.move(self._new, self._path)
            else:
                self._files.delete_file(self._new)
        elif complete and self._files.get_file_info(self._path).is_file:
            # An earlier try had some; this one has none.
            self._files.delete_file(self._path)


class Aside(msgspec.Struct, frozen=True):
    """Where the tasks of one write keep what they refuse; it travels with them."""

    folder: str | None
    name: str
    most: int = 1000
    """How many refused rows of a task are listed where there is no folder; with more, it fails."""

    @contextmanager
    def refusing(self) -> Iterator[Refused]:
        """The refused rows of one task, kept when it is done."""
        refused, complete = Refused(self.folder, self.name, self.most), False
        try:
            yield refused
            complete = True
        finally:
            refused.close(complete=complete)


def partition() -> int:
    """The number of this task among those of its write."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def micro_batch() -> str:
    """A name for the micro-batch that this task is of: the same when it is replayed."""
    context = TaskContext.get()
    if context is None:
        return f"stream-{uuid.uuid4()}"
    query = context.getLocalProperty("sql.streaming.queryId")
    return f"stream-{query}-batch-{context.getLocalProperty('streaming.sql.batchId')}"


class Written(WriterCommitMessage):
    """What one task did."""

    def __init__(self, written: int, known: int, refused: Refused) -> None:
        self.written = written
        self.known = known
        self.refused = refused.count
        self.rejected = refused.listed


def report(messages: Sequence[WriterCommitMessage | None]) -> None:
    """List what was refused and is not in a folder."""
    tasks = [message for message in messages if isinstance(message, Written)]
    if rejected := [one for task in tasks for one in task.rejected]:
        raise RowsRejected(rejected, sum(task.written + task.known for task in tasks))


def _uri(path: str) -> str:
    return path if "://" in path else Path(path).absolute().as_uri()
