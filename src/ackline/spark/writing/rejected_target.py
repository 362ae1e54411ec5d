"""Where rejected rows go: a file for each task, or a list in the task's result."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, Self

import msgspec
import pyarrow
import pyarrow.parquet

from ackline.spark.options import WriteOptions
from ackline.spark.paths import absolute_path, is_local, open_folder
from ackline.spark.store.address import StoreAddress
from ackline.spark.writing.rejected_rows import REJECTED_PATH, RejectedRow, RowsRejected
from ackline.spark.writing.task_names import partition_id

REJECTED_SCHEMA = pyarrow.schema(
    [("row", pyarrow.string()), ("error", pyarrow.string()), ("reason", pyarrow.string())]
)


class RejectedRowsSink(Protocol):
    """The rejected rows of one task."""

    listed: list[RejectedRow]
    """Those that are not written to a folder."""

    @property
    def count(self) -> int:
        """How many there are."""

    def add(self, rows: Sequence[RejectedRow], written: int) -> None:
        """Add rejected rows; `written` other rows have been written so far."""


class RejectedRowsTarget(msgspec.Struct, frozen=True):
    """Where the tasks of one write put rejected rows; this is sent to the tasks."""

    folder: str | None
    """Its path as Spark writes it; None if rejected rows are listed."""
    name: str
    """The name of the write, which is part of the names of its files."""
    max_listed: int
    """How many rows of a task are listed if there is no folder; with more, the task fails."""

    option: str = REJECTED_PATH
    """The option with which its user can name a folder."""

    @classmethod
    def create(
        cls, path: str | None, name: str, max_listed: int, option: str = REJECTED_PATH
    ) -> RejectedRowsTarget:
        """The target for all tasks; a folder that cannot be reached is refused."""
        if path is None:
            return cls(None, name, max_listed, option)
        open_folder(path)
        return cls(absolute_path(path), name, max_listed, option)

    def named(self, name: str) -> RejectedRowsTarget:
        """The same for another write."""
        return msgspec.structs.replace(self, name=name)

    def open(self, address: StoreAddress) -> AbstractContextManager[RejectedRowsSink]:
        """Open it for one task; `address` knows which machine planned the query."""
        if self.folder is None:
            return nullcontext(RejectedRowsList(self.max_listed, self.option))
        if is_local(self.folder):
            address.require_visible(
                f"the folder {self.folder} for rejected rows",
                "name one that all machines reach, such as s3://bucket/rejected",
            )
        return RejectedRowsFile(self.folder, self.name)


def rejected_rows_target(options: WriteOptions) -> RejectedRowsTarget:
    """The target for one write, with a unique name."""
    name = f"write-{uuid.uuid4()}"
    return RejectedRowsTarget.create(options.rejected_path, name, options.max_rejected)


class RejectedRowsList:
    """The rejected rows of a task that has no folder for them."""

    def __init__(self, max_listed: int, option: str) -> None:
        self.listed: list[RejectedRow] = []
        self._max_listed = max_listed
        self._option = option

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.listed)

    def add(self, rows: Sequence[RejectedRow], written: int) -> None:
        """Add rejected rows; raises `RowsRejected` if there are too many to list."""
        self.listed += [row.shortened for row in rows]
        if self.count > self._max_listed:
            raise RowsRejected(self.listed, written, stopped=True, option=self._option)


class RejectedRowsFile:
    """The rejected rows of a task in a file, complete and in any number.

    The file is named by the write and the task's number, so a task that is tried again replaces its
    own file. It appears when the task has succeeded, or not at all.
    """

    def __init__(self, folder: str, name: str) -> None:
        self.count = 0
        self.listed: list[RejectedRow] = []
        self._files, self._root = open_folder(folder)
        self._path = f"{self._root}/{name}-{partition_id():05d}.parquet"
        # Readers of Parquet pass over hidden files.
        self._new = f"{self._root}/.{name}-{uuid.uuid4()}"
        self._writer: pyarrow.parquet.ParquetWriter | None = None

    def add(self, rows: Sequence[RejectedRow], written: int) -> None:  # noqa: ARG002
        """Write these into the file."""
        if not rows:
            return
        if self._writer is None:
            self._files.create_dir(self._root, recursive=True)
            self._writer = pyarrow.parquet.ParquetWriter(
                self._new, REJECTED_SCHEMA, filesystem=self._files
            )
        self.count += len(rows)
        listed = [msgspec.structs.asdict(row) for row in rows]
        self._writer.write_table(pyarrow.Table.from_pylist(listed, REJECTED_SCHEMA))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_error: object) -> None:
        complete = kind is None
        if self._writer is not None:
            self._writer.close()
            if complete:
                self._files.move(self._new, self._path)
            else:
                self._files.delete_file(self._new)
        elif complete and self._files.get_file_info(self._path).is_file:
            # An earlier attempt of the task rejected rows, this one none.
            self._files.delete_file(self._path)
