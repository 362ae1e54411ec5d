"""Moves one batch after the other out of the source and into the target."""

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
"""Seconds between looks at what earlier relays have left behind."""

TAKEOVER_DELAY = 0.2
"""Seconds in which other relays write nothing, after which this one goes on."""


class PendingBatch(msgspec.Struct, frozen=True):
    """A batch on its way into the target."""

    jobs: Sequence[Record]
    settled: RelayedJobs
    answer: Future[list[Receipt]]


class Pump:
    """A relay's steps, and what it has under way; to be used by one thread."""

    def __init__(
        self, intake: SourceQueue, target: Queue[Any, Any], batch: int, stopping: threading.Event
    ) -> None:
        self.source = intake
        self.target = target
        self.ledger = Ledger(intake.queue, target)
        self.limit = batch
        self.counts = {"relayed": 0, "duplicates": 0, "replayed": 0, "refused": 0, "redriven": 0}
        self._batch = batch
        self._stopping = stopping
        self._target_thread: ThreadPoolExecutor | None = None
        self._pending: PendingBatch | None = None
        self._settled: dict[str, float] = {}
        self._recovered_at = float("-inf")

    def step(self) -> bool:
        """Move all jobs under way by one step; False if there was nothing to do."""
        try:
            return self._move_batch()
        except LedgerChanged:
            self._wait_for_other_relay()
            return True

    def finish(self) -> None:
        """Settle what is under way, as far as the stores let it."""
        for last in (
            self._await_batch,
            self._settle_remaining,
            self._trim_ledger,
            self.source.close,
        ):
            try:
                last()
            except (*TRANSIENT_ERRORS, LedgerChanged) as error:
                # A job that is not settled comes again, and the ledger knows it then.
                logger.warning("relay of %s: not all is settled: %s", self.source.queue.key, error)
        carrier, self._target_thread = self._target_thread, None
        if carrier is not None:
            carrier.shutdown()

    # --- one step ---

    def _move_batch(self) -> bool:
        """Settle and claim in the source, while the batch before goes into the target."""
        self.source.open()
        self._recover()
        reading = self.ledger.read_count
        flying = self._pending.jobs if self._pending else ()
        jobs, settled = self.source.settle_and_claim(self.limit, flying)
        self._settled |= settled
        busy = bool(jobs or flying or self.source.busy)
        try:
            self._await_batch()
        except Exception:
            self.source.release(jobs)
            raise
        if jobs:
            self._send_batch(jobs, reading)
        elif not busy:
            self._trim_ledger()
        return busy

    def _send_batch(self, jobs: Sequence[Record], reading: int) -> None:
        settled, self._settled = self._settled, {}
        if self._target_thread is None:
            self._target_thread = ThreadPoolExecutor(1, f"ackline relay {self.source.queue.key}")
        answer = self._target_thread.submit(self.ledger.enqueue, jobs, settled, reading)
        self._pending = PendingBatch(jobs, settled, answer)

    def _await_batch(self) -> None:
        """Wait for the batch that is on its way, and have it settled in the source."""
        flight, self._pending = self._pending, None
        if flight is None:
            return
        try:
            receipts = flight.answer.result()
        except Exception as error:
            self._settled |= flight.settled
            if not self._refused(flight.jobs, error):
                self.source.release(flight.jobs)
                raise
        else:
            self.limit = min(self._batch, self.limit * 2)
            accepted = sum(receipt.accepted for receipt in receipts)
            self.counts["relayed"] += accepted
            self.counts["duplicates"] += len(receipts) - accepted
            self.counts["replayed"] += len(flight.jobs) - len(receipts)
            self.source.complete(flight.jobs)

    def _refused(self, jobs: Sequence[Record], error: Exception) -> bool:
        """Whether the target refuses a single job, and nothing else; then it goes to the DLQ."""
        if isinstance(error, LedgerChanged):
            return False
        # Fewer at a time: there may be room for some, or one among them that cannot be taken.
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
        """Another relay is at work: wait until it writes to the ledger no more."""
        before, stamp = "", self.ledger.read().stamp
        while stamp != before and not self._stopping.is_set():
            self._settle_remaining()
            self._stopping.wait(TAKEOVER_DELAY)
            before, stamp = stamp, self.ledger.read().stamp

    # --- what is left ---

    def _recover(self) -> None:
        """Read the ledger if need be; now and then take over what relays that died have left."""
        late = time.monotonic() - self._recovered_at > RECOVERY_INTERVAL
        if late:
            self._await_batch()
        if self._pending is None and (late or self.ledger.must_read):
            page = self.ledger.read()
            if late:
                self._take_over_jobs(page.jobs)

    def _take_over_jobs(self, passed_on: RelayedJobs) -> None:
        over, cancelled = self.source.settled_for_good(passed_on)
        for id in cancelled:
            self._cancel(id)
        self._settled |= over
        self.counts["redriven"] += self.source.redrive_lost()
        self._recovered_at = time.monotonic()

    def _cancel(self, id: str) -> None:
        """Cancel a job in the target, as it was cancelled in the source after it was passed on."""
        try:
            self.target.cancel(id, by=self.source.id)
        except JobNotFound:
            logger.info("relay of %s: %r was cancelled too late", self.source.queue.key, id)

    def _trim_ledger(self) -> None:
        """Remove settled jobs from the ledger."""
        if self._settled:
            if self.ledger.must_read:
                self.ledger.read()
            self.ledger.enqueue([], self._settled, self.ledger.read_count)
            self._settled = {}

    def _settle_remaining(self) -> None:
        self._settled |= self.source.settle_and_claim(0, ())[1]
