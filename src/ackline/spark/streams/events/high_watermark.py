"""How far streams have read a store's journal, recorded in the store itself.

Cursors are numbers that a store counts up. If a store is restored from a backup or created anew,
its cursors soon look like those of the earlier store. A record in the store itself is restored
with it, and so reveals that.
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

RECORD_KIND = "watermarks"


class HighWatermark(msgspec.Struct, frozen=True):
    """How far a stream has read, and when it recorded that."""

    cursor: str = JOURNAL_START
    at: float = 0.0

    def as_bytes(self) -> bytes:
        """As it is stored."""
        return f"{self.cursor} {self.at}".encode()


def raise_watermark(queues: Queues, stream: str, cursors: Iterable[str]) -> None:
    """Record that the stream is about to read up to these cursors, before Spark gets the offset.

    The record never goes back: this driver may be a zombie, and Spark may already have a later
    offset of another driver.
    """
    records, now = StreamRecords(queues, RECORD_KIND), queues.store.now()
    read_to = max(cursors, key=read_cursor, default=JOURNAL_START)
    known = records.find(stream)
    while not records.replace(stream, known, _extended(known, read_to, now).as_bytes()):
        known = records.find(stream)
    if known is None:
        _drop_inactive(records)


def _extended(known: KeyValue | None, cursor: str, now: float) -> HighWatermark:
    return HighWatermark(max(_read(known).cursor, cursor, key=read_cursor), now)


def require_below_watermark(queues: Queues, stream: str | None, cursors: Iterable[str]) -> None:
    """Refuse cursors beyond what this store has recorded for the stream.

    For a stream without a record, the end of the journal is the limit.
    """
    last = queues.info().cursor if stream is None else _stored_watermark(queues, stream).cursor
    furthest = max(cursors, key=read_cursor, default=JOURNAL_START)
    if read_cursor(furthest) > read_cursor(last):
        raise StreamMismatch(
            f"the checkpoint has read the journal up to cursor {furthest}, and this store has "
            f"nothing after {last}: it was restored from a backup or created anew, so events since "
            "then would be left out. Restore a newer copy of the store; or start over with another "
            "checkpointLocation or another lake, which reads all that this store has"
        )


def _stored_watermark(queues: Queues, stream: str) -> HighWatermark:
    """What is recorded; a stream without a record may be one of those that were dropped."""
    records = StreamRecords(queues, RECORD_KIND)
    return _read(records.find(stream) or records.dropped_streams)


def _drop_inactive(records: StreamRecords) -> None:
    """Drop the records of the streams inactive for longest, except how far the furthest has read.

    So each of them can continue, while an older store is still refused.
    """
    if inactive := records.oldest_excess(lambda record: _read(record).at):
        records.drop(inactive, _furthest)


def _furthest(records: list[KeyValue]) -> bytes:
    watermarks = map(_read, records)
    return max(watermarks, key=lambda watermark: read_cursor(watermark.cursor)).as_bytes()


def _read(record: KeyValue | None) -> HighWatermark:
    if record is None:
        return HighWatermark()
    cursor, _, at = record.value.decode().partition(" ")
    return HighWatermark(cursor, float(at))
