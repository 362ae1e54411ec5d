"""Claims as manifests: what a stream of jobs does in its planner, without Spark.

For each micro-batch: `take` claims jobs and saves a manifest of them before Spark gets its offset;
`plan` hands out the jobs of a manifest, the same after a crash; `settle` completes them when Spark
has committed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ackline.job import Record
from ackline.queue import Queue
from ackline.queues import Queues
from ackline.spark.claims.intake import Intake
from ackline.spark.claims.keeper import LeaseKeeper
from ackline.spark.claims.leases import leases_of
from ackline.spark.claims.manifests import Accept, Manifest, ManifestRoom, Piece
from ackline.spark.claims.replay import Replay, cut_up
from ackline.spark.claims.settling import Settling
from ackline.spark.errors import StreamFenced, StreamMismatch
from ackline.spark.options import ReadClaims


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
        self._replay = Replay(self._queue, self._keeper, options.stream_id)
        self._settling = Settling(self._queue, options, self.room, self._keeper)
        self._records: dict[int, list[Record]] = {}
        """The jobs of micro-batches that this driver has claimed or looked up, until settled."""
        self._begun = False
        self._doubtful = False
        """Whether a claim or a save failed: the store may have more than this driver knows."""

    def generation(self) -> str:
        """The generation of the stream, which its offsets name.

        An existing stream is not taken over yet, unless it is reset: its state and this driver's
        checkpoint may not belong together, and then it is left to the driver that reads it.
        """
        found, _ = self.room.find()
        if found is not None and not self._options.reset:
            return found.generation
        self.begin(lambda _state: None)
        if self._options.reset:
            self._begin_anew()
        return self.room.state.generation

    def begin(self, accept: Accept) -> None:
        """Take the stream over; if `accept` refuses its state, nothing is changed."""
        if self._begun:
            accept(self.room.state)
            return
        self.room.begin(accept)
        self._keeper.hold(self.room.held)
        self._keeper.beat()
        self._intake.sweep()
        self._keeper.start()
        self._begun = True

    def _begin_anew(self) -> None:
        """Forget what was claimed with another checkpoint, and give those jobs back."""
        if self.room.state.committed:
            # Until the jobs are given back: this may fail halfway, and is then repeated.
            self._doubtful = True
            self._keeper.drop(self.room.held)
            self.room.restart()
            self._records.clear()
        if self._doubtful:
            self._look_again()

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
        state, batch = self.room.state, start + 1
        if batch in self.room.manifests:
            return batch
        if start < state.planned:
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
        """Make a waiting piece this micro-batch.

        A suspect only if other jobs were committed since, or with `suspects`.
        """
        waiting, proven = self.room.waiting, self.room.state.proven
        ready = (one for one in waiting if suspects or one.suspected_in <= proven)
        piece = next(ready, None)
        if piece is not None:
            rest = [one for one in waiting if one is not piece]
            manifest = Manifest(batch, piece.leases, piece.suspected_in)
            self.room.save(self.room.state, manifest, rest)
        return piece is not None

    def _claim_and_save(self, batch: int, limit: int) -> bool:
        records: list[Record] = []
        try:
            self._intake.claim(limit, records)
            if records:
                self.room.save(self.room.state, Manifest(batch, leases_of(records)))
        except StreamFenced:
            self._intake.give_back(records)
            raise
        if records:
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
        state, waiting = self.room.state, self.room.waiting
        plans = state.plans + 1 if state.planned == manifest.batch else 1
        if plans > self._options.max_replays and records:
            records, waiting = self._split(manifest, records)
            plans = 1
        kept = msgspec.structs.replace(manifest, leases=leases_of(records))
        state = msgspec.structs.replace(state, planned=manifest.batch, plans=plans)
        self.room.save(state, kept, waiting)
        self._records[manifest.batch] = records
        return records

    def _split(self, manifest: Manifest, records: list[Record]) -> tuple[list[Record], list[Piece]]:
        """Split a micro-batch that is never committed into jobs that stay and pieces that wait."""
        waiting = self.room.waiting
        if len(records) > 1:
            first, *others = cut_up(records)
            return first, [*(Piece(leases_of(some)) for some in others), *waiting]
        if 0 < manifest.suspected_in < self.room.state.proven:
            self._replay.bury(records[0], self._options.max_replays)
            return [], waiting
        # The sink may be away. This job is to blame only if others were committed since, and it
        # was then tried again.
        suspected_in = manifest.suspected_in or manifest.batch
        return [], [*waiting, Piece(leases_of(records), suspected_in)]
