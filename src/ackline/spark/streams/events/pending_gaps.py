"""Gaps found in a micro-batch after it was planned, kept in the store until an offset lists them.

The offset of that micro-batch is in Spark's log already, so the next offset lists its gaps, and
that one may be planned by another run.
"""

from __future__ import annotations

import msgspec

from ackline.queues import Queues
from ackline.spark.journal.gaps import Gap
from ackline.spark.streams.events.stream_records import StreamRecords
from ackline.stores.contract import KeyValue


class PendingGaps:
    """The gaps in the latest micro-batch of each stream."""

    def __init__(self, queues: Queues) -> None:
        self._records = StreamRecords(queues, "gaps")
        self._known: dict[str, list[Gap]] = {}

    def get(self, stream: str) -> list[Gap]:
        """The gaps that were recorded last; read from the store once."""
        if stream not in self._known:
            self._known[stream] = _read(self._records.find(stream))
        return self._known[stream]

    def record(self, stream: str, gaps: list[Gap]) -> None:
        """Replace the gaps recorded before, which the offset of this micro-batch lists."""
        before = self.get(stream)
        if gaps != before:
            gaps = self._replace(stream, before, gaps)
            if not before:
                self._drop_abandoned()
        self._known[stream] = gaps

    def _replace(self, stream: str, before: list[Gap], gaps: list[Gap]) -> list[Gap]:
        """Write `gaps`, and keep those that another driver has recorded since, in no offset yet.

        Either driver may be a zombie, and listing a gap twice is better than never.
        """
        while True:
            found = self._records.find(stream)
            others = [gap for gap in _read(found) if gap not in before and not _contains(gaps, gap)]
            both = others + gaps
            if self._records.replace(stream, found, msgspec.json.encode(both) if both else None):
                return both

    def _drop_abandoned(self) -> None:
        if abandoned := self._records.oldest_excess(_recorded_at):
            self._records.drop(abandoned)


def _contains(gaps: list[Gap], gap: Gap) -> bool:
    """Whether `gaps` include this gap, no matter when it was skipped."""
    return any(
        (one.queue, one.after, one.until) == (gap.queue, gap.after, gap.until) for one in gaps
    )


def _read(entry: KeyValue | None) -> list[Gap]:
    return [] if entry is None else msgspec.json.decode(entry.value, type=list[Gap])


def _recorded_at(entry: KeyValue) -> float:
    return max(gap.skipped_at or 0.0 for gap in _read(entry))
