"""What can be found wrong before Spark is started, which takes seconds."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from ackline.cli.exits import UsageMistake
from ackline.cli.words import plain


def require_writable(*paths: str | None) -> None:
    """Refuse a folder of this machine that cannot be written to; None is none."""
    from ackline.spark.paths import absolute, is_local

    for path in paths:
        if path is not None and is_local(path):
            _require_writable(path, Path(absolute(path)))


def _require_writable(named: str, folder: Path) -> None:
    there = next(above for above in (folder, *folder.parents) if above.exists())
    if not there.is_dir():
        raise _unwritable(named, f"{there} is a file")
    try:
        if there != folder:
            # Only a try tells: in some places nobody can make a folder, whatever their mode.
            os.rmdir(tempfile.mkdtemp(prefix=".ackline-", dir=there))
    except OSError as error:
        raise _unwritable(named, f"{there}: {error.strerror}") from None
    if not os.access(there, os.W_OK | os.X_OK):
        raise _unwritable(named, f"{there}: Permission denied")


def _unwritable(named: str, why: str) -> UsageMistake:
    return UsageMistake(f"cannot write to {plain(named)}: {plain(why)}; name another folder")


def require_file_place(file: Path) -> None:
    """Refuse a file that cannot be written."""
    if file.is_dir():
        raise UsageMistake(f"{plain(str(file))} is a folder: name a file in it")
    if not file.parent.is_dir():
        raise UsageMistake(
            f"cannot write {plain(str(file))}: there is no folder {plain(str(file.parent))}; make "
            "it, or name another file"
        )
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise UsageMistake(f"cannot write {plain(str(file))}: Permission denied; name another file")


def require_files(paths: Iterable[str], master: str | None) -> None:
    """Refuse files that do not exist, and those that Spark would not read."""
    from ackline.spark.bulk.files import require_plain
    from ackline.spark.lake.folder import is_pattern
    from ackline.spark.paths import absolute, is_local

    for path in paths:
        require_plain(path)
        # Spark Connect reads files of the server's machine.
        elsewhere = (master or "").startswith("sc://") or not is_local(path)
        if not (elsewhere or is_pattern(path) or os.path.exists(absolute(path))):
            raise UsageMistake(f"there is no file {plain(path)}: is the path right?")
