"""The lake's folder, on this machine or in any file system that pyarrow knows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet

from ackline.errors import ConfigError
from ackline.ids import new_id
from ackline.spark.errors import LakeDamaged

BATCH = "batch_id="

UNFINISHED = ".new"
"""How the name of a file ends that is to take the place of another."""


class Folder:
    """Files and folders below one path; `/` separates their parts wherever it is."""

    def __init__(self, path: str) -> None:
        self.path = path.rstrip("/") if "://" in path else str(Path(path).absolute())
        """As Spark calls it."""
        if is_pattern(self.path):
            raise ConfigError(f"{self.path}: to Spark this is a pattern, not a name: take another")
        try:
            self._files, self._root = pyarrow.fs.FileSystem.from_uri(uri_of(self.path))
        except (pyarrow.ArrowInvalid, OSError) as error:
            raise ConfigError(f"the folder {path!r} cannot be reached: {error}") from None

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

    def replace(
        self, source: tuple[str, ...], target: tuple[str, ...], check: Callable[[], None]
    ) -> None:
        """Put a folder's files in the place of those that another has, if a check lets it.

        Only what was there before the check is removed: what somebody else puts there since stays,
        for Spark names each file anew.
        """
        old = self.names(*target)
        check()
        for name in old:
            self.remove(*target, name)
        self.copy(source, target)

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
        with replacing(self._files, self._own(*parts)) as file:
            file.write(_as_json(value))

    def create_json(self, value: Any, *parts: str) -> None:
        """Write a file unless there is one; of several processes one does it, where files allow."""
        if self.exists(*parts):
            return
        if not isinstance(self._files, pyarrow.fs.LocalFileSystem):
            self.write_json(value, *parts)
            return
        *above, name = parts
        first = (*above, f".{name}.{new_id()}")
        self._files.create_dir(self._own(*above), recursive=True)
        try:
            with self._files.open_output_stream(self._own(*first)) as file:
                file.write(_as_json(value))
            os.link(self._own(*first), self._own(*parts))
        except FileExistsError:
            return
        finally:
            self.remove(*first)

    def write_table(self, table: pyarrow.Table, *parts: str) -> None:
        """Write one Parquet file, in the same all-or-nothing way."""
        with replacing(self._files, self._own(*parts)) as file:
            pyarrow.parquet.write_table(table, file, compression="zstd")

    def sweep(self, *parts: str) -> None:
        """Remove what those have left directly below who were killed while they wrote a file."""
        for name in self.names(*parts):
            if name.startswith(".") and name.endswith(UNFINISHED):
                self.remove(*parts, name)

    def _own(self, *parts: str) -> str:
        return "/".join((self._root, *parts))


@contextmanager
def replacing(files: pyarrow.fs.FileSystem, path: str) -> Iterator[Any]:
    """A file that takes the place of another when it is complete."""
    above, _, name = path.rpartition("/")
    files.create_dir(above, recursive=True)
    # Hidden, for readers of a table; and nobody else's, for a run that was taken for dead may
    # wake up and write at the same time as the one that took over.
    new = f"{above}/.{name}.{new_id()}{UNFINISHED}"
    file = files.open_output_stream(new)
    try:
        with file:
            yield file
        files.move(new, path)
    except BaseException:
        files.delete_file(new)
        raise


def _as_json(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2)


def is_pattern(path: str) -> bool:
    """Whether Spark takes a path for a pattern, which may mean other files or none.

    >>> is_pattern("lake [1]"), is_pattern("lake 1")
    (True, False)
    """
    return any(sign in path for sign in "*?[]{}\\")


def uri_of(path: str) -> str:
    """A path as Arrow and delta-rs name it."""
    # Hadoop has another name for the same thing.
    if path.startswith("s3a://"):
        return "s3://" + path.removeprefix("s3a://")
    return path if "://" in path else Path(path).as_uri()
