"""Settles the jobs of micro-batches that Spark has committed."""

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
from ackline.spark.errors import StreamFenced, StreamMismatch
from ackline.spark.options import ClaimsOptions
from ackline.spark.store.page_size import batched
from ackline.spark.streams.claims.lease_renewer import LeaseRenewer
from ackline.spark.streams.claims.leases import Lease, look_up
from ackline.spark.streams.claims.manifest_store import ManifestStore
from ackline.spark.streams.claims.manifests import Manifest

logger = logging.getLogger("ackline")


class Settlement:
    """Completes the jobs of committed micro-batches, or fails those left without an outcome."""

    def __init__(
        self,
        queue: Queue[Any, Any],
        options: ClaimsOptions,
        manifest_store: ManifestStore,
        renewer: LeaseRenewer,
    ) -> None:
        self._queue = queue
        self._options = options
        self._manifest_store = manifest_store
        self._renewer = renewer

    def settle(self, batch: int, known: Mapping[int, list[Record]]) -> list[int]:
        """Settle up to this micro-batch; returns the settled ones. Safe to repeat."""
        state = self._manifest_store.state
        if batch <= state.committed:
            return []
        if self._manifest_store.is_fenced():
            raise StreamFenced(self._options.stream_id)
        if batch not in self._manifest_store.manifests:
            raise self.mismatch(batch)
        done = [
            manifest
            for number, manifest in sorted(self._manifest_store.manifests.items())
            if state.committed < number <= batch
        ]
        for manifest in done:
            self._settle(manifest, known.get(manifest.batch, []))
        planned = max(state.planned, batch)
        last_nonempty = max(
            (one.batch for one in done if one.leases), default=state.last_nonempty_commit
        )
        state = msgspec.structs.replace(
            state, committed=batch, planned=planned, last_nonempty_commit=last_nonempty
        )
        self._manifest_store.save(state)
        return [manifest.batch for manifest in done]

    def mismatch(self, batch: int) -> StreamMismatch:
        """The error for a checkpoint with a micro-batch that the store does not know."""
        state = self._manifest_store.state
        return StreamMismatch(
            f"stream {self._options.stream_id!r}: the checkpoint ends with micro-batch {batch}, "
            f"the store with {max(state.planned, state.committed)}. Use the checkpoint that "
            "belongs to this streamId, or another streamId"
        )

    def _settle(self, manifest: Manifest, known: list[Record]) -> None:
        verdicts = list[Verdict]()
        for chunk in self._look_up(manifest, known):
            steps = (self._outcome(lease, record) for lease, record in chunk)
            verdicts += self._queue.apply([step for step in steps if step is not None])
        self._renewer.remove(manifest.leases)
        # Jobs that others have settled meanwhile are not delivered again.
        if again := sum(not verdict.applied and verdict.state in LIVE for verdict in verdicts):
            logger.warning(
                "stream %r: the leases of %d jobs of micro-batch %d were lost before it was "
                "committed; they will be delivered again",
                *(self._options.stream_id, again, manifest.batch),
            )

    def _look_up(
        self, manifest: Manifest, known: list[Record]
    ) -> Iterator[Sequence[tuple[Lease, Record | None]]]:
        # If outcomes were written meanwhile, the records in memory are outdated.
        if known and self._options.ack == "commit":
            return batched(list(zip(manifest.leases, known, strict=True)))
        return look_up(self._queue.store, self._queue.key, manifest.leases)

    def _outcome(self, lease: Lease, record: Record | None) -> Transition | None:
        if record is None:
            return None
        leased, policy = record, self._queue.policies.of(record)
        if leased.token != lease[1]:
            leased = msgspec.structs.replace(record, token=lease[1])
        if self._options.ack == "commit":
            return lifecycle.complete(
                leased, None, with_min_result_ttl(policy, self._options.keep_for)
            )
        if record.state is not State.PROCESSING or record.token != lease[1]:
            return None
        failure = failure_from(leased, "its micro-batch was committed without an outcome for it")
        return lifecycle.fail(leased, failure, policy, self._queue.random)


def with_min_result_ttl(policy: ResolvedPolicy, keep_for: float) -> ResolvedPolicy:
    """A policy under which a completed job can be read again for at least `keep_for` seconds."""
    return msgspec.structs.replace(policy, result_ttl=max(policy.result_ttl, keep_for))
