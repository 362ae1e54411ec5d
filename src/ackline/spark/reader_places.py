"""How far a named stream has read each queue, registered with the store, which keeps the rest."""

from __future__ import annotations

from collections.abc import Mapping

from ackline.queue.reader_place import KeptPlace
from ackline.queues import Queues


class ReaderPlaces:
    """The places of one reader; without a name nothing is registered."""

    def __init__(self, queues: Queues, name: str | None) -> None:
        self._queues = queues
        self._name = name
        self._saved: dict[str, str] = {}

    def save(self, places: Mapping[str, str]) -> None:
        """What is before these places is done; only those that have moved are written."""
        if self._name is None:
            return
        for queue, cursor in places.items():
            if self._saved.get(queue) == cursor:
                continue
            # A new one each time: who was forgotten meanwhile is registered again.
            place = KeptPlace(self._queues.store, self._queues.tenant, queue, self._name)
            place.put(cursor)
            self._saved[queue] = cursor
