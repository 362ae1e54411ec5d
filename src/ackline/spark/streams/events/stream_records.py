"""Notes that a store keeps about streams of events, one of each kind per stream, not for ever."""

from __future__ import annotations

from collections.abc import Callable

from ackline.core.limits import RESERVED_KEY_PREFIX
from ackline.queues import Queues
from ackline.stores.contract import KeyValue, KeyWrite, find_key

MAX_STREAMS = 1000
"""Streams of one tenant that have notes. Nobody reports that a checkpoint was thrown away, so if
there are more, those that were silent for longest are forgotten."""


class StreamRecords:
    """The notes of one kind."""

    def __init__(self, queues: Queues, kind: str) -> None:
        self._store, self._tenant = queues.store, queues.tenant
        self._room = (RESERVED_KEY_PREFIX, "spark", kind)

    def find(self, stream: str) -> KeyValue | None:
        """The note about a stream."""
        return find_key(self._store, self._tenant, self._key(stream))

    def replace(self, stream: str, known: KeyValue | None, value: bytes | None) -> bool:
        """Replace the known note by `value`, or delete it; False if it has changed meanwhile."""
        version = 0 if known is None else known.version
        write = KeyWrite(key=self._key(stream), value=value, version=version)
        return self._store.write_keys(self._tenant, [write])

    def oldest_excess(self, noted_at: Callable[[KeyValue], float]) -> list[KeyValue]:
        """The oldest notes, if there are too many: few, if called whenever a stream is new."""
        entries = self._store.read_keys(self._tenant, self._room, 2 * MAX_STREAMS)
        # Deeper keys may be those of a stream of jobs, if its queue has this name.
        ours = [entry for entry in entries if len(entry.key) == len(self._key(""))]
        return sorted(ours, key=noted_at)[: max(0, len(ours) - MAX_STREAMS)]

    @property
    def dropped_streams(self) -> KeyValue | None:
        """The one note about all streams that were forgotten."""
        return find_key(self._store, self._tenant, self._room)

    def drop(
        self, notes: list[KeyValue], together: Callable[[list[KeyValue]], bytes] | None = None
    ) -> None:
        """Remove notes, and merge them into the one of all forgotten streams.

        Nothing is done if any of them has changed meanwhile.
        """
        writes = [KeyWrite(key=note.key, value=None, version=note.version) for note in notes]
        if together is not None:
            before = self.dropped_streams
            value = together(notes if before is None else [*notes, before])
            version = 0 if before is None else before.version
            writes.append(KeyWrite(key=self._room, value=value, version=version))
        self._store.write_keys(self._tenant, writes)

    def _key(self, stream: str) -> tuple[str, ...]:
        return (*self._room, stream)
