"""How far streams have read a store's journal, noted in the store itself.

Cursors are numbers that a store counts up. If a store is restored from a backup or made anew, its
cursors soon look like those of the store before. A note inside the store is restored with it, and
so reveals that.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ackline.events import read_cursor
from ackline.queues import Queues
from ackline.spark.errors import StreamMismatch
from ackline.spark.events.journal import NOTHING_DROPPED
from ackline.spark.events.stream_notes import StreamNotes
from ackline.stores.base import Key

KIND = "horizons"


class Horizon(msgspec.Struct, frozen=True):
    """How far a stream has read, and when it noted that."""

    cursor: str = NOTHING_DROPPED
    at: float = 0.0

    def as_bytes(self) -> bytes:
        """As the store keeps it."""
        return f"{self.cursor} {self.at}".encode()


def note_horizon(queues: Queues, stream: str, cursors: Iterable[str]) -> None:
    """Note that the stream is about to read up to these places, before Spark gets the offset.

    The note never goes back: this driver may be a zombie, and Spark may already have the offset of
    another one that has noted more.
    """
    notes, now = StreamNotes(queues, KIND), queues.store.now()
    reached = max(cursors, key=read_cursor, default=NOTHING_DROPPED)
    known = notes.find(stream)
    while not notes.replace(stream, known, _extended(known, reached, now).as_bytes()):
        known = notes.find(stream)
    if known is None:
        _forget_silent(notes)


def _extended(known: Key | None, cursor: str, now: float) -> Horizon:
    return Horizon(max(_read(known).cursor, cursor, key=read_cursor), now)


def require_within(queues: Queues, stream: str | None, cursors: Iterable[str]) -> None:
    """Refuse places that are further than this store's note of how far the stream has read.

    For a stream that notes nothing, the end of the journal takes the place of the note.
    """
    last = queues.info().cursor if stream is None else _known(queues, stream).cursor
    furthest = max(cursors, key=read_cursor, default=NOTHING_DROPPED)
    if read_cursor(furthest) > read_cursor(last):
        raise StreamMismatch(
            f"the checkpoint has read the journal up to cursor {furthest}, and this store knows "
            f"of nothing after {last}: it was restored from a backup, or made anew, so what has "
            "happened since would be left out. Put the newer store back; or begin anew, with "
            "another checkpointLocation or another lake, which takes in all that this store has"
        )


def _known(queues: Queues, stream: str) -> Horizon:
    """What was noted; a stream without a note may be one of those that were forgotten."""
    notes = StreamNotes(queues, KIND)
    return _read(notes.find(stream) or notes.of_forgotten)


def _forget_silent(notes: StreamNotes) -> None:
    """Forget the notes of streams that were silent for longest, except how far the furthest read.

    So each of them can go on, while a store that none of them has ever read is still refused.
    """
    if silent := notes.surplus(lambda note: _read(note).at):
        notes.forget(silent, _furthest)


def _furthest(notes: list[Key]) -> bytes:
    horizons = map(_read, notes)
    return max(horizons, key=lambda horizon: read_cursor(horizon.cursor)).as_bytes()


def _read(note: Key | None) -> Horizon:
    if note is None:
        return Horizon()
    cursor, _, at = note.value.decode().partition(" ")
    return Horizon(cursor, float(at))
