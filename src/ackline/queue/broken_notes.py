"""Notes of Ackline's own that cannot be read: passed over, so that they harm nobody else."""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from ackline.stores.base import Key

logger = logging.getLogger("ackline")

UNREADABLE = (msgspec.DecodeError, ValueError)
"""What reading a broken note raises."""

OnBroken = Callable[[str, Key, Exception], None]
"""Told of the tenant, the note and what is wrong with it."""

MOST_TOLD = 10_000


def warn_of_broken(tenant: str, entry: Key, error: Exception) -> None:
    """Say that a note is passed over, and which."""
    key = " / ".join(entry.key)
    logger.warning("the key %s of tenant %s cannot be read and is ignored: %s", key, tenant, error)


class BrokenNotes:
    """Warns of each broken note once, for who comes across it again and again."""

    def __init__(self) -> None:
        self._told: set[tuple[str, tuple[str, ...], int]] = set()

    def warn(self, tenant: str, entry: Key, error: Exception) -> None:
        """Say so, unless it has been said since the note was last written."""
        note = (tenant, entry.key, entry.version)
        if note in self._told:
            return
        if len(self._told) >= MOST_TOLD:
            self._told.clear()
        self._told.add(note)
        warn_of_broken(tenant, entry, error)
