"""Moves one batch after the other out of the source and into the target."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import msgspec

from ackline.errors import (
    PASSING,
    AcklineError,
    JobNotFound,
)
from ackline.job import Record
from ackline.queue import Queue
from ackline.relay.intake import Intake
from ackline.relay.ledger import Ledger, Overtaken, Passages
from ackline.stores.base import Receipt

logger = logging.getLogger("ackline")

LOOK_EVERY = 10.0
"""Seconds between looks at what earlier relays have left behind."""

STAND_BY = 0.2
"""Seconds in which other relays write nothing, after which this one goes on."""


class Flight(msgspec.Struct, frozen=True):
    """A batch on its way into the target."""

    jobs: Sequence[Record]
    settled: Passages
    answer: Future[list[Receipt]]


class Crossing:
    """A relay's steps, and what it has under way; to be used by one thread."""

    def __init__(
        self, intake: Intake, target: Queue[Any, Any], batch: int, stopping: threading.Event
    ) -> None:
        self.intake = intake
        self.target = target
        self.ledger = Ledger(intake.queue, target)
        self.limit = batch
        self.counts = {"relayed": 0, "known": 0, "replayed": 0, "refused": 0, "revived": 0}
        self._batch = batch
        self._stopping = stopping
        self._carrier: ThreadPoolExecutor | None = None
        self._flight: Flight | None = None
        self._settled: dict[str, float] = {}
        self._looked_at = float("-inf")

    def turn(self) -> bool:
        """Move all jobs under way by one step; False if there was nothing to do."""
        try:
            return self._step()
        except Overtaken:
            self._stand_by()
            return True

    def finish(self) -> None:
        """Settle what is under way, as far as the stores let it."""
        for last in (self._land, self._settle_rest, self._tidy, self.intake.close):
            try:
                last()
            except (*PASSING, Overtaken) as error:
                # A job that is not settled comes again, and the ledger knows it then.
                logger.warning("relay of %s: not all is settled: %s", self.intake.queue.key, error)
        carrier, self._carrier = self._carrier, None
        if carrier is not None:
            carrier.shutdown()

    # --- one step ---

    def _step(self) -> bool:
        """Settle and claim in the source, while the batch before goes into the target."""
        self.intake.open()
        self._look_around()
        reading = self.ledger.reading
        flying = self._flight.jobs if self._flight else ()
        jobs, settled = self.intake.exchange(self.limit, flying)
        self._settled |= settled
        busy = bool(jobs or flying or self.intake.busy)
        try:
            self._land()
        except Exception:
            self.intake.release(jobs)
            raise
        if jobs:
            self._launch(jobs, reading)
        elif not busy:
            self._tidy()
        return busy

    def _launch(self, jobs: Sequence[Record], reading: int) -> None:
        settled, self._settled = self._settled, {}
        if self._carrier is None:
            self._carrier = ThreadPoolExecutor(1, f"ackline relay {self.intake.queue.key}")
        answer = self._carrier.submit(self.ledger.pass_on, jobs, settled, reading)
        self._flight = Flight(jobs, settled, answer)

    def _land(self) -> None:
        """Wait for the batch that is on its way, and have it settled in the source."""
        flight, self._flight = self._flight, None
        if flight is None:
            return
        try:
            receipts = flight.answer.result()
        except Exception as error:
            self._settled |= flight.settled
            if not self._refused(flight.jobs, error):
                self.intake.release(flight.jobs)
                raise
        else:
            self.limit = min(self._batch, self.limit * 2)
            accepted = sum(receipt.accepted for receipt in receipts)
            self.counts["relayed"] += accepted
            self.counts["known"] += len(receipts) - accepted
            self.counts["replayed"] += len(flight.jobs) - len(receipts)
            self.intake.complete(flight.jobs)

    def _refused(self, jobs: Sequence[Record], error: Exception) -> bool:
        """Whether the target refuses a single job, and nothing else; then it goes to the DLQ."""
        if isinstance(error, Overtaken):
            return False
        # Fewer at a time: there may be room for some, or one among them that cannot be taken.
        self.limit = max(1, self.limit // 2)
        if isinstance(error, PASSING) or len(jobs) > 1 or not self._target_works():
            return False
        logger.error(
            "relay of %s: the target refuses %r: %s", self.intake.queue.key, jobs[0].id, error
        )
        self.counts["refused"] += 1
        self.intake.bury(jobs[0], error)
        return True

    def _target_works(self) -> bool:
        try:
            self.ledger.read()
            self.ledger.pass_on([], {}, self.ledger.reading)
        except (AcklineError, Overtaken):
            return False
        return True

    def _stand_by(self) -> None:
        """Another relay is at work: wait until it writes to the ledger no more."""
        before, stamp = "", self.ledger.read().stamp
        while stamp != before and not self._stopping.is_set():
            self._settle_rest()
            self._stopping.wait(STAND_BY)
            before, stamp = stamp, self.ledger.read().stamp

    # --- what is left ---

    def _look_around(self) -> None:
        """Read the ledger if need be; now and then take over what relays that died have left."""
        late = time.monotonic() - self._looked_at > LOOK_EVERY
        if late:
            self._land()
        if self._flight is None and (late or self.ledger.broken):
            page = self.ledger.read()
            if late:
                self._take_over(page.open)

    def _take_over(self, passed_on: Passages) -> None:
        over, cancelled = self.intake.over(passed_on)
        for id in cancelled:
            self._cancel(id)
        self._settled |= over
        self.counts["revived"] += self.intake.revive()
        self._looked_at = time.monotonic()

    def _cancel(self, id: str) -> None:
        """Cancel a job in the target, as it was cancelled in the source after it was passed on."""
        try:
            self.target.cancel(id, by=self.intake.id)
        except JobNotFound:
            logger.info("relay of %s: %r was cancelled too late", self.intake.queue.key, id)

    def _tidy(self) -> None:
        """Remove settled jobs from the ledger."""
        if self._settled:
            if self.ledger.broken:
                self.ledger.read()
            self.ledger.pass_on([], self._settled, self.ledger.reading)
            self._settled = {}

    def _settle_rest(self) -> None:
        self._settled |= self.intake.exchange(0, ())[1]
