"""The keys of a stream in the store, and how their values are encoded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ackline.core.job import QueueKey
from ackline.core.reserved_keys import KeyFamily, reserved_key
from ackline.spark.store.page_size import MAX_BATCH
from ackline.spark.streams.claims.manifests import Manifest, PendingBatch, StreamState
from ackline.stores.contract import KeyValue, KeyWrite, Store, find_key

_encode = msgspec.msgpack.Encoder().encode
_decode_state = msgspec.msgpack.Decoder(StreamState).decode
_decode_jobs = msgspec.msgpack.Decoder(PendingBatch).decode


def key_prefix(queue: QueueKey) -> tuple[str, ...]:
    """The prefix of the keys of a queue's streams: a section follows, then the stream."""
    return reserved_key(KeyFamily.CLAIMS, queue.name)


def list_streams(store: Store, queue: QueueKey) -> dict[str, StreamState]:
    """The streams of a queue, and their progress."""
    entries = _keys_under(store, queue.tenant, (*key_prefix(queue), "state"))
    return {entry.key[-1]: _decode_state(entry.value) for entry in entries}


class StreamKeys:
    """The keys of one stream: its state, a manifest for each micro-batch, and waiting jobs."""

    def __init__(self, store: Store, queue: QueueKey, stream: str) -> None:
        self._store = store
        self._tenant = queue.tenant
        self._path = key_prefix(queue)
        self._stream = stream

    def find_state(self) -> tuple[StreamState | None, int]:
        """The state, whichever driver wrote it, and the version of its key."""
        entry = find_key(self._store, self._tenant, self._state_path)
        return (None, 0) if entry is None else (_decode_state(entry.value), entry.version)

    def read_manifests(self) -> dict[int, Manifest]:
        """The manifests, by their micro-batch."""
        found = self._read("batch")
        return {batch: Manifest(batch, *msgspec.structs.astuple(found[batch])) for batch in found}

    def read_waiting(self) -> dict[int, PendingBatch]:
        """The jobs that wait to be a micro-batch, by their number."""
        return self._read("waiting")

    def write(
        self, state: StreamState | None, version: int, others: Sequence[KeyWrite] = ()
    ) -> bool:
        """Write the state, or delete it, and these other keys, all or none of them.

        False if the state has changed since that version: then nothing is written.
        """
        value = None if state is None else _encode(state)
        guard = KeyWrite(key=self._state_path, value=value, version=version)
        return self._store.write_keys(self._tenant, [guard, *others])

    def set_manifest(self, manifest: Manifest) -> KeyWrite:
        """Writes a manifest."""
        jobs = PendingBatch(manifest.leases, manifest.suspected_in)
        return KeyWrite(key=self._key("batch", manifest.batch), value=_encode(jobs))

    def delete_manifest(self, batch: int) -> KeyWrite:
        """Deletes the manifest of a micro-batch."""
        return KeyWrite(key=self._key("batch", batch), value=None)

    def set_waiting(self, number: int, jobs: PendingBatch) -> KeyWrite:
        """Writes jobs that wait."""
        return KeyWrite(key=self._key("waiting", number), value=_encode(jobs))

    def delete_waiting(self, number: int) -> KeyWrite:
        """Deletes jobs that waited."""
        return KeyWrite(key=self._key("waiting", number), value=None)

    @property
    def _state_path(self) -> tuple[str, ...]:
        return (*self._path, "state", self._stream)

    def _key(self, section: str, number: int) -> tuple[str, ...]:
        return (*self._path, section, self._stream, f"{number:016d}")

    def _read(self, section: str) -> dict[int, PendingBatch]:
        entries = _keys_under(self._store, self._tenant, (*self._path, section, self._stream))
        return {int(entry.key[-1]): _decode_jobs(entry.value) for entry in entries}


def _keys_under(store: Store, tenant: str, prefix: tuple[str, ...]) -> Iterator[KeyValue]:
    """All keys that begin with these parts, in order, however many."""
    after: tuple[str, ...] | None = None
    while True:
        page = store.read_keys(tenant, prefix, MAX_BATCH, after)
        yield from page
        if len(page) < MAX_BATCH:
            return
        after = page[-1].key
