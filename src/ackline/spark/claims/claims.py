"""Claims as manifests: what a stream of jobs does in its planner, without Spark.

For each micro-batch: `take` claims jobs and saves a manifest of them before Spark hears of it;
`plan` hands out the jobs of a manifest, again after a crash; `settle` completes them when Spark
has committed. What a driver claimed and could not save any more goes back to the queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ackline import lifecycle
from ackline.job import LIVE, Record
from ackline.queue import Queue
from ackline.queue.consumer import time_to_next
from ackline.queue.failures import failure_from
from ackline.queues import Queues
from ackline.spark.claims.keeper import LeaseKeeper
from ackline.spark.claims.manifests import Lease, Manifest, ManifestRoom
from ackline.spark.claims.replay import Replay, cut_up
from ackline.spark.claims.settling import Settling
from ackline.spark.errors import StreamFenced, StreamMismatch
from ackline.spark.options import ReadClaims
from ackline.spark.stride import Stride, fitting

CHUNK = 1000
"""Jobs per round trip, at most."""


class Claims:
    """The claims of one stream, for one driver."""

    def __init__(self, queues: Queues, options: ReadClaims) -> None:
        self._options = options
        self._queue: Queue[Any, Any] = queues[options.queue]
        self._store = queues.store
        self.room = ManifestRoom(self._store, self._queue.key, options.stream_id)
        self._keeper = LeaseKeeper(
            self._store, self._queue.key, options.worker, options.lease, self.room.fenced
        )
        self._settling = Settling(self._queue, options, self.room, self._keeper)
        self._records: dict[int, list[Record]] = {}
        """The jobs of micro-batches that this driver has claimed or looked at, until settled."""
        self._swept = False
        self._budget: int | None = None
        self._stride = Stride(CHUNK)

    def begin(self) -> None:
        """Take the stream over."""
        self.room.begin()
        self._keeper.hold(self.room.held)
        self._keeper.beat()
        self._sweep()
        self._keeper.start()

    def begin_anew(self) -> None:
        """A new checkpoint: refused if another one has come far already, unless reset is set."""
        committed = self.room.state.committed
        if not committed:
            return
        if not self._options.reset:
            raise StreamMismatch(
                f"stream {self._options.stream_id!r} was read up to micro-batch {committed} with "
                "another checkpoint. Use that one, or another streamId; or set reset=true to "
                "begin anew, which gives back what the other one holds"
            )
        self._keeper.drop(self.room.held)
        self.room.restart()
        self._records.clear()
        self._sweep()

    def close(self) -> None:
        """Stop keeping leases; they stay for the next driver as long as they last."""
        self._keeper.stop()

    def stop_at_present(self) -> None:
        """Claim no more jobs than are waiting now, or come back from lapsed leases."""
        counts = self._queue.counts()
        self._budget = sum(counts[state] for state in LIVE)

    def settle(self, batch: int) -> None:
        """Spark has committed up to this micro-batch: its jobs are done. Safe to repeat."""
        self._settling.settle(batch, self._records)

    # --- claiming ---

    def take(self, start: int, limit: int) -> int:
        """The number of the next micro-batch, claimed and saved; `start` if there is none."""
        self.settle(start)
        state, batch = self.room.state, start + 1
        if batch in self.room.manifests:
            return batch
        if start < state.planned:
            raise self._settling.mismatch(start)
        if self.room.waiting:
            leases, *rest = self.room.waiting
            self.room.save(state, Manifest(batch, leases), rest)
            return batch
        return batch if self._claim_and_save(batch, limit) else start

    def _claim_and_save(self, batch: int, limit: int) -> bool:
        if not self._swept:
            self._sweep()
        records: list[Record] = []
        try:
            self._claim(records, limit)
            if records:
                self.room.save(self.room.state, Manifest(batch, _leases(records)))
        except StreamFenced:
            self._give_back(records)
            raise
        except Exception:
            # What was claimed is not in a manifest, or is, or was without our knowledge.
            self._swept = False
            raise
        if records:
            self._records[batch] = records
        return bool(records)

    def _claim(self, records: list[Record], limit: int) -> None:
        """Claim into the list, so that the caller knows of all that was claimed, come what may."""
        if self._budget is not None:
            limit = min(limit, self._budget)
        room = self._options.max_bytes_per_trigger
        while len(records) < limit and room > 0:
            wait = 0.0 if records or self._budget is not None else self._options.wait
            found = self._claim_some(min(self._stride.next(room), limit - len(records)), wait)
            if not found:
                break
            taken = fitting(found, room)
            room -= self._stride.saw(found)
            records += found[:taken]
            self._keeper.hold(_leases(found[:taken]))
            self._keep_short(found[:taken])
            if surplus := found[taken:]:
                # They are larger than those before: Spark's driver may not have room for them all.
                self._give_back(surplus)
        if self._budget is not None:
            self._budget -= len(records)

    def _claim_some(self, limit: int, wait: float) -> list[Record]:
        options = self._options
        request = self._queue.claim_request(limit, options.lease, options.kind_set, options.worker)
        claimed = self._queue.claim_records(request)
        if claimed.jobs or not wait:
            return claimed.jobs
        with self._store.listen([self._queue.key], "ready", options.kind_set) as listener:
            claimed = self._queue.claim_records(request)
            if claimed.jobs:
                return claimed.jobs
            listener.wait(min(wait, time_to_next(claimed)))
        return self._queue.claim_records(request).jobs

    def _keep_short(self, records: Sequence[Record]) -> None:
        """A job may have a shorter lease of its own than the stream needs."""
        short = [record for record in records if record.options.lease is not None]
        if short:
            self._keeper.extend(_leases(short))

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
            return self._replay().done(manifest)
        if records is None:
            return self._plan_again(manifest)
        if state.planned < batch:
            self.room.save(msgspec.structs.replace(state, planned=batch, plans=1))
        return records

    def _plan_again(self, manifest: Manifest) -> list[Record]:
        """Begin with a micro-batch that an earlier driver has claimed."""
        records = self._replay().alive(manifest)
        state, waiting = self.room.state, self.room.waiting
        plans = state.plans + 1 if state.planned == manifest.batch else 1
        if plans > self._options.max_replays and records:
            records, rest = cut_up(records)
            if not rest:
                self._bury(records.pop())
            waiting = [*map(_leases, rest), *waiting]
            plans = 1
        kept = Manifest(manifest.batch, _leases(records))
        state = msgspec.structs.replace(state, planned=manifest.batch, plans=plans)
        self.room.save(state, kept, waiting)
        self._records[manifest.batch] = records
        return records

    def _replay(self) -> Replay:
        return Replay(self._queue, self._keeper, self._options.stream_id)

    def _bury(self, record: Record) -> None:
        reason = (
            f"its micro-batch was begun {self._options.max_replays} times by stream "
            f"{self._options.stream_id!r} and never committed"
        )
        failure = failure_from(record, reason)
        self._queue.apply([lifecycle.bury(record, failure, self._queue.policies.of(record))])
        self._keeper.drop(_leases([record]))

    # --- giving back ---

    def _sweep(self) -> None:
        """Give back what was claimed for this stream, but never saved."""
        held = self.room.held
        while True:
            limit = len(held) + CHUNK
            leased = self._store.leases(self._queue.key, worker=self._options.worker, limit=limit)
            strays = [job for job in leased if (job.id, job.token) not in held]
            if not strays or not self._give_back(strays):
                self._swept = True
                return

    def _give_back(self, records: Iterable[Record]) -> int:
        several = list(records)
        self._keeper.drop(_leases(several))
        verdicts = self._queue.apply([lifecycle.release(record) for record in several])
        return sum(verdict.applied for verdict in verdicts)


def _leases(records: Iterable[Record]) -> tuple[Lease, ...]:
    return tuple((record.id, record.token) for record in records)
