"""Gaps in a micro-batch that was planned before, in the store until an offset tells of them.

The offset of that micro-batch is in Spark's log already. The next one tells of its gaps, and may
be planned by another run.
"""

from __future__ import annotations

import msgspec

from ackline.queues import Queues
from ackline.spark.events.gaps import Gap
from ackline.spark.events.stream_notes import StreamNotes
from ackline.stores.base import Key


class GapNotes:
    """What the latest micro-batch of a stream lacks."""

    def __init__(self, queues: Queues) -> None:
        self._notes = StreamNotes(queues, "gaps")
        self._known: dict[str | None, list[Gap]] = {}

    def of(self, stream: str | None) -> list[Gap]:
        """The gaps that were noted last; the store is asked once."""
        if stream not in self._known:
            found = None if stream is None else self._notes.find(stream)
            self._known[stream] = [] if found is None else _read(found)
        return self._known[stream]

    def note(self, stream: str | None, gaps: list[Gap]) -> None:
        """Instead of those noted before, of which the offset of this micro-batch tells.

        An earlier version gave a stream no name: its gaps are known as long as this run lasts.
        """
        before = self.of(stream)
        if stream is not None and gaps != before:
            self._notes.write(stream, msgspec.json.encode(gaps) if gaps else None)
            if not before:
                self._forget_abandoned()
        self._known[stream] = gaps

    def _forget_abandoned(self) -> None:
        if abandoned := self._notes.surplus(_noted_at):
            self._notes.forget(abandoned)


def _read(entry: Key) -> list[Gap]:
    return msgspec.json.decode(entry.value, type=list[Gap])


def _noted_at(entry: Key) -> float:
    return max(gap.skipped_at or 0.0 for gap in _read(entry))
