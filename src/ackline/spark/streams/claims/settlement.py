"""What becomes of the jobs of a micro-batch that Spark has committed."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ackline.core import lifecycle
from ackline.core.config import ResolvedPolicy
from ackline.core.job import LIVE, Record, State
from ackline.core.lifecycle import Transition, Verdict
from ackline.queue import Queue
from ackline.queue.settle import failure_from
from ackline.spark.claims.manifest_room import ManifestStore
from ackline.spark.claims.manifests import Manifest
from ackline.spark.errors import StreamFenced, StreamMismatch
from ackline.spark.options import ClaimsOptions
from ackline.spark.store.page_size import batched
from ackline.spark.streams.claims.lease_renewer import LeaseRenewer
from ackline.spark.streams.claims.leases import Lease, look_up

logger = logging.getLogger("ackline")


class Settlement:
    """Completes the jobs of committed micro-batches, or fails those left without an outcome."""

    def __init__(
        self,
        queue: Queue[Any, Any],
        options: ClaimsOptions,
        room: ManifestStore,
        keeper: LeaseRenewer,
    ) -> None:
        self._queue = queue
        self._options = options
        self._room = room
        self._keeper = keeper

    def settle(self, batch: int, seen: Mapping[int, list[Record]]) -> list[int]:
        """Settle up to this micro-batch; returns those that are done now. Safe to repeat."""
        state = self._room.state
        if batch <= state.committed:
            return []
        if self._room.is_fenced():
            raise StreamFenced(self._options.stream_id)
        if batch not in self._room.manifests:
            raise self.mismatch(batch)
        done = [
            manifest
            for number, manifest in sorted(self._room.manifests.items())
            if state.committed < number <= batch
        ]
        for manifest in done:
            self._settle(manifest, seen.get(manifest.batch, []))
        planned = max(state.planned, batch)
        proven = max((one.batch for one in done if one.leases), default=state.last_nonempty_commit)
        state = msgspec.structs.replace(
            state, committed=batch, planned=planned, last_nonempty_commit=proven
        )
        self._room.save(state)
        return [manifest.batch for manifest in done]

    def mismatch(self, batch: int) -> StreamMismatch:
        """The error for a checkpoint with a micro-batch that the store does not know."""
        state = self._room.state
        return StreamMismatch(
            f"stream {self._options.stream_id!r}: the checkpoint ends with micro-batch {batch}, "
            f"the store with {max(state.planned, state.committed)}. Use the checkpoint that "
            "belongs to this streamId, or another streamId"
        )

    def _settle(self, manifest: Manifest, seen: list[Record]) -> None:
        verdicts = list[Verdict]()
        for chunk in self._looked_up(manifest, seen):
            steps = (self._outcome(lease, record) for lease, record in chunk)
            verdicts += self._queue.apply([step for step in steps if step is not None])
        self._keeper.remove(manifest.leases)
        # Jobs that others have settled meanwhile are not delivered again.
        if again := sum(not verdict.applied and verdict.state in LIVE for verdict in verdicts):
            logger.warning(
                "stream %r: the leases of %d jobs of micro-batch %d were lost before it was "
                "committed; they will be delivered again",
                *(self._options.stream_id, again, manifest.batch),
            )

    def _looked_up(
        self, manifest: Manifest, seen: list[Record]
    ) -> Iterator[Sequence[tuple[Lease, Record | None]]]:
        # If outcomes were written meanwhile, the records that this driver has seen are outdated.
        if seen and self._options.ack == "commit":
            return batched(list(zip(manifest.leases, seen, strict=True)))
        return look_up(self._queue.store, self._queue.key, manifest.leases)

    def _outcome(self, lease: Lease, record: Record | None) -> Transition | None:
        if record is None:
            return None
        held, policy = record, self._queue.policies.of(record)
        if held.token != lease[1]:
            held = msgspec.structs.replace(record, token=lease[1])
        if self._options.ack == "commit":
            return lifecycle.complete(
                held, None, with_min_result_ttl(policy, self._options.keep_for)
            )
        if record.state is not State.PROCESSING or record.token != lease[1]:
            return None
        failure = failure_from(held, "its micro-batch was committed without an outcome for it")
        return lifecycle.fail(held, failure, policy, self._queue.random)


def with_min_result_ttl(policy: ResolvedPolicy, keep_for: float) -> ResolvedPolicy:
    """A policy under which a completed job can be read again for at least `keep_for` seconds."""
    return msgspec.structs.replace(policy, result_ttl=max(policy.result_ttl, keep_for))
