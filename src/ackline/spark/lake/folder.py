"""The lake's folder, on this machine or in any file system that pyarrow knows."""

from __future__ import annotations

import os
from typing import Any

import msgspec
import pyarrow
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet

from ackline.errors import ConfigError
from ackline.ids import new_id
from ackline.spark.errors import LakeDamaged
from ackline.spark.paths import absolute, open_folder

BATCH = "batch_id="


class Folder:
    """Files and folders below one path; `/` separates their parts wherever it is."""

    def __init__(self, path: str) -> None:
        self.path = absolute(path)
        """As Spark calls it."""
        if is_pattern(self.path):
            raise ConfigError(f"{self.path}: to Spark this is a pattern, not a name: take another")
        self._files, self._root = open_folder(self.path)

    def at(self, *parts: str) -> str:
        """A path for Spark."""
        return "/".join((self.path, *parts))

    def exists(self, *parts: str) -> bool:
        """Whether there is a file or a folder."""
        found = self._files.get_file_info(self._own(*parts))
        return bool(found.type != pyarrow.fs.FileType.NotFound)

    def batches(self, *parts: str) -> list[int]:
        """The numbers of the batches that a table has a folder of."""
        selector = pyarrow.fs.FileSelector(self._own(*parts), allow_not_found=True)
        names = [info.base_name for info in self._files.get_file_info(selector)]
        return sorted(int(name.removeprefix(BATCH)) for name in names if name.startswith(BATCH))

    def names(self, *parts: str) -> list[str]:
        """What is directly below, by name."""
        selector = pyarrow.fs.FileSelector(self._own(*parts), allow_not_found=True)
        return sorted(info.base_name for info in self._files.get_file_info(selector))

    def rows(self, *parts: str) -> int:
        """How many rows a table of Parquet has; only its footers are read."""
        return int(self.dataset(*parts).count_rows())

    def dataset(self, *parts: str) -> Any:
        """A table of Parquet as Arrow reads it, without Spark."""
        return pyarrow.dataset.dataset(self._own(*parts), filesystem=self._files, format="parquet")

    def remove(self, *parts: str) -> None:
        """Remove a file or a folder, if it is there."""
        path = self._own(*parts)
        found = self._files.get_file_info(path)
        if found.type == pyarrow.fs.FileType.Directory:
            self._files.delete_dir(path)
        elif found.is_file:
            self._files.delete_file(path)

    def copy(self, source: tuple[str, ...], target: tuple[str, ...]) -> None:
        """Copy a folder. Unlike a move, it can be broken off and done again wherever files are."""
        self._files.create_dir(self._own(*target), recursive=True)
        pyarrow.fs.copy_files(
            self._own(*source),
            self._own(*target),
            source_filesystem=self._files,
            destination_filesystem=self._files,
        )

    def replace(self, source: tuple[str, ...], target: tuple[str, ...]) -> None:
        """Put a folder in the place of another."""
        self.remove(*target)
        self.copy(source, target)
        self.remove(*source)

    def read_json(self, kind: type[Any], *parts: str) -> Any:
        """The contents of a file; None if it does not exist."""
        if not self.exists(*parts):
            return None
        with self._files.open_input_stream(self._own(*parts)) as file:
            contents = file.read()
        try:
            return msgspec.json.decode(contents, type=kind)
        except ValueError as error:
            raise LakeDamaged(
                f"{self.at(*parts)} cannot be read: {error}. Restore it from a backup, or make "
                "another lake"
            ) from None

    def write_json(self, value: Any, *parts: str) -> None:
        """Write a file; readers see the old one or the new one, never half of one."""
        with self._replacing(*parts) as file:
            file.write(msgspec.json.format(msgspec.json.encode(value), indent=2))

    def create_json(self, value: Any, *parts: str) -> None:
        """Write a file unless there is one; of several processes one does it, where files allow."""
        if self.exists(*parts):
            return
        if not isinstance(self._files, pyarrow.fs.LocalFileSystem):
            self.write_json(value, *parts)
            return
        *above, name = parts
        new = f".{name}.{new_id()}"
        self.write_json(value, *above, new)
        try:
            os.link(self._own(*above, new), self._own(*parts))
        except FileExistsError:
            return
        finally:
            self.remove(*above, new)

    def write_table(self, table: pyarrow.Table, *parts: str) -> None:
        """Write one Parquet file, in the same all-or-nothing way."""
        with self._replacing(*parts) as file:
            pyarrow.parquet.write_table(table, file, compression="zstd")

    def _own(self, *parts: str) -> str:
        return "/".join((self._root, *parts))

    def _replacing(self, *parts: str) -> _Replacing:
        *above, name = parts
        self._files.create_dir(self._own(*above), recursive=True)
        # Readers of a table take in what ends with .parquet.
        return _Replacing(self._files, self._own(*above, f".{name}.new"), self._own(*parts))


class _Replacing:
    """A file that takes the place of another when it is complete."""

    def __init__(self, files: pyarrow.fs.FileSystem, new: str, path: str) -> None:
        self._files, self._new, self._path = files, new, path

    def __enter__(self) -> Any:
        self._file = self._files.open_output_stream(self._new)
        return self._file

    def __exit__(self, kind: object, *_error: object) -> None:
        self._file.close()
        if kind is None:
            self._files.move(self._new, self._path)
        else:
            self._files.delete_file(self._new)


def is_pattern(path: str) -> bool:
    """Whether Spark takes a path for a pattern, which may mean other files or none.

    >>> is_pattern("lake [1]"), is_pattern("lake 1")
    (True, False)
    """
    return any(sign in path for sign in "*?[]{}\\")
