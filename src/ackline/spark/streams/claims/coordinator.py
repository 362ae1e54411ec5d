"""Plans the micro-batches of a stream of jobs; needs no Spark.

For each micro-batch, `claim_next_batch` claims jobs and saves a manifest of them before Spark gets
its offset; `jobs_of_batch` returns the jobs of a manifest, the same after a crash; `settle`
completes them when Spark has committed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ackline.core.ids import new_id
from ackline.core.job import Record
from ackline.queue import Queue
from ackline.queues import Queues
from ackline.spark.errors import StreamFenced, StreamMismatch
from ackline.spark.options import ClaimsOptions
from ackline.spark.streams.claims.claimer import Claimer
from ackline.spark.streams.claims.lease_renewer import LeaseRenewer
from ackline.spark.streams.claims.leases import leases_of
from ackline.spark.streams.claims.manifest_store import ManifestStore, StateCheck
from ackline.spark.streams.claims.manifests import Manifest, PendingBatch, StreamState
from ackline.spark.streams.claims.replay import Replay
from ackline.spark.streams.claims.settlement import Settlement
from ackline.stores.contract import Filter


class ClaimCoordinator:
    """Claims jobs for one driver of a stream, and settles them."""

    def __init__(self, queues: Queues, options: ClaimsOptions) -> None:
        self._options = options
        self._queue: Queue[Any, Any] = queues[options.queue]
        self.manifest_store = ManifestStore(queues.store, self._queue.key, options.stream_id)
        self._renewer = LeaseRenewer(
            queues.store,
            self._queue.key,
            options.worker_id,
            options.lease,
            self.manifest_store.is_fenced,
        )
        self._claimer = Claimer(self._queue, options, self.manifest_store, self._renewer)
        self._replay = Replay(self._queue, options, self._renewer)
        self._settlement = Settlement(self._queue, options, self.manifest_store, self._renewer)
        self._records: dict[int, list[Record]] = {}
        """The jobs of micro-batches that this driver has claimed or read, until settled."""
        self._taken_over = False
        self._state_uncertain = False
        """Whether a claim or a save failed: the store may have more than this driver knows."""

    def find_or_create(self) -> StreamState:
        """The state of the stream, which is created if it does not exist.

        An existing stream is not taken over yet: if its state does not match this driver's
        checkpoint, it is left to the driver that reads it.
        """
        if found := self.manifest_store.find():
            return found
        self.begin(lambda _state: None)
        return self.manifest_store.state

    def begin(self, accept: StateCheck) -> None:
        """Take the stream over; if `accept` refuses its state, nothing is changed."""
        if self._taken_over:
            accept(self.manifest_store.state)
            return
        self._require_reading()
        self.manifest_store.begin(accept)
        self._renewer.add(self.manifest_store.leases)
        self._renewer.heartbeat()
        self._claimer.release_orphans()
        self._renewer.start()
        self._taken_over = True

    def _require_reading(self) -> None:
        """Raise `StoreForbidden` if this token may not read jobs: a replay reads them again.

        Without that permission, a service returns jobs without their payloads.
        """
        none = Filter(states=frozenset())
        self._queue.store.page(self._queue.key, none, None, 1)

    def reset(self) -> None:
        """Take the stream over and start it over, without regard to an earlier checkpoint.

        Jobs that are leased under the earlier one go back to the queue. Safe to repeat.
        """
        self.begin(lambda _state: None)
        if self.manifest_store.state.committed:
            # Until the jobs are released: if this fails halfway, it is repeated.
            self._state_uncertain = True
            self._renewer.remove(self.manifest_store.leases)
            self.manifest_store.restart()
            self._records.clear()
        if self._state_uncertain:
            self._reload()

    def use_generation(self, generation: str) -> None:
        """Settle on this generation, of which Spark has logged an offset."""
        state = self.manifest_store.state
        if state.offered_generation:
            self.manifest_store.save(
                msgspec.structs.replace(state, generation=generation, offered_generation="")
            )

    def close(self) -> None:
        """Stop extending leases; until they lapse, the next driver can take them over."""
        self._renewer.stop()

    def stop_at_current_jobs(self) -> None:
        """Claim no more jobs than there are now, including those whose leases expire."""
        self._claimer.stop_at_current_jobs()

    def settle(self, batch: int) -> None:
        """Complete the jobs up to this micro-batch, which Spark has committed. Safe to repeat."""
        for done in self._settlement.settle(batch, self._records):
            self._records.pop(done, None)

    # --- claiming ---

    def claim_next_batch(self, start: int, limit: int) -> int:
        """The number of the next micro-batch, claimed and saved; `start` if there is none."""
        if self._renewer.fenced:
            raise StreamFenced(self._options.stream_id)
        self.settle(start)
        if self._state_uncertain:
            self._reload()
        batch = start + 1
        if batch in self.manifest_store.manifests:
            if not start:
                # The last driver was killed before Spark logged its offset, or this is another
                # checkpoint: the first that returns with its offset continues the stream.
                self.manifest_store.save(
                    msgspec.structs.replace(self.manifest_store.state, offered_generation=new_id())
                )
            return batch
        if start < self.manifest_store.state.planned:
            raise self._settlement.mismatch(start)
        return batch if self._fill(batch, limit) else start

    def _fill(self, batch: int, limit: int) -> bool:
        try:
            return (
                self._take_waiting(batch, suspects=False)
                or self._claim_and_save(batch, limit)
                or self._take_waiting(batch, suspects=True)
            )
        except Exception:
            self._state_uncertain = True
            raise

    def _take_waiting(self, batch: int, *, suspects: bool) -> bool:
        """Use waiting jobs as this micro-batch.

        A suspect is used only if other jobs were committed since, or with `suspects`. Parts of
        the last split go first: if they are committed, the sink works.
        """
        waiting, last_nonempty = (
            self.manifest_store.pending,
            self.manifest_store.state.last_nonempty_commit,
        )
        ready = [
            (jobs.suspected_in, -number)
            for number, jobs in waiting.items()
            if suspects or jobs.suspected_in <= last_nonempty
        ]
        if ready:
            number = -min(ready)[1]
            jobs = waiting[number]
            manifest = Manifest(batch, jobs.leases, jobs.suspected_in)
            self.manifest_store.save(self.manifest_store.state, manifest, taken=number)
        return bool(ready)

    def _claim_and_save(self, batch: int, limit: int) -> bool:
        records = self._claimer.claim(limit)
        if records:
            try:
                self.manifest_store.save(
                    self.manifest_store.state, Manifest(batch, leases_of(records))
                )
            except StreamFenced:
                self._claimer.release(records)
                raise
            self._claimer.use_budget(len(records))
            self._records[batch] = records
        return bool(records)

    def _reload(self) -> None:
        known = set(self.manifest_store.manifests)
        self.manifest_store.load()
        arrived = (
            self.manifest_store.manifests[batch]
            for batch in self.manifest_store.manifests.keys() - known
        )
        self._claimer.use_budget(sum(len(manifest.leases) for manifest in arrived))
        self._renewer.add(self.manifest_store.leases)
        self._claimer.release_orphans()
        self._state_uncertain = False

    # --- planning ---

    def jobs_of_batch(self, batch: int) -> list[Record]:
        """The jobs of a micro-batch that Spark has logged; every call returns the same ones."""
        manifest = self.manifest_store.manifests.get(batch)
        if manifest is None:
            raise StreamMismatch(
                f"stream {self._options.stream_id!r}: the store has no manifest of micro-batch "
                f"{batch}. Use the checkpoint that belongs to this streamId"
            )
        state = self.manifest_store.state
        records = self._records.get(batch)
        if batch <= state.committed:
            return self._replay.settled_jobs(manifest)
        if state.planned >= batch and records is not None:
            return records
        if records is None or not self._renewer.has_all(manifest.leases):
            return self._plan_again(manifest)
        self.manifest_store.save(msgspec.structs.replace(state, planned=batch, times_planned=1))
        return records

    def _plan_again(self, manifest: Manifest) -> list[Record]:
        """Plan a micro-batch that an earlier driver has claimed, or whose leases were lost."""
        records = self._replay.replayable_jobs(manifest)
        state, waiting = self.manifest_store.state, list[PendingBatch]()
        plans = state.times_planned + 1 if state.planned == manifest.batch else 1
        if plans > self._options.max_replays and records:
            records, waiting = self._replay.split(manifest, records, state.last_nonempty_commit)
            plans = 1
        kept = msgspec.structs.replace(manifest, leases=leases_of(records))
        state = msgspec.structs.replace(state, planned=manifest.batch, times_planned=plans)
        self.manifest_store.save(state, kept, added=waiting)
        self._records[manifest.batch] = records
        return records
