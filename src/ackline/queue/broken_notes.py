"""Ackline's own notes that cannot be read: skipped with a warning, so that they stop nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from ackline.stores.base import Key

logger = logging.getLogger("ackline")

UNREADABLE = (msgspec.DecodeError, ValueError)
"""What reading a broken note raises."""

OnBroken = Callable[[str, Key, Exception], None]
"""Called with the tenant, the note and what is wrong with it."""

MOST_REMEMBERED = 10_000


def warn_of_broken(tenant: str, entry: Key, error: Exception) -> None:
    """Log which note is ignored, and why."""
    key = " / ".join(entry.key)
    logger.warning("the key %s of tenant %s cannot be read and is ignored: %s", key, tenant, error)


class BrokenNotes:
    """Warns of each broken note once, for loops that come across it again and again."""

    def __init__(self) -> None:
        self._warned: set[tuple[str, tuple[str, ...], int]] = set()

    def warn(self, tenant: str, entry: Key, error: Exception) -> None:
        """Warn, unless that was done since the note was last written."""
        note = (tenant, entry.key, entry.version)
        if note in self._warned:
            return
        if len(self._warned) >= MOST_REMEMBERED:
            self._warned.clear()
        self._warned.add(note)
        warn_of_broken(tenant, entry, error)
