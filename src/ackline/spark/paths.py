"""Paths of folders: as people write them, as Spark calls them, and as Arrow does."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow
import pyarrow.fs

from ackline.core.errors import ConfigError


def absolute_path(path: str) -> str:
    """An absolute path as Spark writes it, the same wherever a task runs.

    >>> absolute_path("s3a://shop/lake/"), absolute_path("/lake/"), absolute_path("file:/my%20lake")
    ('s3a://shop/lake', '/lake', '/my lake')
    """
    # Hadoop writes file:/path, others write file:///path.
    if path.startswith("file:/"):
        path = unquote(urlsplit(path).path)
    return path.rstrip("/") if "://" in path else str(Path(path).absolute())


def as_uri(path: str) -> str:
    """A path as Arrow and delta-rs name it.

    >>> as_uri("s3a://shop/lake"), as_uri("/my lake")
    ('s3://shop/lake', 'file:///my%20lake')
    """
    path = absolute_path(path)
    # Hadoop calls the scheme of S3 s3a.
    if path.startswith("s3a://"):
        return "s3://" + path.removeprefix("s3a://")
    return path if "://" in path else Path(path).as_uri()


def is_local(path: str) -> bool:
    """Whether it is a path on one machine's own disk, judging by its name."""
    return as_uri(path).startswith("file:")


def paths_overlap(one: str, other: str) -> bool:
    """Whether two folders are the same, or one is within the other, however they are written.

    >>> paths_overlap("s3a://shop/lake", "s3://shop/lake/delta")
    True
    >>> paths_overlap("/lake", "/lake-delta")
    False
    """
    first, second = _resolved_uri(one), _resolved_uri(other)
    return first.startswith(second) or second.startswith(first)


def _resolved_uri(path: str) -> str:
    return as_uri(str(Path(absolute_path(path)).resolve()) if is_local(path) else path) + "/"


def open_folder(path: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """The file system of a folder, and the folder's path in it."""
    try:
        files, root = pyarrow.fs.FileSystem.from_uri(as_uri(path))
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise ConfigError(f"the folder {path!r} cannot be reached: {error}") from None
    return files, root
