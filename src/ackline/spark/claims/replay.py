"""Micro-batches that are begun again: which of their jobs are still the stream's."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from typing import Any

from ackline.job import Record, State
from ackline.queue import Queue
from ackline.spark.claims.keeper import LeaseKeeper
from ackline.spark.claims.manifests import Lease, Manifest
from ackline.spark.errors import StreamMismatch

logger = logging.getLogger("ackline")

CHUNK = 1000
"""Jobs per round trip."""

PIECES = 100
"""Into how many pieces a micro-batch that never ends is cut."""


class Replay:
    """Finds the jobs of manifests that an earlier driver, or this one, has saved."""

    def __init__(self, queue: Queue[Any, Any], keeper: LeaseKeeper, stream: str) -> None:
        self._queue = queue
        self._keeper = keeper
        self._stream = stream

    def alive(self, manifest: Manifest) -> list[Record]:
        """The jobs that are still leased to the stream, or were completed by it.

        A lease that has lapsed is taken back at once: from now on no one can complete under it a
        job that this micro-batch does not have any more, so each job is in just one of them.
        """
        lost = self._keeper.extend(manifest.leases)
        self._expire(lost)
        self._keeper.hold(set(manifest.leases) - lost)
        ours = (State.PROCESSING, State.COMPLETED)
        found = [
            record
            for (_, token), record in self._look_up(manifest.leases)
            if record is not None and record.token == token and record.state in ours
        ]
        if gone := len(manifest.leases) - len(found):
            logger.warning(
                "stream %r: the leases of %d jobs of micro-batch %d lapsed while no driver ran; "
                "they are left out of it, and will be delivered again",
                self._stream,
                gone,
                manifest.batch,
            )
        return found

    def done(self, manifest: Manifest) -> list[Record]:
        """The jobs of a micro-batch that was settled already; Spark may go back a few."""
        found = []
        for (id, token), record in self._look_up(manifest.leases):
            if record is None:
                raise StreamMismatch(
                    f"stream {self._stream!r}: micro-batch {manifest.batch} is to be read again, "
                    f"but its job {id!r} was completed and is not kept any longer. Raise keepFor"
                )
            if record.token == token and record.state is State.COMPLETED:
                found.append(record)
        return found

    def _expire(self, lost: Collection[Lease]) -> None:
        reason = "its driver was away for longer than the lease"
        while lapsed := [
            record
            for (_, token), record in self._look_up(tuple(lost))
            if record is not None and record.token == token and record.state is State.PROCESSING
        ]:
            self._queue.expire(lapsed, reason)

    def _look_up(self, leases: tuple[Lease, ...]) -> Iterator[tuple[Lease, Record | None]]:
        for start in range(0, len(leases), CHUNK):
            chunk = leases[start : start + CHUNK]
            records = self._queue.store.get(self._queue.key, [id for id, _ in chunk])
            yield from zip(chunk, records, strict=True)


def cut_up(records: list[Record]) -> tuple[list[Record], list[list[Record]]]:
    """The first hundredth of a micro-batch, and the others; of a single job there are no others."""
    size = max(1, len(records) // PIECES)
    pieces = [records[start : start + size] for start in range(0, len(records), size)]
    return pieces[0], pieces[1:]
