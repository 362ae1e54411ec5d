"""Stores what a stream has claimed: one manifest for each micro-batch.

Every write is guarded by the version of the stream's state, into which each driver writes its id
when it starts. So only the last driver that started can write; an earlier one is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from ackline.core.ids import new_id
from ackline.core.job import QueueKey
from ackline.spark.errors import StreamFenced
from ackline.spark.streams.claims.leases import Lease
from ackline.spark.streams.claims.manifests import Manifest, PendingBatch, StreamState
from ackline.spark.streams.claims.stream_keys import StreamKeys
from ackline.stores.contract import KeyWrite, Store

RETAINED_MANIFESTS = 20
"""How many committed manifests are kept, because Spark may go back to them."""

NO_VERSION = -1
"""A version that no key ever has."""

StateCheck = Callable[[StreamState], None]
"""Raises if a checkpoint and the state of the stream do not belong together."""


class ManifestStore:
    """The state, the manifests and the waiting jobs of one stream.

    `begin` loads them; from then on, only this driver can write.
    """

    def __init__(self, store: Store, queue: QueueKey, stream: str) -> None:
        self._keys = StreamKeys(store, queue, stream)
        self._stream = stream
        self._by = new_id()
        self._version = 0
        self.state = StreamState("")
        self.manifests: dict[int, Manifest] = {}
        self.pending: dict[int, PendingBatch] = {}
        """Jobs that will be micro-batches of their own, by number."""

    def begin(self, accept: StateCheck) -> None:
        """Take the stream over from its last driver if its state is accepted, and load the rest."""
        while True:
            found, version = self._keys.find_state()
            state = found or StreamState(new_id())
            accept(state)
            mine = msgspec.structs.replace(state, epoch=state.epoch + 1, driver=self._by)
            if self._keys.write(mine, version):
                break
        self.load()

    def load(self) -> None:
        """Read what the store has; `StreamFenced` if another driver has taken over."""
        self.state, self._version = self._found()
        self.manifests = self._keys.read_manifests()
        self.pending = self._keys.read_waiting()

    def save(
        self,
        state: StreamState,
        manifest: Manifest | None = None,
        *,
        taken: int | None = None,
        added: Sequence[PendingBatch] = (),
    ) -> None:
        """Write all changes or none; `StreamFenced` if another driver has taken over.

        `taken` is the number of waiting jobs that are used now; `added` are new waiting jobs, the
        first of them under the highest number.
        """
        new = dict(enumerate(reversed(added), max(self.pending, default=-1) + 1))
        old = [batch for batch in self.manifests if batch <= state.committed - RETAINED_MANIFESTS]
        changes = [self._keys.set_waiting(number, jobs) for number, jobs in new.items()]
        changes += [self._keys.delete_manifest(batch) for batch in old]
        if manifest is not None:
            changes.append(self._keys.set_manifest(manifest))
        if taken is not None:
            changes.append(self._keys.delete_waiting(taken))
        self._write(state, changes)
        self.state = state
        self.pending |= new
        for batch in old:
            del self.manifests[batch]
        if manifest is not None:
            self.manifests[manifest.batch] = manifest
        if taken is not None:
            del self.pending[taken]

    def confirm(self) -> bool:
        """Whether the store still has what this driver loaded or saved last.

        If so, no write that any driver sent before can still succeed. If not, call `load`;
        `StreamFenced` if another driver has taken over.
        """
        if self._keys.write(self.state, self._version):
            self._note_version()
            return True
        self._found()
        return False

    def restart(self) -> None:
        """Delete all manifests and waiting jobs, as if the stream were new."""
        fresh = StreamState(new_id(), self.state.epoch, self._by)
        changes = [self._keys.delete_manifest(batch) for batch in self.manifests]
        changes += [self._keys.delete_waiting(number) for number in self.pending]
        self._write(fresh, changes)
        self.state, self.manifests, self.pending = fresh, {}, {}

    def delete(self) -> None:
        """Delete the state of a stream that was restarted and has no leased jobs."""
        self._write(None, [])

    def find(self) -> StreamState | None:
        """The state in the store, whichever driver wrote it."""
        return self._keys.find_state()[0]

    def is_fenced(self) -> bool:
        """Whether another driver has taken over. Any thread may call this."""
        found = self.find()
        return found is None or found.driver != self._by

    @property
    def leases(self) -> set[Lease]:
        """Every lease that the stream is still responsible for."""
        batches: Iterable[tuple[Lease, ...]] = (
            manifest.leases
            for manifest in self.manifests.values()
            if manifest.batch > self.state.committed
        )
        waiting = (jobs.leases for jobs in self.pending.values())
        return {lease for leases in (*batches, *waiting) for lease in leases}

    def _write(self, state: StreamState | None, changes: list[KeyWrite]) -> None:
        while not self._keys.write(state, self._version, changes):
            # Unless another driver has taken over, an earlier write succeeded without a reply.
            _, self._version = self._found()
            changes = changes + self._undo_additions(changes)
        self._note_version()

    def _undo_additions(self, changes: list[KeyWrite]) -> list[KeyWrite]:
        """Deletions of what a write whose reply was lost added: its jobs would be waiting twice."""
        unknown = self._keys.read_waiting().keys() - self.pending.keys()
        changed = {change.key for change in changes}
        deletions = map(self._keys.delete_waiting, unknown)
        return [deletion for deletion in deletions if deletion.key not in changed]

    def _note_version(self) -> None:
        found, version = self._keys.find_state()
        # Never the version of another driver's state, which would then be overwritten.
        ours = found is not None and found.driver == self._by
        self._version = version if ours else NO_VERSION

    def _found(self) -> tuple[StreamState, int]:
        found, version = self._keys.find_state()
        if found is None or found.driver != self._by:
            raise StreamFenced(self._stream)
        return found, version
