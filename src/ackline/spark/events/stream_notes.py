"""Notes that a store keeps about streams of events, one of each kind per stream, not for ever."""

from __future__ import annotations

from collections.abc import Callable

from ackline.limits import OWN_KEYS
from ackline.queues import Queues
from ackline.stores.base import Key, KeyWrite, find_key

MOST = 1000
"""Streams of one tenant that have notes. Nobody reports that a checkpoint was thrown away, so if
there are more, those that were silent for longest are forgotten."""


class StreamNotes:
    """The notes of one kind."""

    def __init__(self, queues: Queues, kind: str) -> None:
        self._store, self._tenant = queues.store, queues.tenant
        self._room = (OWN_KEYS, "spark", kind)

    def find(self, stream: str) -> Key | None:
        """The note about a stream."""
        return find_key(self._store, self._tenant, self._key(stream))

    def replace(self, stream: str, known: Key | None, value: bytes | None) -> bool:
        """Replace the known note by `value`, or delete it; False if it has changed meanwhile."""
        version = 0 if known is None else known.version
        write = KeyWrite(key=self._key(stream), value=value, version=version)
        return self._store.write_keys(self._tenant, [write])

    def surplus(self, noted_at: Callable[[Key], float]) -> list[Key]:
        """The oldest notes, if there are too many: few, if called whenever a stream is new."""
        entries = self._store.read_keys(self._tenant, self._room, 2 * MOST)
        # Deeper keys may be those of a stream of jobs, if its queue has this name.
        ours = [entry for entry in entries if len(entry.key) == len(self._key(""))]
        return sorted(ours, key=noted_at)[: max(0, len(ours) - MOST)]

    @property
    def of_forgotten(self) -> Key | None:
        """The one note about all streams that were forgotten."""
        return find_key(self._store, self._tenant, self._room)

    def forget(
        self, notes: list[Key], together: Callable[[list[Key]], bytes] | None = None
    ) -> None:
        """Remove notes, and merge them into the one of all forgotten streams.

        Nothing is done if any of them has changed meanwhile.
        """
        writes = [KeyWrite(key=note.key, value=None, version=note.version) for note in notes]
        if together is not None:
            before = self.of_forgotten
            value = together(notes if before is None else [*notes, before])
            version = 0 if before is None else before.version
            writes.append(KeyWrite(key=self._room, value=value, version=version))
        self._store.write_keys(self._tenant, writes)

    def _key(self, stream: str) -> tuple[str, ...]:
        return (*self._room, stream)
