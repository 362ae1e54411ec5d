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
    """A cursor in the journal of each queue."""

    started_at: str
    """Where the stream began: a cursor, or `OLDEST`."""
    cursors: Mapping[str, str]
    """How far each queue was read, except dropped queues that were read to their end."""
    batch_start: Mapping[str, str] = {}
    """Where reading the queues of this micro-batch starts."""
    initial: bool = False
    """Whether the stream starts here."""
    gaps: list[Gap] = []
    """All gaps that the stream has ever skipped; if there are many, the oldest are merged."""
    gaps_key: str = ""
    """The key under which the store records the gaps of the latest micro-batch; empty before it."""
    watermark_key: str | None = None
    """The key under which the store records how far the stream has read."""
    searched_to: str | None = None
    """Up to here only the `unfinished` queues have unread events; None before the first
    micro-batch."""
    unfinished: list[str] = []
    """Queues in which a limit may have left unread events."""
    scope: StreamScope
    """What the stream reads."""

    @property
    def all_cursors(self) -> list[str]:
        """All cursors that the offset contains."""
        return [*self.cursors.values(), self.searched_to or JOURNAL_START]

    @property
    def furthest(self) -> str:
        """The last of all cursors: a queue that is not listed has nothing unread before it."""
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
