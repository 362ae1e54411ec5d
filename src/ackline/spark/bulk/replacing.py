"""An export that takes the place of an earlier one when it is complete, and not before."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow
import pyarrow.fs
from pyarrow.fs import FileType

from ackline.errors import ConfigError
from ackline.ids import new_id
from ackline.spark.paths import absolute, open_folder

FILES = re.compile(r"part-.*|_SUCCESS|\.(part-.*|_SUCCESS)\.crc")
LEFTOVERS = re.compile(r"_temporary|_(new|old)-.*")
"""Folders of an export that was broken off."""

COMPLETE = ("_SUCCESS", "._SUCCESS.crc")
"""Files that say that all others are there."""


class ExportFolder:
    """Where an export is, on this machine or in any file system that pyarrow knows."""

    def __init__(self, path: str) -> None:
        self.path = absolute(path)
        """As Spark calls it."""
        self._files, self._root = open_folder(self.path)

    def exists(self) -> bool:
        """Whether there is anything at its path."""
        return bool(self._type() != FileType.NotFound)

    @contextmanager
    def replacing(self) -> Iterator[str]:
        """A path to write to; what is written there then replaces the earlier export.

        A folder with anything else in it is refused, because that would be lost.
        """
        earlier = self._require_export()
        # Inside, where no reader of tables looks: beside it may be another disk, or no permission.
        new, old = f"_new-{new_id()}", f"_old-{new_id()}"
        try:
            yield f"{self.path}/{new}"
            self._swap(earlier, new, old)
        finally:
            self._remove(new)
        for name in self._names(FileType.Directory):
            self._remove(name)

    def _require_export(self) -> list[str]:
        """The files of the export that is there."""
        if self._type() != FileType.Directory:
            raise ConfigError(f"{self.path} is a file, not an export: name another folder")
        files, folders = self._names(FileType.File), self._names(FileType.Directory)
        foreign = [name for name in files if not FILES.fullmatch(name)]
        foreign += [name for name in folders if not LEFTOVERS.fullmatch(name)]
        if foreign:
            raise ConfigError(
                f"{self.path} has something that no export wrote, such as {foreign[0]!r}; nothing "
                "was changed: name another folder, or move that away"
            )
        return files

    def _swap(self, earlier: Sequence[str], new: str, old: str) -> None:
        written = self._names(FileType.File, new)
        moves = [(name, f"{old}/{name}") for name in _ordered(earlier)]
        moves += [(f"{new}/{name}", name) for name in reversed(_ordered(written))]
        self._files.create_dir(self._own(old))
        done = list[tuple[str, str]]()
        try:
            for source, target in moves:
                self._files.move(self._own(source), self._own(target))
                done.append((source, target))
        except BaseException:
            for source, target in reversed(done):
                self._files.move(self._own(target), self._own(source))
            self._remove(old)
            raise

    def _type(self, *parts: str) -> FileType:
        return self._files.get_file_info(self._own(*parts)).type

    def _names(self, type: FileType, *parts: str) -> list[str]:
        selector = pyarrow.fs.FileSelector(self._own(*parts))
        found = self._files.get_file_info(selector)
        return sorted(info.base_name for info in found if info.type == type)

    def _remove(self, name: str) -> None:
        if self._type(name) == FileType.Directory:
            self._files.delete_dir(self._own(name))

    def _own(self, *parts: str) -> str:
        return "/".join((self._root, *parts))


def _ordered(names: Sequence[str]) -> list[str]:
    """First what says that all are there: no reader is to believe it while files are moved."""
    return sorted(names, key=lambda name: name not in COMPLETE)
