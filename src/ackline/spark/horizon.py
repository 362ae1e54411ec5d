"""How far streams have read a store's journal, noted in the store itself.

Cursors are numbers that a store counts up, so those of a store that was put back from a backup,
or made anew, soon look like those of the one before. What is noted in it goes back with it.
"""

from __future__ import annotations

from collections.abc import Iterable

from ackline.events import read_cursor
from ackline.limits import OWN_KEYS
from ackline.queues import Queues
from ackline.spark.errors import StreamMismatch
from ackline.spark.journal import NOTHING_DROPPED
from ackline.stores.base import KeyWrite


def note_horizon(queues: Queues, stream: str, cursors: Iterable[str]) -> None:
    """Before Spark hears of it: the stream is about to read up to these places."""
    furthest = max([_noted(queues, stream), *cursors], key=read_cursor)
    write = KeyWrite(key=_key(stream), value=furthest.encode())
    queues.store.write_keys(queues.tenant, [write])


def require_within(queues: Queues, stream: str | None, cursors: Iterable[str]) -> None:
    """Refuse places that this store's journal has not come to, as far as the stream has noted it.

    For one that notes nothing, the end of the journal is all there is to go by.
    """
    last = queues.info().cursor if stream is None else _noted(queues, stream)
    furthest = max(cursors, key=read_cursor, default=NOTHING_DROPPED)
    if read_cursor(furthest) > read_cursor(last):
        raise StreamMismatch(
            f"the checkpoint has read the journal up to cursor {furthest}, and this store knows "
            f"of nothing after {last}: it was restored from a backup, or made anew, so what has "
            "happened since would be left out. Put the newer store back; or begin anew, with "
            "another checkpointLocation or another lake, which takes in all that this store has"
        )


def _noted(queues: Queues, stream: str) -> str:
    key = _key(stream)
    found = queues.store.read_keys(queues.tenant, key, 1)
    return next((one.value.decode() for one in found if one.key == key), NOTHING_DROPPED)


def _key(stream: str) -> tuple[str, ...]:
    return (OWN_KEYS, "spark", "horizons", stream)
