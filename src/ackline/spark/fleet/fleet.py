"""What a fleet is told, and what its workers tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ackline.errors import ConfigError
from ackline.limits import require_name
from ackline.queue import Queue
from ackline.spark.store_address import StoreFile

Load = Callable[[], Sequence[Queue[Any, Any]]]
"""Makes the queues and their handlers, on the driver and on each executor."""


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """What the workers of a fleet have in common."""

    name: str
    executors: int
    concurrency: int = 16
    grace: float = 30.0
    until_empty: bool = False
    """Whether workers leave when nothing waits or runs any more."""
    environment: Mapping[str, str] = {}
    """Environment variables that the handlers' module reads."""
    shared_files: bool = False
    """Whether all machines see the same files, so that SQLite may do."""
    files: tuple[StoreFile, ...] = ()
    """The stores that are files; `run_fleet` fills it in."""
    asked_before: tuple[bytes, ...] | None = None
    """What earlier fleets of this name were asked to stop by: what the flag has said before this
    one began. `run_fleet` looks if nobody has."""

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
