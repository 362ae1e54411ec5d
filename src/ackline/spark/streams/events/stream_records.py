"""Records that a store keeps about streams of events, one of each kind per stream."""

from __future__ import annotations

from collections.abc import Callable

from ackline.core.reserved_keys import KeyFamily, reserved_key
from ackline.queues import Queues
from ackline.stores.contract import KeyValue, KeyWrite, find_key

MAX_STREAMS = 1000
"""Streams of one tenant that have records. A deleted checkpoint leaves its record behind, so
if there are more, those that were inactive for longest are dropped."""


class StreamRecords:
    """The records of one kind."""

    def __init__(self, queues: Queues, kind: str) -> None:
        self._store, self._tenant = queues.store, queues.tenant
        self._prefix = reserved_key(KeyFamily.SPARK, kind)

    def find(self, stream: str) -> KeyValue | None:
        """The record about a stream."""
        return find_key(self._store, self._tenant, self._key(stream))

    def replace(self, stream: str, known: KeyValue | None, value: bytes | None) -> bool:
        """Replace the known record by `value`, or delete it; False if it has changed since."""
        version = 0 if known is None else known.version
        write = KeyWrite(key=self._key(stream), value=value, version=version)
        return self._store.write_keys(self._tenant, [write])

    def oldest_excess(self, recorded_at: Callable[[KeyValue], float]) -> list[KeyValue]:
        """The oldest records, if there are too many: few, if called whenever a stream is new."""
        entries = self._store.read_keys(self._tenant, self._prefix, 2 * MAX_STREAMS)
        # Deeper keys may be those of a stream of jobs, if its queue has this name.
        ours = [entry for entry in entries if len(entry.key) == len(self._key(""))]
        return sorted(ours, key=recorded_at)[: max(0, len(ours) - MAX_STREAMS)]

    @property
    def dropped_streams(self) -> KeyValue | None:
        """The one record about all streams whose records were dropped."""
        return find_key(self._store, self._tenant, self._prefix)

    def drop(
        self, records: list[KeyValue], merge: Callable[[list[KeyValue]], bytes] | None = None
    ) -> None:
        """Delete records, and merge them into the one of all dropped streams.

        Nothing is changed if any of them has changed since.
        """
        writes = [
            KeyWrite(key=record.key, value=None, version=record.version) for record in records
        ]
        if merge is not None:
            before = self.dropped_streams
            value = merge(records if before is None else [*records, before])
            version = 0 if before is None else before.version
            writes.append(KeyWrite(key=self._prefix, value=value, version=version))
        self._store.write_keys(self._tenant, writes)

    def _key(self, stream: str) -> tuple[str, ...]:
        return (*self._prefix, stream)
