"""Claims as manifests: what a stream of jobs does in its planner, without Spark.

For each micro-batch: `take` claims jobs and saves a manifest of them before Spark gets its offset;
`plan` hands out the jobs of a manifest, the same after a crash; `settle` completes them when Spark
has committed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ackline.ids import new_id
from ackline.job import Record
from ackline.queue import Queue
from ackline.queues import Queues
from ackline.spark.claims.intake import Intake
from ackline.spark.claims.keeper import LeaseKeeper
from ackline.spark.claims.leases import leases_of
from ackline.spark.claims.manifest_room import Accept, ManifestRoom
from ackline.spark.claims.manifests import Manifest, StreamState, WaitingJobs
from ackline.spark.claims.replay import Replay
from ackline.spark.claims.settling import Settling
from ackline.spark.errors import StreamFenced, StreamMismatch
from ackline.spark.options import ReadClaims
from ackline.stores.base import Filter


class Claims:
    """The claims of one stream, for one driver."""

    def __init__(self, queues: Queues, options: ReadClaims) -> None:
        self._options = options
        self._queue: Queue[Any, Any] = queues[options.queue]
        self.room = ManifestRoom(queues.store, self._queue.key, options.stream_id)
        self._keeper = LeaseKeeper(
            queues.store, self._queue.key, options.worker, options.lease, self.room.fenced
        )
        self._intake = Intake(self._queue, options, self.room, self._keeper)
        self._replay = Replay(self._queue, options, self._keeper)
        self._settling = Settling(self._queue, options, self.room, self._keeper)
        self._records: dict[int, list[Record]] = {}
        """The jobs of micro-batches that this driver has claimed or looked up, until settled."""
        self._begun = False
        self._doubtful = False
        """Whether a claim or a save failed: the store may have more than this driver knows."""

    def find_or_begin(self) -> StreamState:
        """The state of the stream; one that does not exist is begun.

        An existing stream is not taken over yet: its state and this driver's checkpoint may not
        belong together, and then it is left to the driver that reads it.
        """
        if found := self.room.find():
            return found
        self.begin(lambda _state: None)
        return self.room.state

    def begin(self, accept: Accept) -> None:
        """Take the stream over; if `accept` refuses its state, nothing is changed."""
        if self._begun:
            accept(self.room.state)
            return
        self._require_reading()
        self.room.begin(accept)
        self._keeper.hold(self.room.held)
        self._keeper.beat()
        self._intake.sweep()
        self._keeper.start()
        self._begun = True

    def _require_reading(self) -> None:
        """Raise `StoreForbidden` if this token may only claim: a job is read again when replayed.

        A service shows jobs without their payloads to those who may not read them.
        """
        none = Filter(states=frozenset())
        self._queue.store.page(self._queue.key, none, None, 1)

    def reset(self) -> None:
        """Take the stream over, forget what was committed with another checkpoint, and begin anew.

        Jobs that the other one holds go back to the queue. Safe to repeat.
        """
        self.begin(lambda _state: None)
        if self.room.state.committed:
            # Until the jobs are given back: this may fail halfway, and is then repeated.
            self._doubtful = True
            self._keeper.drop(self.room.held)
            self.room.restart()
            self._records.clear()
        if self._doubtful:
            self._look_again()

    def adopt(self, generation: str) -> None:
        """Spark has logged an offset of this generation, so an offer of another lapses."""
        state = self.room.state
        if state.offered:
            self.room.save(msgspec.structs.replace(state, generation=generation, offered=""))

    def close(self) -> None:
        """Stop extending leases; until they lapse, the next driver can take them over."""
        self._keeper.stop()

    def stop_at_present(self) -> None:
        """Claim no more jobs than are waiting now, or come back from lapsed leases."""
        self._intake.stop_at_present()

    def settle(self, batch: int) -> None:
        """Spark has committed up to this micro-batch: its jobs are done. Safe to repeat."""
        for done in self._settling.settle(batch, self._records):
            self._records.pop(done, None)

    # --- claiming ---

    def take(self, start: int, limit: int) -> int:
        """The number of the next micro-batch, claimed and saved; `start` if there is none."""
        if self._keeper.fenced:
            raise StreamFenced(self._options.stream_id)
        self.settle(start)
        if self._doubtful:
            self._look_again()
        batch = start + 1
        if batch in self.room.manifests:
            if not start:
                # The last driver was killed before Spark logged its offset, or this is another
                # checkpoint: then just one may go on, the first to come back with its offset.
                self.room.save(msgspec.structs.replace(self.room.state, offered=new_id()))
            return batch
        if start < self.room.state.planned:
            raise self._settling.mismatch(start)
        return batch if self._fill(batch, limit) else start

    def _fill(self, batch: int, limit: int) -> bool:
        try:
            return (
                self._take_waiting(batch, suspects=False)
                or self._claim_and_save(batch, limit)
                or self._take_waiting(batch, suspects=True)
            )
        except Exception:
            self._doubtful = True
            raise

    def _take_waiting(self, batch: int, *, suspects: bool) -> bool:
        """Make jobs that wait this micro-batch.

        A suspect only if other jobs were committed since, or with `suspects`. Parts of the last
        split go first: whatever waits behind them may prove that the sink works.
        """
        waiting, proven = self.room.waiting, self.room.state.proven
        ready = [
            (jobs.suspected_in, -number)
            for number, jobs in waiting.items()
            if suspects or jobs.suspected_in <= proven
        ]
        if ready:
            number = -min(ready)[1]
            jobs = waiting[number]
            manifest = Manifest(batch, jobs.leases, jobs.suspected_in)
            self.room.save(self.room.state, manifest, taken=number)
        return bool(ready)

    def _claim_and_save(self, batch: int, limit: int) -> bool:
        records = self._intake.claim(limit)
        if records:
            try:
                self.room.save(self.room.state, Manifest(batch, leases_of(records)))
            except StreamFenced:
                self._intake.give_back(records)
                raise
            self._intake.spend(len(records))
            self._records[batch] = records
        return bool(records)

    def _look_again(self) -> None:
        known = set(self.room.manifests)
        self.room.load()
        arrived = (self.room.manifests[batch] for batch in self.room.manifests.keys() - known)
        self._intake.spend(sum(len(manifest.leases) for manifest in arrived))
        self._keeper.hold(self.room.held)
        self._intake.sweep()
        self._doubtful = False

    # --- handing out ---

    def plan(self, batch: int) -> list[Record]:
        """The jobs of a micro-batch that Spark has logged, the same each time it asks."""
        manifest = self.room.manifests.get(batch)
        if manifest is None:
            raise StreamMismatch(
                f"stream {self._options.stream_id!r}: the store has no manifest of micro-batch "
                f"{batch}. Use the checkpoint that belongs to this streamId"
            )
        state = self.room.state
        records = self._records.get(batch)
        if batch <= state.committed:
            return self._replay.done(manifest)
        if state.planned >= batch and records is not None:
            return records
        if records is None or not self._keeper.keeps(manifest.leases):
            return self._plan_again(manifest)
        self.room.save(msgspec.structs.replace(state, planned=batch, plans=1))
        return records

    def _plan_again(self, manifest: Manifest) -> list[Record]:
        """Begin a micro-batch that an earlier driver has claimed, or whose leases were lost."""
        records = self._replay.alive(manifest)
        state, waiting = self.room.state, list[WaitingJobs]()
        plans = state.plans + 1 if state.planned == manifest.batch else 1
        if plans > self._options.max_replays and records:
            records, waiting = self._replay.split(manifest, records, state.proven)
            plans = 1
        kept = msgspec.structs.replace(manifest, leases=leases_of(records))
        state = msgspec.structs.replace(state, planned=manifest.batch, plans=plans)
        self.room.save(state, kept, added=waiting)
        self._records[manifest.batch] = records
        return records
