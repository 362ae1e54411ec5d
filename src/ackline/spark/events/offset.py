"""How far a stream of events has come, as its checkpoint has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ackline.errors import ConfigError
from ackline.events import read_cursor
from ackline.spark.events.gaps import Gap
from ackline.spark.events.journal import NOTHING_DROPPED

OLDEST = "oldest"


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Whose journals a stream reads: those of a tenant, or of just one of its queues."""

    tenant: str
    queue: str | None

    def __str__(self) -> str:
        queues = "all queues" if self.queue is None else f"queue {self.queue!r}"
        return f"{queues} of tenant {self.tenant!r}"


class EventsOffset(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A place in the journal of each queue."""

    new: str
    """Where the stream began: a cursor, or `OLDEST`."""
    queues: Mapping[str, str]
    """How far each was read; not those that were dropped before, and read to their end."""
    begun: Mapping[str, str] = {}
    """From where on the queues are read that are in this micro-batch."""
    initial: bool = False
    """Whether the stream begins here."""
    skipped: list[Gap] = []
    """All that was ever left out because it was gone; the oldest of many gaps as one."""
    stream: str | None = None
    """The name under which the store knows what the latest micro-batch lacks."""
    horizon: str | None = None
    """The name under which the store knows how far the stream has come."""
    scope: Scope | None = None
    """What the stream reads; an earlier version did not say."""

    @property
    def furthest(self) -> str:
        """The last of all places: a queue that is not among them has nothing new before it."""
        begin = NOTHING_DROPPED if self.new == OLDEST else self.new
        return max([begin, *self.queues.values()], key=read_cursor)


def read_offset(offset: Mapping[str, Any]) -> EventsOffset:
    """An offset of Spark's; refused if another source wrote it."""
    try:
        return msgspec.convert(dict(offset), EventsOffset)
    except msgspec.ValidationError:
        raise ConfigError(
            f"the checkpoint has an offset of another source: {dict(offset)!r}. "
            "Give each query a checkpointLocation of its own"
        ) from None


def write_offset(offset: EventsOffset) -> dict[str, Any]:
    """An offset for Spark."""
    written: dict[str, Any] = msgspec.to_builtins(offset)
    return written
