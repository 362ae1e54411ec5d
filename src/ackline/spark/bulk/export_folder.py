"""Replaces an earlier export by a new one when that is complete.

Of several exports into one folder, the first to finish is kept, and the others are refused. There
is no lock, because object stores have none: before an export changes the folder, it creates a
folder `_old-…` in it and then looks for those of others. Of two exports, one sees the other.
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
"""Files by name with sizes and times: all exports have some files of the same names."""


class PreviousExport(msgspec.Struct, frozen=True):
    """What a folder contained when an export began."""

    files: FileStamps
    folders: list[str]


class ExportFolder:
    """The folder of an export, on this machine or in any file system that pyarrow supports."""

    def __init__(self, path: str) -> None:
        self.path = absolute_path(path)
        """In Spark's notation."""
        self._files, self._root = open_folder(self.path)

    def exists(self) -> bool:
        """Whether it is a file, or a folder that is not empty."""
        return self._is_file() or bool(self._found())

    @contextmanager
    def replacing(self) -> Iterator[str]:
        """A path to write to; what is written there then replaces the earlier export.

        A folder with anything else in it is refused, because that would be lost. So is a folder
        into which another export has finished meanwhile.
        """
        earlier = self._require_export()
        # Inside, hidden from readers of tables: outside may be another disk or not writable.
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
                f"{self.path} contains something that no export wrote, such as {foreign[0]!r}; "
                "nothing was changed: name another folder, or move that elsewhere"
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
            f"another export into {self.path} finished or is finishing: this one changed nothing. "
            "Export again, one after the other or into different folders"
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
    """Markers of completeness first, so that no reader finds them while files are moved."""
    return sorted(names, key=lambda name: (name not in SUCCESS_FILES, name))
