"""How far a named stream has read each queue, so that the store keeps the events after that."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Collection, Mapping, Set

from ackline.ids import new_id
from ackline.queue.reader_place import EVERY_QUEUE, Place, read_place, room_of, write_of
from ackline.queues import Queues
from ackline.spark.events.offset import EventsOffset
from ackline.stores.base import KeyWrite, find_key

logger = logging.getLogger("ackline")

CHUNK = 500
"""Places per round trip."""

STREAM = "stream "
"""The prefix of a stream's name in the field of a place that says who wrote it."""


class ReaderPlaces:
    """The places of one reader; without a name nothing is saved."""

    def __init__(self, queues: Queues, name: str | None) -> None:
        self._queues = queues
        self._name = name
        self._by = new_id()
        self._saved: dict[str, str] = {}

    def save_offset(
        self, offset: EventsOffset, queue: str | None = None, forgotten: Set[str] = frozenset()
    ) -> None:
        """Save that all before this offset is done: its events need not be kept for us any more.

        `queue` is the only one that the stream reads, `forgotten` are those to leave out.
        """
        places = {name: at for name, at in offset.queues.items() if name not in forgotten}
        if queue is None:
            places[EVERY_QUEUE] = offset.furthest
        self.warn_of_another(queue or EVERY_QUEUE, offset.stream)
        self.save(places, offset.stream)

    def save(self, places: Mapping[str, str], stream: str) -> None:
        """Save that all before these places is done; only those that have moved are written.

        What was saved under this name before does not matter: the checkpoint says where the stream
        is.
        """
        if self._name is None:
            return
        by = STREAM + stream if stream else self._by
        moved = [(queue, at) for queue, at in places.items() if self._saved.get(queue) != at]
        now = self._queues.store.now() if moved else 0.0
        for start in range(0, len(moved), CHUNK):
            chunk = moved[start : start + CHUNK]
            writes = [write_of(queue, self._name, Place(at, now, by)) for queue, at in chunk]
            self._queues.store.write_keys(self._queues.tenant, writes)
            self._saved.update(chunk)

    def forget(self, queues: Collection[str]) -> None:
        """Delete the places of queues that are read to their end, as if never read."""
        if self._name is None:
            return
        writes = [KeyWrite(key=(*room_of(queue), self._name), value=None) for queue in queues]
        for start in range(0, len(writes), CHUNK):
            self._queues.store.write_keys(self._queues.tenant, writes[start : start + CHUNK])
        for queue in queues:
            self._saved.pop(queue, None)

    def warn_of_another(self, queue: str, stream: str) -> None:
        """Warn if another stream has saved its place here: the journal is kept for only one."""
        if self._name is None or queue in self._saved:
            return
        found = self._found(queue, self._name)
        if found is None or not found.by.startswith(STREAM) or found.by == f"{STREAM}{stream}":
            return
        logger.warning(
            "another stream or lake saved its place under the reader name %r at %s UTC, and this "
            "one takes it over: the journal is no longer kept for the other. If both are in use, "
            "give each its own name: the option reader, or `ackline pipeline run --reader NAME`",
            *(self._name, f"{datetime.datetime.fromtimestamp(found.at, datetime.UTC):%F %T}"),
        )

    def _found(self, queue: str, name: str) -> Place | None:
        entry = find_key(self._queues.store, self._queues.tenant, (*room_of(queue), name))
        return None if entry is None else read_place(entry.value)
