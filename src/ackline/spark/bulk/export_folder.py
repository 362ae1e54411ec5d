"""An export that takes the place of an earlier one when it is complete, and not before.

Of several exports into one folder, the first to end stays, and the others are refused. There is no
lock, because object stores have none: an export that is about to change the folder first makes a
folder in it, `_old-…`, and then looks for such folders of others. One of two sees the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

import msgspec
import pyarrow
import pyarrow.fs
from pyarrow.fs import FileInfo, FileType

from ackline.core.errors import ConfigError
from ackline.core.ids import new_id
from ackline.spark.paths import absolute_path, open_folder

EXPORT_FILES = re.compile(r"part-.*|_SUCCESS|\.(part-.*|_SUCCESS)\.crc")
LEFTOVERS = re.compile(r"_temporary|_(new|old)-.*")
"""Folders of an export that was interrupted, or is still running."""

SUCCESS_FILES = ("_SUCCESS", "._SUCCESS.crc")
"""Files that mark an export as complete."""

FileStamps = dict[str, tuple[int, int | None]]
"""By name, with sizes and times: some files of all exports have the same names."""


class PreviousExport(msgspec.Struct, frozen=True):
    """What a folder had when an export began."""

    files: FileStamps
    folders: list[str]


class ExportFolder:
    """Where an export is, on this machine or in any file system that pyarrow knows."""

    def __init__(self, path: str) -> None:
        self.path = absolute_path(path)
        """As Spark calls it."""
        self._files, self._root = open_folder(self.path)

    def exists(self) -> bool:
        """Whether there is anything at its path, or in it."""
        return self._is_file() or bool(self._found())

    @contextmanager
    def replacing(self) -> Iterator[str]:
        """A path to write to; what is written there then replaces the earlier export.

        A folder with anything else in it is refused, because that would be lost. So is a folder
        into which another export has ended meanwhile.
        """
        earlier = self._require_export()
        # Inside, where no reader of tables looks: outside may be another disk, or no permission.
        new, old = f"_new-{new_id()}", f"_old-{new_id()}"
        try:
            yield f"{self.path}/{new}"
            self._swap(earlier, new, old)
        except Exception as error:
            # If another export has removed our files as leftovers, any error may follow. Only names
            # are compared: in an object store, a file that was moved back has another time.
            if self._files_in().keys() != earlier.files.keys():
                raise self._concurrent_export() from error
            raise
        finally:
            self._remove(new)
        for name in (old, *earlier.folders):
            self._remove(name)

    def _require_export(self) -> PreviousExport:
        """The export that is there, if any."""
        if self._is_file():
            raise ConfigError(f"{self.path} is a file, not an export: name another folder")
        earlier = PreviousExport(self._files_in(), self._folders())
        foreign = [name for name in earlier.files if not EXPORT_FILES.fullmatch(name)]
        foreign += [name for name in earlier.folders if not LEFTOVERS.fullmatch(name)]
        if foreign:
            raise ConfigError(
                f"{self.path} has something that no export wrote, such as {foreign[0]!r}; nothing "
                "was changed: name another folder, or move that away"
            )
        return earlier

    def _swap(self, earlier: PreviousExport, new: str, old: str) -> None:
        moves = [(name, f"{old}/{name}") for name in _success_files_first(earlier.files)]
        moves += [
            (f"{new}/{name}", name) for name in reversed(_success_files_first(self._files_in(new)))
        ]
        self._files.create_dir(self._own(old))
        done = list[tuple[str, str]]()
        try:
            self._require_alone(earlier, old)
            for source, target in moves:
                self._files.move(self._own(source), self._own(target))
                done.append((source, target))
        except BaseException:
            for source, target in reversed(done):
                self._files.move(self._own(target), self._own(source))
            self._remove(old)
            raise

    def _require_alone(self, earlier: PreviousExport, old: str) -> None:
        # Folders first: an export that ends between the two checks has changed the files by then.
        others = set(self._folders()) - {*earlier.folders, old}
        if any(name.startswith("_old-") for name in others) or self._files_in() != earlier.files:
            raise self._concurrent_export()

    def _concurrent_export(self) -> ConfigError:
        return ConfigError(
            f"another export into {self.path} has ended since this one began, or is about to: this "
            "one has changed nothing. Export again, one after the other or into several folders"
        )

    def _is_file(self) -> bool:
        return bool(self._files.get_file_info(self._root).type == FileType.File)

    def _folders(self) -> list[str]:
        return [one.base_name for one in self._found() if one.type == FileType.Directory]

    def _files_in(self, *parts: str) -> FileStamps:
        files = (one for one in self._found(*parts) if one.type == FileType.File)
        return {one.base_name: (one.size, one.mtime_ns) for one in files}

    def _found(self, *parts: str) -> list[FileInfo]:
        selector = pyarrow.fs.FileSelector(self._own(*parts), allow_not_found=True)
        return list(self._files.get_file_info(selector))

    def _remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._files.delete_dir(self._own(name))

    def _own(self, *parts: str) -> str:
        return "/".join((self._root, *parts))


def _success_files_first(names: Iterable[str]) -> list[str]:
    """Marks of completeness first: no reader is to find them while files are moved."""
    return sorted(names, key=lambda name: (name not in SUCCESS_FILES, name))
