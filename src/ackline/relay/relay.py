"""The relay: moves the jobs of one queue to a queue of another store, each exactly once."""

from __future__ import annotations

import logging
import threading
from typing import Any

import msgspec

from ackline.core.backoff import ExponentialDelay
from ackline.core.errors import TRANSIENT_ERRORS, ConfigError
from ackline.core.limits import Seconds, as_seconds, require_lease
from ackline.maintenance import Maintenance
from ackline.queue.queue import Queue, require_queue
from ackline.relay.pump import Pump
from ackline.relay.source import SourceQueue
from ackline.worker.processes.stop_signals import handle_stop_signals

logger = logging.getLogger("ackline")

BATCH = 500
LEASE = 10.0
"""Seconds after which others take over from a dead relay. A batch takes milliseconds."""

RETRY_DELAYS = (0.05, 5.0)
"""First and longest delay in seconds between tries while a store is unavailable."""


class RelayStats(msgspec.Struct, frozen=True, kw_only=True):
    """What a relay has done so far."""

    relayed: int
    """Jobs that the target accepted."""
    duplicates: int
    """Jobs whose id the target already had, live or completed, from elsewhere."""
    replayed: int
    """Jobs that were already in the target, moved by a relay that died before settling them."""
    refused: int
    """Jobs that the target refused: they are in the source's DLQ, with the error."""
    redriven: int
    """Jobs redriven from the source's DLQ, because dead relays had used up their attempts."""
    leases_lost: int
    """Jobs that another relay took over; they were still moved only once."""
    errors: int
    last_error: str


class Relay:
    """Moves the jobs of one queue to a queue of another store, each exactly once.

    Several may run for the same queues; if one dies, another takes over its jobs.

    >>> ackline.Relay(outbox["email"], redis["email"]).run()  # doctest: +SKIP
    """

    def __init__(
        self,
        source: Queue[Any, Any],
        target: Queue[Any, Any],
        *,
        batch: int = BATCH,
        lease: Seconds = LEASE,
        maintenance: bool = True,
    ) -> None:
        for queue in (source, target):
            require_queue("Relay", queue)
        if source.store is target.store and source.key == target.key:
            raise ConfigError(f"source and target are the same queue ({source.key})")
        if batch < 1:
            raise ConfigError(f"batch must be 1 or more, not {batch}")
        seconds = as_seconds(lease)
        require_lease(seconds)
        self.source = source
        self.target = target
        self._stopping = threading.Event()
        self._source = SourceQueue(source, seconds, batch)
        self._pump = Pump(self._source, target, batch, self._stopping)
        self._maintenance = Maintenance([source]) if maintenance else None
        self._errors = 0
        self._last_error = ""

    def run(self) -> None:
        """Move jobs until a stop signal or `request_stop`."""
        main = threading.current_thread() is threading.main_thread()
        restore_signals = handle_stop_signals(lambda _number: self.request_stop()) if main else None
        if self._maintenance is not None:
            self._maintenance.start()
        try:
            while not self._stopping.is_set():
                if not self._step_with_retries() and not self._stopping.is_set():
                    self._source.wait()
            self._pump.finish()
        finally:
            if self._maintenance is not None:
                self._maintenance.stop()
            if restore_signals is not None:
                restore_signals()
            # Not at the start: a request to stop must not be forgotten because it came early.
            self._stopping.clear()

    def drain(self) -> int:
        """Move all jobs that are ready now, and return how many. Errors are raised."""
        before = self.stats().relayed
        try:
            while self._pump.step():
                continue
        finally:
            self._pump.finish()
        return self.stats().relayed - before

    def request_stop(self) -> None:
        """Make `run` stop when the current batch is settled."""
        self._stopping.set()
        self._source.wake()

    def stats(self) -> RelayStats:
        """What has been done so far."""
        return RelayStats(
            **self._pump.counts,
            leases_lost=self._source.leases_lost,
            errors=self._errors,
            last_error=self._last_error,
        )

    def _step_with_retries(self) -> bool:
        """Run one step, retrying while a store is unavailable; False if there was nothing to do."""
        delays = ExponentialDelay(*RETRY_DELAYS)
        while not self._stopping.is_set():
            try:
                return self._pump.step()
            except Exception as error:
                delay = delays.next()
                self._log_error(error, delay)
                self._stopping.wait(delay)
        return False

    def _log_error(self, error: Exception, delay: float) -> None:
        self._errors += 1
        self._last_error = f"{type(error).__name__}: {error}"
        logger.error(
            "relay of %s: %s; retrying in %.2f s (no job is lost)",
            self.source.key,
            error,
            delay,
            exc_info=None if isinstance(error, TRANSIENT_ERRORS) else error,
        )
