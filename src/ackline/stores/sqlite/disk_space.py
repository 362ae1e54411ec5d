"""Check for free disk space before jobs and keys are written, with a reserve for other acts."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from ackline.core.errors import StoreFull
from ackline.stores.contract import HealthIssue, KeyWrite, are_internal_writes
from ackline.stores.sqlite.io.connection import Execute

DISK_RESERVE = 32 * 1024 * 1024
"""Bytes that enqueue leaves to settle, cancel and purge: free on the disk or inside the file."""

CHECK_INTERVAL = 0.1
"""Seconds for which a check with enough space holds: much less than it takes to fill the reserve,
so that not every enqueue needs one."""

LOG_RESERVE = 8 * 1024 * 1024
"""How many of these bytes must be free on the disk: every write goes through the log first."""


class DiskSpace:
    """The disk space of one file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._enough_until = 0.0

    def require_free_space(self, execute: Execute) -> None:
        """Refuse to enqueue while there is still space to settle, cancel and purge."""
        now = time.monotonic()
        if now < self._enough_until:
            return
        short = self._shortage(execute)
        if short is not None:
            message, advice = short
            raise StoreFull(
                f"{message}: {advice}; until then jobs can be settled, cancelled and purged"
            )
        self._enough_until = now + CHECK_INTERVAL

    def require_free_space_for_keys(self, execute: Execute, writes: Sequence[KeyWrite]) -> None:
        """Refuse to write keys, too, except those that a full store accepts."""
        if not are_internal_writes(writes):
            self.require_free_space(execute)

    def health_issues(self, execute: Execute) -> tuple[HealthIssue, ...]:
        """The lack of space as an issue for the operator."""
        short = self._shortage(execute)
        return () if short is None else (HealthIssue("space", *short),)

    def _shortage(self, execute: Execute) -> tuple[str, str] | None:
        """A message and advice if space is short."""
        free = free_on_disk(self._path)
        # A purge does not shrink the file, but the space inside it can be used again.
        if free < DISK_RESERVE and (
            free < LOG_RESERVE or free + _free_in_file(execute) < DISK_RESERVE
        ):
            message = f"the disk of {self._path} has only {free // 1_048_576} MB left"
            purge = "" if free < LOG_RESERVE else ", or purge jobs"
            return message, f"free some space{purge}"
        return None


def free_on_disk(path: str) -> int:
    """Free bytes on the disk of the file."""
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize


def _free_in_file(execute: Execute) -> int:
    return _number(execute, "PRAGMA freelist_count") * _number(execute, "PRAGMA page_size")


def _number(execute: Execute, query: str) -> int:
    return int(execute(query).fetchall()[0][0])
