"""Whether there is room for more jobs and keys, with some left over for settling and purging."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ackline.errors import StoreFull
from ackline.stores.base import KeyWrite, Trouble, allowed_when_full
from ackline.stores.sqlite.connection import Execute

DISK_RESERVE = 32 * 1024 * 1024
"""Bytes that enqueue leaves to the other acts: free on the disk, or free inside the file."""

LOG_RESERVE = 8 * 1024 * 1024
"""How many of these must be free on the disk: every write goes through the log first."""

SIZE_RESERVE = 8
"""Of a limited file, enqueue leaves this part (an eighth) to the other acts."""

_UNLIMITED_PAGES = 4294967294


def require_room(execute: Execute, path: str) -> None:
    """Refuse to enqueue while there is still room to settle, cancel and purge."""
    short = _shortage(execute, path)
    if short is not None:
        says, do = short
        raise StoreFull(f"{says}: {do}; until then jobs can be settled, cancelled and purged")


def require_room_for_keys(execute: Execute, path: str, writes: Sequence[KeyWrite]) -> None:
    """Refuse to write keys too, except those that are allowed when the store is full."""
    if not allowed_when_full(writes):
        require_room(execute, path)


def troubles(execute: Execute, path: str) -> tuple[Trouble, ...]:
    """The lack of room as a trouble, for the operator of the store."""
    short = _shortage(execute, path)
    return () if short is None else (Trouble("space", *short),)


def _shortage(execute: Execute, path: str) -> tuple[str, str] | None:
    """What is short, and what to do."""
    free = free_on_disk(path)
    # Space freed by a purge stays in the file, which does not shrink, but it can be used again.
    if free < DISK_RESERVE and (free < LOG_RESERVE or free + _inside(execute) < DISK_RESERVE):
        says = f"the disk of {path} has only {free // 1_048_576} MB left"
        return says, "free some space" if free < LOG_RESERVE else "free some space, or purge jobs"
    most = _number(execute, "PRAGMA max_page_count")
    if most < _UNLIMITED_PAGES:
        used = _number(execute, "PRAGMA page_count") - _number(execute, "PRAGMA freelist_count")
        if used > most - most // SIZE_RESERVE:
            return f"{path} has reached its largest size", "purge or prune old jobs"
    return None


def free_on_disk(path: str) -> int:
    """Bytes that are free on the disk of the file."""
    disk = os.statvfs(os.path.dirname(path) or ".")
    return disk.f_bavail * disk.f_frsize


def _inside(execute: Execute) -> int:
    return _number(execute, "PRAGMA freelist_count") * _number(execute, "PRAGMA page_size")


def _number(execute: Execute, query: str) -> int:
    return int(execute(query).fetchall()[0][0])
