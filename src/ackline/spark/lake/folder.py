"""The lake's folder, on this machine or in any file system that pyarrow knows."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet

from ackline.core.errors import ConfigError
from ackline.spark.lake import placing
from ackline.spark.lake.damage import naming_damage, unreadable
from ackline.spark.lake.placing import Check, check_nothing, discard, is_aside, is_local, replacing
from ackline.spark.paths import absolute_path, open_folder

BATCH = "batch_id="

Stamp = tuple[int | None, int | None]
"""The size of a file, and when it was written."""


class Folder:
    """Files and folders below one path; `/` separates its segments in every file system."""

    def __init__(self, path: str, check: Check = check_nothing) -> None:
        self.path = absolute_path(path)
        """As Spark writes it."""
        self.check = check
        """Called right before each change."""
        if is_pattern(self.path):
            raise ConfigError(f"{self.path}: to Spark this is a pattern, not a name: take another")
        self._files, self._root = open_folder(self.path)

    def at(self, *segments: str) -> str:
        """A path for Spark."""
        return "/".join((self.path, *segments))

    def exists(self, *segments: str) -> bool:
        """Whether there is a file or a folder."""
        found = self._files.get_file_info(self._own(*segments))
        return bool(found.type != pyarrow.fs.FileType.NotFound)

    def batches(self, *segments: str) -> list[int]:
        """The numbers of the batches that have a folder in a table."""
        selector = pyarrow.fs.FileSelector(self._own(*segments), allow_not_found=True)
        names = [info.base_name for info in self._files.get_file_info(selector)]
        return sorted(int(name.removeprefix(BATCH)) for name in names if name.startswith(BATCH))

    def names(self, *segments: str) -> list[str]:
        """What is directly below, by name."""
        selector = pyarrow.fs.FileSelector(self._own(*segments), allow_not_found=True)
        return sorted(info.base_name for info in self._files.get_file_info(selector))

    def stamps(self, *segments: str) -> dict[str, Stamp]:
        """The files directly below, by name, each with what changes when it is replaced."""
        selector = pyarrow.fs.FileSelector(self._own(*segments), allow_not_found=True)
        found = sorted(self._files.get_file_info(selector), key=lambda info: info.base_name)
        return {info.base_name: (info.size, info.mtime_ns) for info in found}

    def count_rows(self, *segments: str) -> int:
        """How many rows a table of Parquet has; only its footers are read."""
        with naming_damage(self.at(*segments)):
            return int(self.dataset(*segments).count_rows())

    def dataset(self, *segments: str) -> Any:
        """A table of Parquet as Arrow reads it, without Spark."""
        path = self._own(*segments)
        with naming_damage(self.at(*segments)):
            return pyarrow.dataset.dataset(path, filesystem=self._files, format="parquet")

    def remove(self, *segments: str) -> None:
        """Remove a file or a folder, if it is there."""
        placing.remove(self._files, self._own(*segments), self.check)

    def replace(self, source: tuple[str, ...], target: tuple[str, ...]) -> None:
        """Put a copy of a folder in the place of another; it can be interrupted and repeated."""
        placing.replace(self._files, self._own(*source), self._own(*target), self.check)

    def read(self, *segments: str) -> bytes | None:
        """The contents of a file; None if it does not exist."""
        try:
            with self._files.open_input_stream(self._own(*segments)) as file:
                contents: bytes = file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return contents

    def read_json(self, kind: type[Any], *segments: str) -> Any:
        """What a file says; None if it does not exist."""
        contents = self.read(*segments)
        if contents is None:
            return None
        try:
            return msgspec.json.decode(contents, type=kind)
        except ValueError as error:
            raise unreadable(self.at(*segments), error) from None

    def write_json(self, value: Any, *segments: str) -> None:
        """Write a file; readers see the old one or the new one, never half of one.

        Except in HDFS, which removes the old one first: a reader in that moment finds none, nor
        does the next run if this one dies then.
        """
        with replacing(self._files, self._own(*segments), self.check) as file:
            file.write(_as_json(value))

    def create_json(self, value: Any, *segments: str) -> None:
        """Write a file unless it exists; only one of several processes does, if files allow it."""
        if self.exists(*segments):
            return
        if is_local(self._files):
            placing.create(self._own(*segments), _as_json(value))
        else:
            self.write_json(value, *segments)

    def write_table(self, table: pyarrow.Table, *segments: str) -> None:
        """Write one Parquet file, in the same all-or-nothing way."""
        with replacing(self._files, self._own(*segments), self.check) as file:
            pyarrow.parquet.write_table(table, file, compression="zstd")

    def sweep(self, *segments: str) -> None:
        """Remove what was left directly below when a run was killed while it replaced files."""
        for name in filter(is_aside, self.names(*segments)):
            self.check()
            discard(self._files, self._own(*segments, name))

    def _own(self, *segments: str) -> str:
        return "/".join((self._root, *segments))


def _as_json(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2)


def is_pattern(path: str) -> bool:
    """Whether Spark takes a path for a pattern, which may mean other files or none.

    >>> is_pattern("lake [1]"), is_pattern("lake 1")
    (True, False)
    """
    return any(sign in path for sign in "*?[]{}\\")
