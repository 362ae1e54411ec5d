"""Whether there is room for more jobs and keys, with some left over for settling and purging."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from ackline.core.errors import StoreFull
from ackline.stores.contract import HealthIssue, KeyWrite, are_internal_writes
from ackline.stores.sqlite.io.connection import Execute

DISK_RESERVE = 32 * 1024 * 1024
"""Bytes that enqueue leaves to the other acts: free on the disk, or free inside the file."""

CHECK_INTERVAL = 0.1
"""Seconds for which a disk with enough room is taken to have it: much less than it takes to write
the reserve full, so that not every enqueue has to ask."""

LOG_RESERVE = 8 * 1024 * 1024
"""How many of these must be free on the disk: every write goes through the log first."""


class DiskSpace:
    """The disk of one file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._enough_until = 0.0

    def require_free_space(self, execute: Execute) -> None:
        """Refuse to enqueue while there is still room to settle, cancel and purge."""
        now = time.monotonic()
        if now < self._enough_until:
            return
        short = self._shortage(execute)
        if short is not None:
            says, do = short
            raise StoreFull(f"{says}: {do}; until then jobs can be settled, cancelled and purged")
        self._enough_until = now + CHECK_INTERVAL

    def require_free_space_for_keys(self, execute: Execute, writes: Sequence[KeyWrite]) -> None:
        """Refuse to write keys too, except those that are allowed when the store is full."""
        if not are_internal_writes(writes):
            self.require_free_space(execute)

    def health_issues(self, execute: Execute) -> tuple[HealthIssue, ...]:
        """The lack of room as a trouble, for the operator of the store."""
        short = self._shortage(execute)
        return () if short is None else (HealthIssue("space", *short),)

    def _shortage(self, execute: Execute) -> tuple[str, str] | None:
        """What is short, and what to do."""
        free = free_on_disk(self._path)
        # Space freed by a purge stays in the file, which does not shrink, but it can be used again.
        if free < DISK_RESERVE and (
            free < LOG_RESERVE or free + _free_in_file(execute) < DISK_RESERVE
        ):
            says = f"the disk of {self._path} has only {free // 1_048_576} MB left"
            purge = "" if free < LOG_RESERVE else ", or purge jobs"
            return says, f"free some space{purge}"
        return None


def free_on_disk(path: str) -> int:
    """Bytes that are free on the disk of the file."""
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize


def _free_in_file(execute: Execute) -> int:
    return _number(execute, "PRAGMA freelist_count") * _number(execute, "PRAGMA page_size")


def _number(execute: Execute, query: str) -> int:
    return int(execute(query).fetchall()[0][0])
