"""Micro-batches that are begun again: which of their jobs still belong to the stream."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec

from ackline.core import lifecycle
from ackline.core.job import Record, State
from ackline.queue import Queue
from ackline.queue.settle import failure_from
from ackline.spark.claims.manifests import Manifest, PendingBatch
from ackline.spark.errors import StreamMismatch
from ackline.spark.options import ClaimsOptions
from ackline.spark.streams.claims.lease_renewer import LeaseRenewer
from ackline.spark.streams.claims.leases import (
    Lease,
    failure_under,
    is_redelivered,
    leases_of,
    look_up,
)

logger = logging.getLogger("ackline")

SPLIT_INTO = 100
"""Into how many pieces a micro-batch that is never committed is cut."""


class Replay:
    """Finds the jobs of manifests that an earlier driver, or this one, has saved."""

    def __init__(
        self, queue: Queue[Any, Any], options: ClaimsOptions, keeper: LeaseRenewer
    ) -> None:
        self._queue = queue
        self._keeper = keeper
        self._stream = options.stream_id
        self._max_replays = options.max_replays
        # Without outcomes, only a poison job fails under its lease: it is in the DLQ, not in a row.
        self._belonging = job_as_delivered if options.ack == "outcome" else job_if_unfailed

    def replayable_jobs(self, manifest: Manifest) -> list[Record]:
        """The jobs that are still leased to the stream, or were settled under its lease.

        A lease that has lapsed is expired at once. Its job is no longer in this micro-batch, and
        from now on nobody can complete it under that lease, so it is in just one micro-batch.
        """
        lost = self._keeper.extend(manifest.leases)
        self._expire(lost)
        self._keeper.add(set(manifest.leases) - lost)
        looked_up = list(self._look_up(manifest.leases))
        belonging = [self._belonging(lease, record) for lease, record in looked_up]
        left_out = [one for one, job in zip(looked_up, belonging, strict=True) if job is None]
        if gone := sum(record is None for _, record in left_out):
            self._warn(manifest, gone, "are not kept any longer. Raise keepFor, or let them stay")
        if lapsed := sum(is_redelivered(lease, record) for lease, record in left_out):
            self._warn(manifest, lapsed, "had leases that lapsed, and will be delivered again")
        return [job for job in belonging if job is not None]

    def _warn(self, manifest: Manifest, jobs: int, reason: str) -> None:
        logger.warning(
            "stream %r: micro-batch %d is begun again without %d of its jobs, which %s",
            *(self._stream, manifest.batch, jobs, reason),
        )

    def settled_jobs(self, manifest: Manifest) -> list[Record]:
        """The jobs of a micro-batch that was settled already: Spark may go back a few of them."""
        found = []
        for (id, token), record in self._look_up(manifest.leases):
            if record is None:
                raise StreamMismatch(
                    f"stream {self._stream!r}: micro-batch {manifest.batch} is to be read again, "
                    f"but its job {id!r} was completed and is not kept any longer. Raise keepFor"
                )
            if job := self._belonging((id, token), record):
                found.append(job)
        return found

    def split(
        self, manifest: Manifest, records: list[Record], proven: int
    ) -> tuple[list[Record], list[PendingBatch]]:
        """Split a micro-batch that is never committed into jobs that stay and jobs that wait.

        `proven` is the last micro-batch that was committed with jobs.
        """
        if len(records) > 1:
            first, *others = split_jobs(records)
            return first, [PendingBatch(leases_of(some)) for some in others]
        if 0 < manifest.suspected_in < proven:
            self._dead_letter(records[0])
            return [], []
        # The sink may be away. This job is to blame only if others were committed since, and it
        # was then tried again.
        suspected_in = manifest.suspected_in or manifest.batch
        return [], [PendingBatch(leases_of(records), suspected_in)]

    def _dead_letter(self, record: Record) -> None:
        """Send a job whose micro-batch is never committed to the DLQ."""
        reason = (
            f"its micro-batch was begun {self._max_replays} times by stream {self._stream!r} and "
            "never committed"
        )
        failure = failure_from(record, reason)
        self._queue.apply([lifecycle.bury(record, failure, self._queue.policies.of(record))])
        self._keeper.remove(leases_of([record]))

    def _expire(self, lost: Collection[Lease]) -> None:
        reason = "its driver was away for longer than the lease"
        while lapsed := [
            record
            for (_, token), record in self._look_up(tuple(lost))
            if record is not None and record.token == token and record.state is State.PROCESSING
        ]:
            verdicts = self._queue.expire(lapsed, reason)
            if not any(verdict.applied for verdict in verdicts):
                # Others have expired them, or the store cannot: trying again changes nothing.
                return

    def _look_up(self, leases: Sequence[Lease]) -> Iterator[tuple[Lease, Record | None]]:
        return chain.from_iterable(look_up(self._queue.store, self._queue.key, leases))


def job_as_delivered(lease: Lease, record: Record | None) -> Record | None:
    """The job as this lease delivered it, unless the lease lapsed or was given back.

    Also if it was settled under the lease, whatever its outcome: a query that writes the
    micro-batch again, in place of what it wrote at first, needs all of its jobs.
    """
    if record is not None and (ended := failure_under(lease, record)):
        return msgspec.structs.replace(record, token=lease[1], attempts=ended.attempt)
    return job_if_unfailed(lease, record)


def job_if_unfailed(lease: Lease, record: Record | None) -> Record | None:
    """The job if it is still leased under this lease, or was completed under it."""
    if record is None or record.token != lease[1]:
        return None
    return record if record.state in (State.PROCESSING, State.COMPLETED) else None


def split_jobs(records: list[Record]) -> list[list[Record]]:
    """The jobs of a micro-batch, cut into about `PIECES` pieces."""
    size = max(1, len(records) // SPLIT_INTO)
    return [records[start : start + size] for start in range(0, len(records), size)]
