"""How far streams have read a store's journal, noted in the store itself.

Cursors are numbers that a store counts up, so those of a store that was put back from a backup,
or made anew, soon look like those of the one before. What is noted in it goes back with it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ackline.events import read_cursor
from ackline.limits import OWN_KEYS
from ackline.queues import Queues
from ackline.spark.errors import StreamMismatch
from ackline.spark.journal import NOTHING_DROPPED
from ackline.stores.base import Key, KeyWrite

MOST = 1000
"""Streams of one tenant that are remembered: nobody says when a checkpoint was thrown away, so
when there are more, those are forgotten that have been silent for longest."""

ROOM = (OWN_KEYS, "spark", "horizons")


class Horizon(msgspec.Struct, frozen=True):
    """How far a stream reads, and when it noted that."""

    cursor: str = NOTHING_DROPPED
    at: float = 0.0

    def as_text(self) -> str:
        """As the store keeps it."""
        return f"{self.cursor} {self.at}"


def note_horizon(queues: Queues, stream: str, cursors: Iterable[str]) -> None:
    """Before Spark hears of it: the stream is about to read up to these places."""
    known = _noted(queues, stream)
    furthest = max([known.cursor, *cursors], key=read_cursor)
    noted = Horizon(furthest, queues.info().now)
    write = KeyWrite(key=_key(stream), value=noted.as_text().encode())
    queues.store.write_keys(queues.tenant, [write])
    if known == Horizon():
        _forget_silent(queues)


def require_within(queues: Queues, stream: str | None, cursors: Iterable[str]) -> None:
    """Refuse places that this store's journal has not come to, as far as the stream has noted it.

    For one that notes nothing, the end of the journal is all there is to go by.
    """
    last = queues.info().cursor if stream is None else _noted(queues, stream).cursor
    furthest = max(cursors, key=read_cursor, default=NOTHING_DROPPED)
    if read_cursor(furthest) > read_cursor(last):
        raise StreamMismatch(
            f"the checkpoint has read the journal up to cursor {furthest}, and this store knows "
            f"of nothing after {last}: it was restored from a backup, or made anew, so what has "
            "happened since would be left out. Put the newer store back; or begin anew, with "
            "another checkpointLocation or another lake, which takes in all that this store has"
        )


def _noted(queues: Queues, stream: str) -> Horizon:
    key = _key(stream)
    found = queues.store.read_keys(queues.tenant, key, 1)
    return next((_read(one) for one in found if one.key == key), Horizon())


def _forget_silent(queues: Queues) -> None:
    """Called when a stream is new, so there are at most a few too many."""
    entries = queues.store.read_keys(queues.tenant, ROOM, 2 * MOST)
    # A stream of jobs may have its keys below, if its queue has this name.
    ours = [entry for entry in entries if len(entry.key) == len(_key(""))]
    silent = sorted(ours, key=lambda entry: _read(entry).at)[: max(0, len(ours) - MOST)]
    gone = [KeyWrite(key=entry.key, value=None) for entry in silent]
    if gone:
        queues.store.write_keys(queues.tenant, gone)


def _read(entry: Key) -> Horizon:
    # An earlier version noted no time.
    cursor, _, at = entry.value.decode().partition(" ")
    return Horizon(cursor, float(at or 0.0))


def _key(stream: str) -> tuple[str, ...]:
    return (*ROOM, stream)
