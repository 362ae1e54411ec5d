"""Replaces or removes files and folders as a whole, and only while this run has the lake.

A run that was taken for dead may wake up anywhere, when another run has the lake. So whatever takes
time is done aside, under a unique name; then a check must pass; and the change that follows is as
short as the file system allows. On this machine that is a rename. Object stores have none: there,
files get new names each time, so that they can be told from those of another run.

A run may fall asleep even between the check and the change. So what is about to go is looked at
before the check. If something else is in its place after that, another run may have put it there,
and it stays unless a second check passes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow.fs

from ackline.core.ids import new_id

UNFINISHED, OUTDATED = ".new", ".old"
"""The endings of the names of what is about to take a place, and of what was replaced."""

Check = Callable[[], object]
"""Raises unless a change may be made now."""


def check_nothing() -> None:
    """For a folder that nobody else changes."""


@contextmanager
def replacing(
    files: pyarrow.fs.FileSystem, path: str, check: Check = check_nothing
) -> Iterator[Any]:
    """A file that takes the place of another when it is complete."""
    files.create_dir(path.rpartition("/")[0], recursive=True)
    new = _beside(path, UNFINISHED)
    file = files.open_output_stream(new)
    try:
        with file:
            yield file
        before = _identity(files, path)
        check()
        if _identity(files, path) != before:
            check()
        move(files, new, path)
    except BaseException:
        discard(files, new)
        raise


def create(path: str, contents: bytes) -> None:
    """Make a file of this machine, never half of it, unless it exists."""
    new = Path(_beside(path, UNFINISHED))
    new.parent.mkdir(parents=True, exist_ok=True)
    try:
        new.write_bytes(contents)
        os.link(new, path)
    except FileExistsError:
        return
    except OSError:
        # Not all file systems have links: without them, the file is incomplete for a moment.
        with suppress(FileExistsError), open(path, "xb") as file:
            file.write(contents)
    finally:
        new.unlink(missing_ok=True)


def replace(files: pyarrow.fs.FileSystem, source: str, target: str, check: Check) -> None:
    """Put a copy of a folder in the place of another folder, or where there is none."""
    if is_local(files):
        _replace_by_rename(files, source, target, check)
    else:
        _replace_by_copy(files, source, target, check)


def remove(files: pyarrow.fs.FileSystem, path: str, check: Check) -> None:
    """Remove a file or a folder, if it is there."""
    found = files.get_file_info(path)
    if found.type == pyarrow.fs.FileType.NotFound:
        return
    before = _identity(files, path)
    check()
    if not is_local(files):
        discard(files, path)
        return
    old = _beside(path, OUTDATED)
    _move_aside(files, path, old, before, check)
    discard(files, old)


def discard(files: pyarrow.fs.FileSystem, path: str) -> None:
    """Remove what nobody else uses, file by file."""
    found = files.get_file_info(path)
    if found.type == pyarrow.fs.FileType.Directory:
        files.delete_dir(path)
    elif found.is_file:
        files.delete_file(path)


def move(files: pyarrow.fs.FileSystem, source: str, target: str) -> None:
    """Give a file, or on this machine a folder, another name."""
    files.move(source, target)


def is_local(files: pyarrow.fs.FileSystem) -> bool:
    """Whether a folder can be renamed at once."""
    return isinstance(files, pyarrow.fs.LocalFileSystem)


def is_aside(name: str) -> bool:
    """Whether a name is that of what an interrupted run has written or put aside."""
    return name.startswith(".") and name.endswith((UNFINISHED, OUTDATED))


def _replace_by_rename(
    files: pyarrow.fs.FileSystem, source: str, target: str, check: Check
) -> None:
    new, old = _beside(target, UNFINISHED), _beside(target, OUTDATED)
    try:
        shutil.copytree(source, new, copy_function=_link)
        mine, before = _identity(files, new), _identity(files, target)
        check()
        _move_aside(files, target, old, before, check)
        # Fails if another run has filled the place since.
        move(files, new, target)
        _check_or(check, lambda: _move_aside(files, target, new, mine, check))
    except OSError:
        check()
        raise
    finally:
        discard(files, new)
    discard(files, old)


def _move_aside(
    files: pyarrow.fs.FileSystem, path: str, aside: str, expected: object, check: Check
) -> None:
    """Give what is at a path another name; put it back if it is another run's."""
    with suppress(FileNotFoundError):
        move(files, path, aside)
    if _identity(files, aside) != expected:
        _check_or(check, lambda: move(files, aside, path))


def _check_or(check: Check, undo: Callable[[], None]) -> None:
    """Undo the last step if this run no longer has the lake."""
    try:
        check()
    except BaseException:
        # Fails if another run has changed the same since: then there is nothing to undo.
        with suppress(OSError):
            undo()
        raise


def _identity(files: pyarrow.fs.FileSystem, path: str) -> object:
    """What tells a file or folder from a later one of the same name; None if there is none."""
    if is_local(files):
        with suppress(FileNotFoundError):
            found = os.stat(path)
            return found.st_ino, found.st_mtime_ns
        return None
    info = files.get_file_info(path)
    return None if info.type == pyarrow.fs.FileType.NotFound else (info.size, info.mtime_ns)


def _replace_by_copy(files: pyarrow.fs.FileSystem, source: str, target: str, check: Check) -> None:
    """Copying takes a while: only afterwards is it certain that this run still had the lake."""
    old, prefix = _files_in(files, target), new_id()
    new = {path: f"{target}/{prefix}-{_name(path)}" for path in _files_in(files, source)}
    check()
    for path in old:
        _delete(files, path)
    try:
        files.create_dir(target, recursive=True)
        for path, copy in new.items():
            files.copy_file(path, copy)
        check()
    except BaseException:
        for copy in new.values():
            _delete(files, copy)
        raise


def _files_in(files: pyarrow.fs.FileSystem, path: str) -> list[str]:
    """The files with rows: Spark also leaves some that only mark its end."""
    found = files.get_file_info(pyarrow.fs.FileSelector(path, allow_not_found=True))
    return sorted(one.path for one in found if one.is_file and one.base_name[0] not in "._")


def _delete(files: pyarrow.fs.FileSystem, path: str) -> None:
    with suppress(FileNotFoundError):
        files.delete_file(path)


def _link(source: str, target: str) -> None:
    """Copy without time or space, by a link: files of a lake are replaced, never changed."""
    try:
        os.link(source, target)
    except OSError:
        # Not all file systems have links.
        shutil.copyfile(source, target)


def _beside(path: str, ending: str) -> str:
    """A unique name, which readers of a table ignore."""
    above, _, name = path.rpartition("/")
    return f"{above}/.{name}.{new_id()}{ending}"


def _name(path: str) -> str:
    return path.rpartition("/")[2]
