"""Moves jobs in batches from the source to the target."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import msgspec

from ackline.core.errors import (
    TRANSIENT_ERRORS,
    AcklineError,
    JobNotFound,
)
from ackline.core.job import Record
from ackline.queue import Queue
from ackline.relay.ledger import Ledger, LedgerChanged, RelayedJobs
from ackline.relay.source import SourceQueue
from ackline.stores.contract import Receipt

logger = logging.getLogger("ackline")

RECOVERY_INTERVAL = 10.0
"""Seconds between checks for jobs that dead relays have left."""

TAKEOVER_DELAY = 0.2
"""Seconds without a write by another relay, after which this one continues."""


class PendingBatch(msgspec.Struct, frozen=True):
    """A batch that is being enqueued in the target."""

    jobs: Sequence[Record]
    settled: RelayedJobs
    result: Future[list[Receipt]]


class Pump:
    """Settles and claims in the source while a batch is enqueued; used by one thread."""

    def __init__(
        self, source: SourceQueue, target: Queue[Any, Any], batch: int, stopping: threading.Event
    ) -> None:
        self.source = source
        self.target = target
        self.ledger = Ledger(source.queue, target)
        self.limit = batch
        self.counts = {"relayed": 0, "duplicates": 0, "replayed": 0, "refused": 0, "redriven": 0}
        self._batch = batch
        self._stopping = stopping
        self._target_thread: ThreadPoolExecutor | None = None
        self._pending: PendingBatch | None = None
        self._settled: dict[str, float] = {}
        self._recovered_at = float("-inf")

    def step(self) -> bool:
        """Await one batch and send the next; False if there was nothing to do."""
        try:
            return self._move_batch()
        except LedgerChanged:
            self._wait_for_other_relay()
            return True

    def finish(self) -> None:
        """Settle the current batch, as far as the stores allow."""
        for step in (
            self._await_batch,
            self._settle_remaining,
            self._trim_ledger,
            self.source.close,
        ):
            try:
                step()
            except (*TRANSIENT_ERRORS, LedgerChanged) as error:
                # A job that is not settled is claimed again, and is then found in the ledger.
                logger.warning(
                    "relay of %s: some jobs are not settled yet: %s", self.source.queue.key, error
                )
        thread, self._target_thread = self._target_thread, None
        if thread is not None:
            thread.shutdown()

    # --- one step ---

    def _move_batch(self) -> bool:
        """Settle and claim in the source, while the previous batch is enqueued in the target."""
        self.source.open()
        self._recover()
        read_count = self.ledger.read_count
        in_flight = self._pending.jobs if self._pending else ()
        jobs, settled = self.source.settle_and_claim(self.limit, in_flight)
        self._settled |= settled
        busy = bool(jobs or in_flight or self.source.busy)
        try:
            self._await_batch()
        except Exception:
            self.source.release(jobs)
            raise
        if jobs:
            self._send_batch(jobs, read_count)
        elif not busy:
            self._trim_ledger()
        return busy

    def _send_batch(self, jobs: Sequence[Record], read_count: int) -> None:
        settled, self._settled = self._settled, {}
        if self._target_thread is None:
            self._target_thread = ThreadPoolExecutor(1, f"ackline relay {self.source.queue.key}")
        result = self._target_thread.submit(self.ledger.enqueue, jobs, settled, read_count)
        self._pending = PendingBatch(jobs, settled, result)

    def _await_batch(self) -> None:
        """Wait until the current batch is enqueued, then have it settled in the source."""
        batch, self._pending = self._pending, None
        if batch is None:
            return
        try:
            receipts = batch.result.result()
        except Exception as error:
            self._settled |= batch.settled
            if not self._refused(batch.jobs, error):
                self.source.release(batch.jobs)
                raise
        else:
            self.limit = min(self._batch, self.limit * 2)
            accepted = sum(receipt.accepted for receipt in receipts)
            self.counts["relayed"] += accepted
            self.counts["duplicates"] += len(receipts) - accepted
            self.counts["replayed"] += len(batch.jobs) - len(receipts)
            self.source.complete(batch.jobs)

    def _refused(self, jobs: Sequence[Record], error: Exception) -> bool:
        """Whether the target refuses only this single job, which then goes to the DLQ."""
        if isinstance(error, LedgerChanged):
            return False
        # Fewer at a time: the target may have room for some, or refuse only one of them.
        self.limit = max(1, self.limit // 2)
        if isinstance(error, TRANSIENT_ERRORS) or len(jobs) > 1 or not self._target_works():
            return False
        logger.error(
            "relay of %s: the target refuses %r: %s", self.source.queue.key, jobs[0].id, error
        )
        self.counts["refused"] += 1
        self.source.bury(jobs[0], error)
        return True

    def _target_works(self) -> bool:
        try:
            self.ledger.read()
            self.ledger.enqueue([], {}, self.ledger.read_count)
        except (AcklineError, LedgerChanged):
            return False
        return True

    def _wait_for_other_relay(self) -> None:
        """Wait until another relay no longer writes to the ledger."""
        before, stamp = "", self.ledger.read().stamp
        while stamp != before and not self._stopping.is_set():
            self._settle_remaining()
            self._stopping.wait(TAKEOVER_DELAY)
            before, stamp = stamp, self.ledger.read().stamp

    # --- recovery ---

    def _recover(self) -> None:
        """Read the ledger if necessary, and regularly take over the jobs of dead relays."""
        is_due = time.monotonic() - self._recovered_at > RECOVERY_INTERVAL
        if is_due:
            self._await_batch()
        if self._pending is None and (is_due or self.ledger.must_read):
            ledger = self.ledger.read()
            if is_due:
                self._take_over_jobs(ledger.jobs)

    def _take_over_jobs(self, relayed: RelayedJobs) -> None:
        settled, cancelled = self.source.settled_for_good(relayed)
        for id in cancelled:
            self._cancel(id)
        self._settled |= settled
        self.counts["redriven"] += self.source.redrive_lost()
        self._recovered_at = time.monotonic()

    def _cancel(self, id: str) -> None:
        """Cancel a job in the target that was cancelled in the source after it was moved."""
        try:
            self.target.cancel(id, by=self.source.id)
        except JobNotFound:
            logger.info(
                "relay of %s: %r was already gone from the target when it was cancelled",
                self.source.queue.key,
                id,
            )

    def _trim_ledger(self) -> None:
        """Remove settled jobs from the ledger."""
        if self._settled:
            if self.ledger.must_read:
                self.ledger.read()
            self.ledger.enqueue([], self._settled, self.ledger.read_count)
            self._settled = {}

    def _settle_remaining(self) -> None:
        self._settled |= self.source.settle_and_claim(0, ())[1]
