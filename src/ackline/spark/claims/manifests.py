"""What a stream has claimed, kept in the store: one manifest for each micro-batch.

Every write is guarded by the version of the stream's state, and each driver that starts writes its
own id into that state. So of two drivers only the last to start can write, and the other finds out
when it tries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from ackline.ids import new_id
from ackline.job import QueueKey
from ackline.limits import OWN_KEYS
from ackline.spark.claims.leases import Lease
from ackline.spark.errors import StreamFenced
from ackline.stores.base import KeyWrite, Store, find_key

KEPT = 20
"""How many committed manifests stay, because Spark may go back to them."""

MOST = 10_000

NO_VERSION = -1
"""A version that no key ever has."""


class StreamState(msgspec.Struct, frozen=True):
    """Where a stream stands."""

    generation: str
    """Made when the stream began; offsets name it."""
    epoch: int = 0
    """How many drivers have read it."""
    by: str = ""
    """The driver that reads it now."""
    planned: int = 0
    """The last micro-batch that Spark is known to have logged."""
    plans: int = 0
    """How often that micro-batch was begun."""
    committed: int = 0
    """The last micro-batch that is known to be done, and whose jobs are settled."""
    proven: int = 0
    """The last committed micro-batch that had jobs: then at least, the sink worked."""


Accept = Callable[[StreamState], None]
"""Raises if a checkpoint and the state of the stream do not belong together."""


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """Jobs that are to be one micro-batch."""

    leases: tuple[Lease, ...]
    suspected_in: int = 0
    """The micro-batch in which its only job was first suspected of killing drivers; 0 is none."""


class Manifest(msgspec.Struct, frozen=True):
    """The jobs of one micro-batch."""

    batch: int
    leases: tuple[Lease, ...]
    suspected_in: int = 0


_encode = msgspec.msgpack.Encoder().encode
_decode_state = msgspec.msgpack.Decoder(StreamState).decode
_decode_piece = msgspec.msgpack.Decoder(Piece).decode


def path_of(queue: QueueKey) -> tuple[str, ...]:
    """The prefix of the keys of a queue's streams: a section follows, then the stream."""
    return (OWN_KEYS, "claims", queue.name)


def streams_of(store: Store, queue: QueueKey) -> dict[str, StreamState]:
    """The streams that the store knows of a queue, and where they stand."""
    entries = store.read_keys(queue.tenant, (*path_of(queue), "state"), MOST)
    return {entry.key[-1]: _decode_state(entry.value) for entry in entries}


class ManifestRoom:
    """The state, the manifests and the waiting pieces of one stream, as the store has them.

    `begin` reads them once; from then on this driver is the only one that can write.
    """

    def __init__(self, store: Store, key: QueueKey, stream: str) -> None:
        self._store = store
        self._tenant = key.tenant
        self._stream = stream
        self._path = path_of(key)
        self._by = new_id()
        self._version = 0
        self.state = StreamState("")
        self.manifests: dict[int, Manifest] = {}
        self.waiting: list[Piece] = []
        """The pieces of a split micro-batch, and suspects: each is to be its own micro-batch."""

    def begin(self, accept: Accept) -> None:
        """Take the stream over from its last driver if its state is accepted, and load the rest."""
        while True:
            found, version = self.find()
            state = found or StreamState(new_id())
            accept(state)
            mine = msgspec.structs.replace(state, epoch=state.epoch + 1, by=self._by)
            write = KeyWrite(key=self._state_path, value=_encode(mine), version=version)
            if self._store.write_keys(self._tenant, [write]):
                break
        self.load()

    def load(self) -> None:
        """Read what the store has; `StreamFenced` if another driver has begun."""
        self.state, self._version = self._found()
        self.manifests = {
            batch: Manifest(batch, piece.leases, piece.suspected_in)
            for batch, piece in self._read("batch").items()
        }
        self.waiting = [piece for _, piece in sorted(self._read("waiting").items())]

    def save(
        self,
        state: StreamState,
        manifest: Manifest | None = None,
        waiting: Sequence[Piece] | None = None,
    ) -> None:
        """Write all of it or nothing; `StreamFenced` if another driver has begun."""
        writes = [KeyWrite(key=self._state_path, value=_encode(state), version=0)]
        if manifest is not None:
            piece = Piece(manifest.leases, manifest.suspected_in)
            writes.append(self._set("batch", manifest.batch, piece))
        if waiting is not None:
            writes += self._replace_waiting(waiting)
        old = [batch for batch in self.manifests if batch <= state.committed - KEPT]
        writes += [KeyWrite(key=self._key("batch", batch), value=None) for batch in old]
        self._write(writes)
        self.state = state
        for batch in old:
            del self.manifests[batch]
        if manifest is not None:
            self.manifests[manifest.batch] = manifest
        if waiting is not None:
            self.waiting = list(waiting)

    def confirm(self) -> bool:
        """Whether the store still has what was loaded or saved here last.

        If so, no write that any driver sent before can succeed any more. If not, `load` it;
        `StreamFenced` if another driver has begun.
        """
        write = KeyWrite(key=self._state_path, value=_encode(self.state), version=self._version)
        if self._store.write_keys(self._tenant, [write]):
            self._note_version()
            return True
        self._found()
        return False

    def restart(self) -> None:
        """Delete all manifests and waiting pieces, and begin as if the stream were new."""
        fresh = StreamState(new_id(), self.state.epoch, self._by)
        writes = [KeyWrite(key=self._state_path, value=_encode(fresh), version=0)]
        writes += [KeyWrite(key=self._key("batch", one), value=None) for one in self.manifests]
        writes += self._replace_waiting([])
        self._write(writes)
        self.state, self.manifests, self.waiting = fresh, {}, []

    def forget(self) -> None:
        """Delete the state of a stream that was restarted and holds no jobs any more."""
        self._write([KeyWrite(key=self._state_path, value=None)])

    def find(self) -> tuple[StreamState | None, int]:
        """The state in the store, whichever driver wrote it, and the version of its key."""
        entry = find_key(self._store, self._tenant, self._state_path)
        return (None, 0) if entry is None else (_decode_state(entry.value), entry.version)

    def fenced(self) -> bool:
        """Whether another driver has taken over. Any thread may call this."""
        found, _ = self.find()
        return found is None or found.by != self._by

    @property
    def held(self) -> set[Lease]:
        """Every lease that the stream is still responsible for."""
        batches: Iterable[tuple[Lease, ...]] = (
            manifest.leases
            for manifest in self.manifests.values()
            if manifest.batch > self.state.committed
        )
        waiting = (piece.leases for piece in self.waiting)
        return {lease for leases in (*batches, *waiting) for lease in leases}

    # --- keys ---

    @property
    def _state_path(self) -> tuple[str, ...]:
        return (*self._path, "state", self._stream)

    def _key(self, section: str, number: int) -> tuple[str, ...]:
        return (*self._path, section, self._stream, f"{number:016d}")

    def _set(self, section: str, number: int, piece: Piece) -> KeyWrite:
        return KeyWrite(key=self._key(section, number), value=_encode(piece))

    def _replace_waiting(self, waiting: Sequence[Piece]) -> list[KeyWrite]:
        kept = [self._set("waiting", number, piece) for number, piece in enumerate(waiting)]
        gone = range(len(waiting), len(self.waiting))
        return kept + [KeyWrite(key=self._key("waiting", number), value=None) for number in gone]

    def _read(self, section: str) -> dict[int, Piece]:
        entries = self._store.read_keys(self._tenant, (*self._path, section, self._stream), MOST)
        return {int(entry.key[-1]): _decode_piece(entry.value) for entry in entries}

    def _write(self, writes: list[KeyWrite]) -> None:
        while True:
            writes[0] = msgspec.structs.replace(writes[0], version=self._version)
            if self._store.write_keys(self._tenant, writes):
                self._note_version()
                return
            # If no other driver has begun, an earlier write of ours succeeded unanswered.
            _, self._version = self._found()

    def _note_version(self) -> None:
        found, version = self.find()
        # Never the version of another driver's state, which would then be overwritten.
        ours = found is not None and found.by == self._by
        self._version = version if ours else NO_VERSION

    def _found(self) -> tuple[StreamState, int]:
        found, version = self.find()
        if found is None or found.by != self._by:
            raise StreamFenced(self._stream)
        return found, version
