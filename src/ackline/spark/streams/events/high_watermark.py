"""How far streams have read a store's journal, noted in the store itself.

Cursors are numbers that a store counts up. If a store is restored from a backup or made anew, its
cursors soon look like those of the store before. A note inside the store is restored with it, and
so reveals that.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ackline.core.events import read_cursor
from ackline.queues import Queues
from ackline.spark.errors import StreamMismatch
from ackline.spark.journal.journals import JOURNAL_START
from ackline.spark.streams.events.stream_records import StreamRecords
from ackline.stores.contract import KeyValue

RECORD_KIND = "horizons"


class HighWatermark(msgspec.Struct, frozen=True):
    """How far a stream has read, and when it noted that."""

    cursor: str = JOURNAL_START
    at: float = 0.0

    def as_bytes(self) -> bytes:
        """As the store keeps it."""
        return f"{self.cursor} {self.at}".encode()


def raise_watermark(queues: Queues, stream: str, cursors: Iterable[str]) -> None:
    """Note that the stream is about to read up to these places, before Spark gets the offset.

    The note never goes back: this driver may be a zombie, and Spark may already have the offset of
    another one that has noted more.
    """
    notes, now = StreamRecords(queues, RECORD_KIND), queues.store.now()
    reached = max(cursors, key=read_cursor, default=JOURNAL_START)
    known = notes.find(stream)
    while not notes.replace(stream, known, _extended(known, reached, now).as_bytes()):
        known = notes.find(stream)
    if known is None:
        _drop_inactive(notes)


def _extended(known: KeyValue | None, cursor: str, now: float) -> HighWatermark:
    return HighWatermark(max(_read(known).cursor, cursor, key=read_cursor), now)


def require_below_watermark(queues: Queues, stream: str | None, cursors: Iterable[str]) -> None:
    """Refuse places that are further than this store's note of how far the stream has read.

    For a stream that notes nothing, the end of the journal takes the place of the note.
    """
    last = queues.info().cursor if stream is None else _stored_watermark(queues, stream).cursor
    furthest = max(cursors, key=read_cursor, default=JOURNAL_START)
    if read_cursor(furthest) > read_cursor(last):
        raise StreamMismatch(
            f"the checkpoint has read the journal up to cursor {furthest}, and this store knows "
            f"of nothing after {last}: it was restored from a backup, or made anew, so what has "
            "happened since would be left out. Put the newer store back; or begin anew, with "
            "another checkpointLocation or another lake, which takes in all that this store has"
        )


def _stored_watermark(queues: Queues, stream: str) -> HighWatermark:
    """What was noted; a stream without a note may be one of those that were forgotten."""
    notes = StreamRecords(queues, RECORD_KIND)
    return _read(notes.find(stream) or notes.dropped_streams)


def _drop_inactive(notes: StreamRecords) -> None:
    """Forget the notes of streams that were silent for longest, except how far the furthest read.

    So each of them can go on, while a store that none of them has ever read is still refused.
    """
    if silent := notes.oldest_excess(lambda note: _read(note).at):
        notes.drop(silent, _furthest)


def _furthest(notes: list[KeyValue]) -> bytes:
    horizons = map(_read, notes)
    return max(horizons, key=lambda horizon: read_cursor(horizon.cursor)).as_bytes()


def _read(note: KeyValue | None) -> HighWatermark:
    if note is None:
        return HighWatermark()
    cursor, _, at = note.value.decode().partition(" ")
    return HighWatermark(cursor, float(at))
