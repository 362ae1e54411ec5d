"""Replays micro-batches: which of their jobs still belong to the stream."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec

from ackline.core import lifecycle
from ackline.core.events import RecoveredBy
from ackline.core.job import Record, State
from ackline.queue import Queue
from ackline.queue.settle import failure_from
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
from ackline.spark.streams.claims.manifests import Manifest, PendingBatch

logger = logging.getLogger("ackline")

SPLIT_INTO = 100
"""Into how many parts a micro-batch that is never committed is split."""


class Replay:
    """Finds the jobs of saved manifests."""

    def __init__(
        self, queue: Queue[Any, Any], options: ClaimsOptions, renewer: LeaseRenewer
    ) -> None:
        self._queue = queue
        self._renewer = renewer
        self._stream = options.stream_id
        self._max_replays = options.max_replays
        # Without outcomes, only a poison job fails under its lease: it is in the DLQ, not in a row.
        self._find_job = job_as_delivered if options.ack == "outcome" else job_if_unfailed

    def replayable_jobs(self, manifest: Manifest) -> list[Record]:
        """The jobs that are still leased to the stream, or were settled under its lease.

        A lease past its deadline is expired at once, and its job left out: nobody can complete it
        under that lease any more, so it will be in just one micro-batch.
        """
        lost = self._renewer.extend(manifest.leases)
        self._expire(lost)
        self._renewer.add(set(manifest.leases) - lost)
        looked_up = list(self._look_up(manifest.leases))
        jobs = [self._find_job(lease, record) for lease, record in looked_up]
        left_out = [one for one, job in zip(looked_up, jobs, strict=True) if job is None]
        if gone := sum(record is None for _, record in left_out):
            self._warn(manifest, gone, "are no longer kept. Raise keepFor or their retention")
        if lapsed := sum(is_redelivered(lease, record) for lease, record in left_out):
            self._warn(manifest, lapsed, "had expired leases and will be delivered again")
        return [job for job in jobs if job is not None]

    def _warn(self, manifest: Manifest, jobs: int, reason: str) -> None:
        logger.warning(
            "stream %r: micro-batch %d is replayed without %d of its jobs, which %s",
            *(self._stream, manifest.batch, jobs, reason),
        )

    def settled_jobs(self, manifest: Manifest) -> list[Record]:
        """The jobs of a settled micro-batch: Spark may go back a few of them."""
        found = []
        for (id, token), record in self._look_up(manifest.leases):
            if record is None:
                raise StreamMismatch(
                    f"stream {self._stream!r}: micro-batch {manifest.batch} has to be replayed, "
                    f"but its job {id!r} was completed and is no longer kept. Raise keepFor"
                )
            if job := self._find_job((id, token), record):
                found.append(job)
        return found

    def split(
        self, manifest: Manifest, records: list[Record], last_nonempty_commit: int
    ) -> tuple[list[Record], list[PendingBatch]]:
        """Split a micro-batch that is never committed into jobs that stay and jobs that wait.

        `last_nonempty_commit` is the last micro-batch that was committed with jobs.
        """
        if len(records) > 1:
            first, *others = split_jobs(records)
            return first, [PendingBatch(leases_of(some)) for some in others]
        if 0 < manifest.suspected_in < last_nonempty_commit:
            self._dead_letter(records[0])
            return [], []
        # The sink may be unavailable. The job is the cause only if others were committed since, and
        # this one still fails.
        suspected_in = manifest.suspected_in or manifest.batch
        return [], [PendingBatch(leases_of(records), suspected_in)]

    def _dead_letter(self, record: Record) -> None:
        """Send a job whose micro-batch is never committed to the DLQ."""
        reason = (
            f"its micro-batch was started {self._max_replays} times by stream {self._stream!r} and "
            "never committed"
        )
        failure = failure_from(record, reason)
        self._queue.apply([lifecycle.bury(record, failure, self._queue.policies.of(record))])
        self._renewer.remove(leases_of([record]))

    def _expire(self, lost: Collection[Lease]) -> None:
        reason = "its driver did not extend the lease in time"
        while lapsed := [
            record
            for (_, token), record in self._look_up(tuple(lost))
            if record is not None and record.token == token and record.state is State.PROCESSING
        ]:
            verdicts = self._queue.expire(lapsed, reason, RecoveredBy.SWEEP)
            if not any(verdict.applied for verdict in verdicts):
                # Others have expired them, or the store refuses to: trying again changes nothing.
                return

    def _look_up(self, leases: Sequence[Lease]) -> Iterator[tuple[Lease, Record | None]]:
        return chain.from_iterable(look_up(self._queue.store, self._queue.key, leases))


def job_as_delivered(lease: Lease, record: Record | None) -> Record | None:
    """The job as this lease delivered it, unless the lease expired or was released.

    That includes jobs settled under the lease, whatever the outcome: a query that replaces what it
    wrote for the micro-batch needs all of its jobs.
    """
    if record is not None and (ended := failure_under(lease, record)):
        return msgspec.structs.replace(record, token=lease[1], attempts=ended.attempt)
    return job_if_unfailed(lease, record)


def job_if_unfailed(lease: Lease, record: Record | None) -> Record | None:
    """The job if it is still leased or was completed under this lease."""
    if record is None or record.token != lease[1]:
        return None
    return record if record.state in (State.PROCESSING, State.COMPLETED) else None


def split_jobs(records: list[Record]) -> list[list[Record]]:
    """The jobs of a micro-batch, split into about `SPLIT_INTO` parts."""
    size = max(1, len(records) // SPLIT_INTO)
    return [records[start : start + size] for start in range(0, len(records), size)]
