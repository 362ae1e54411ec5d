"""The settings of a fleet, and the reports of its workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ackline.core.errors import ConfigError
from ackline.core.limits import require_name
from ackline.queue import Queue
from ackline.spark.store.address import StoreFile

Load = Callable[[], Sequence[Queue[Any, Any]]]
"""Makes the queues and their handlers, on the driver and on each executor."""


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that the workers of a fleet share."""

    name: str
    executors: int
    concurrency: int = 16
    grace: float = 30.0
    until_empty: bool = False
    """Whether workers end when no job waits or runs any more that their handlers are for."""
    environment: Mapping[str, str] = {}
    """Environment variables that the handlers' module reads."""
    shared_files: bool = False
    """Whether all machines see the same files, so that SQLite can be used."""
    files: tuple[StoreFile, ...] = ()
    """The stores that are files; `run_fleet` fills it in."""
    asked_before: tuple[bytes, ...] | None = None
    """What the stop flag said before this fleet began, which was meant for earlier fleets of its
    name. If None, `run_fleet` reads it."""

    def __post_init__(self) -> None:
        require_name("fleet", self.name)
        if self.executors < 1:
            raise ConfigError(f"a fleet has at least one executor, not {self.executors}")


class Served(msgspec.Struct, frozen=True):
    """What one worker did."""

    worker: str
    ended: int
    """Handlers that returned."""
    failed: int
    """Handlers that raised."""
