"""How far streams have read a store's journal, noted in the store itself.

Cursors are numbers that a store counts up, so those of a store that was put back from a backup,
or made anew, soon look like those of the one before. What is noted in it goes back with it.
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
    """How far a stream reads, and when it noted that."""

    cursor: str = NOTHING_DROPPED
    at: float = 0.0

    def as_bytes(self) -> bytes:
        """As the store keeps it."""
        return f"{self.cursor} {self.at}".encode()


def note_horizon(queues: Queues, stream: str, cursors: Iterable[str]) -> None:
    """Before Spark hears of it: the stream is about to read up to these places.

    Another driver may have noted more just now, and Spark knows of it: this one may be a zombie.
    """
    notes, now = StreamNotes(queues, KIND), queues.info().now
    reached = max(cursors, key=read_cursor, default=NOTHING_DROPPED)
    known = notes.find(stream)
    while not notes.replace(stream, known, _extended(known, reached, now).as_bytes()):
        known = notes.find(stream)
    if known is None:
        _forget_silent(notes)


def _extended(known: Key | None, cursor: str, now: float) -> Horizon:
    return Horizon(max(_read(known).cursor, cursor, key=read_cursor), now)


def require_within(queues: Queues, stream: str | None, cursors: Iterable[str]) -> None:
    """Refuse places that this store's journal has not come to, as far as the stream has noted it.

    For one that notes nothing, the end of the journal is all there is to go by.
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
    """What was noted; a stream that is not known may be one of those that were forgotten."""
    notes = StreamNotes(queues, KIND)
    return _read(notes.find(stream) or notes.of_forgotten)


def _forget_silent(notes: StreamNotes) -> None:
    """Of those that are forgotten, it stays known how far the furthest has come.

    So each can go on, while a store that none of them has ever read still knows of nothing.
    """
    if silent := notes.surplus(lambda note: _read(note).at):
        notes.forget(silent, _furthest)


def _furthest(notes: list[Key]) -> bytes:
    horizons = map(_read, notes)
    return max(horizons, key=lambda horizon: read_cursor(horizon.cursor)).as_bytes()


def _read(note: Key | None) -> Horizon:
    if note is None:
        return Horizon()
    # An earlier version noted no time.
    cursor, _, at = note.value.decode().partition(" ")
    return Horizon(cursor, float(at or 0.0))
