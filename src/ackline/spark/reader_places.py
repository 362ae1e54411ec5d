"""How far a named stream has read each queue, registered with the store, which keeps the rest."""

from __future__ import annotations

from collections.abc import Mapping

from ackline.ids import new_id
from ackline.queue.reader_place import Place, write_of
from ackline.queues import Queues

CHUNK = 500
"""Places per round trip."""


class ReaderPlaces:
    """The places of one reader; without a name nothing is registered."""

    def __init__(self, queues: Queues, name: str | None) -> None:
        self._queues = queues
        self._name = name
        self._by = new_id()
        self._saved: dict[str, str] = {}

    def save(self, places: Mapping[str, str]) -> None:
        """What is before these places is done; only those that have moved are written.

        The checkpoint says where the stream is, so it does not matter where its name was.
        """
        if self._name is None:
            return
        moved = [(queue, at) for queue, at in places.items() if self._saved.get(queue) != at]
        now = self._queues.info().now if moved else 0.0
        for start in range(0, len(moved), CHUNK):
            some = moved[start : start + CHUNK]
            writes = [
                write_of(queue, self._name, Place(cursor, now, self._by)) for queue, cursor in some
            ]
            self._queues.store.write_keys(self._queues.tenant, writes)
            self._saved.update(some)
