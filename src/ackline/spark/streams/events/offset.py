"""How far a stream of events has read, as its checkpoint stores it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ackline.core.errors import ConfigError
from ackline.core.events import read_cursor
from ackline.spark.journal.gaps import Gap
from ackline.spark.journal.journals import JOURNAL_START

OLDEST = "oldest"


class StreamScope(msgspec.Struct, frozen=True, kw_only=True):
    """Which journals a stream reads: all of a tenant, or that of one of its queues."""

    tenant: str
    queue: str | None

    def __str__(self) -> str:
        queues = "all queues" if self.queue is None else f"queue {self.queue!r}"
        return f"{queues} of tenant {self.tenant!r}"


class EventsOffset(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A place in the journal of each queue."""

    started_at: str
    """Where the stream began: a cursor, or `OLDEST`."""
    cursors: Mapping[str, str]
    """How far each was read, without those that were dropped and have been read to their end."""
    batch_start: Mapping[str, str] = {}
    """From where the queues of this micro-batch are read."""
    initial: bool = False
    """Whether the stream begins here."""
    gaps: list[Gap] = []
    """All gaps that the stream has ever skipped; the oldest of many are joined into one."""
    gaps_key: str = ""
    """The name under which the store notes the gaps of the latest micro-batch; empty before it."""
    watermark_key: str | None = None
    """The name under which the store notes how far the stream has read."""
    searched_to: str | None = None
    """Up to here no queue has an unread event, except the `unfinished` ones; None
    before the first micro-batch."""
    unfinished: list[str] = []
    """Queues that a limit may have left with unread events."""
    scope: StreamScope
    """What the stream reads."""

    @property
    def all_cursors(self) -> list[str]:
        """All places of the journal that the offset names."""
        return [*self.cursors.values(), self.searched_to or JOURNAL_START]

    @property
    def furthest(self) -> str:
        """The last of all places: a queue that has none here has nothing unread before it."""
        begin = JOURNAL_START if self.started_at == OLDEST else self.started_at
        return max([begin, *self.cursors.values()], key=read_cursor)


def parse_offset(offset: Mapping[str, Any]) -> EventsOffset:
    """Read an offset that Spark passes; one that another source wrote is refused."""
    try:
        return msgspec.convert(dict(offset), EventsOffset)
    except msgspec.ValidationError:
        raise ConfigError(
            f"the checkpoint has an offset of another source: {dict(offset)!r}. "
            "Give each query a checkpointLocation of its own"
        ) from None


def dump_offset(offset: EventsOffset) -> dict[str, Any]:
    """An offset as Spark takes it."""
    written: dict[str, Any] = msgspec.to_builtins(offset)
    return written
