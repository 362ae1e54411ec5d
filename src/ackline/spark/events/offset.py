"""How far a stream of events has read, as its checkpoint stores it."""

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
    """Which journals a stream reads: all of a tenant, or that of one of its queues."""

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
    """How far each was read, without those that were dropped and have been read to their end."""
    begun: Mapping[str, str] = {}
    """From where the queues of this micro-batch are read."""
    initial: bool = False
    """Whether the stream begins here."""
    skipped: list[Gap] = []
    """All gaps that the stream has ever skipped; the oldest of many are joined into one."""
    stream: str = ""
    """The name under which the store notes the gaps of the latest micro-batch; empty before it."""
    horizon: str | None = None
    """The name under which the store notes how far the stream has read."""
    searched: str | None = None
    """Up to here no queue has an unread event, except the `unfinished` ones; None
    before the first micro-batch."""
    unfinished: list[str] = []
    """Queues that a limit may have left with unread events."""
    scope: Scope
    """What the stream reads."""

    @property
    def cursors(self) -> list[str]:
        """All places of the journal that the offset names."""
        return [*self.queues.values(), self.searched or NOTHING_DROPPED]

    @property
    def furthest(self) -> str:
        """The last of all places: a queue that has none here has nothing unread before it."""
        begin = NOTHING_DROPPED if self.new == OLDEST else self.new
        return max([begin, *self.queues.values()], key=read_cursor)


def read_offset(offset: Mapping[str, Any]) -> EventsOffset:
    """Read an offset that Spark passes; one that another source wrote is refused."""
    try:
        return msgspec.convert(dict(offset), EventsOffset)
    except msgspec.ValidationError:
        raise ConfigError(
            f"the checkpoint has an offset of another source: {dict(offset)!r}. "
            "Give each query a checkpointLocation of its own"
        ) from None


def write_offset(offset: EventsOffset) -> dict[str, Any]:
    """An offset as Spark takes it."""
    written: dict[str, Any] = msgspec.to_builtins(offset)
    return written
