"""Whether there is room for more jobs, with some left over for settling and purging."""

from __future__ import annotations

import os

import apsw

from ackline.errors import StoreFull
from ackline.stores.sqlite.connection import Execute

DISK_RESERVE = 32 * 1024 * 1024
"""Bytes of the disk that enqueue leaves to the other acts."""

SIZE_RESERVE = 8
"""Of a limited file, enqueue leaves this part (an eighth) to the other acts."""

_UNLIMITED_PAGES = 4294967294


def require_room(connection: apsw.Connection, path: str) -> None:
    """Refuse to enqueue while there is still room to settle, cancel and purge."""
    disk = os.statvfs(os.path.dirname(path) or ".")
    free = disk.f_bavail * disk.f_frsize
    if free < DISK_RESERVE:
        raise StoreFull(
            f"the disk of {path} has only {free // 1_048_576} MB left: "
            "free some space; until then jobs can be settled, cancelled and purged"
        )
    most = _number(connection, "PRAGMA max_page_count")
    if most < _UNLIMITED_PAGES:
        used = _number(connection, "PRAGMA page_count") - _number(
            connection, "PRAGMA freelist_count"
        )
        if used > most - most // SIZE_RESERVE:
            raise StoreFull(
                f"{path} has reached its largest size: purge or prune old jobs; "
                "until then jobs can be settled, cancelled and purged"
            )


def _number(connection: apsw.Connection, query: str) -> int:
    execute: Execute = connection.execute
    return int(execute(query).fetchall()[0][0])
