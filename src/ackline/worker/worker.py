"""The worker: claims jobs, runs their handlers, settles them, and stops gracefully."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ackline.core.config import suggests_options
from ackline.core.errors import AcklineError, ConfigError, HandlersHang
from ackline.core.limits import require_name
from ackline.maintenance import Maintenance
from ackline.queue import Queue, StopReason
from ackline.queue.consume import new_worker_id
from ackline.queue.handlers import Handler
from ackline.stores.contract import Heartbeat
from ackline.worker.claim_loop import ClaimLoop
from ackline.worker.execute.async_executor import AsyncExecutor
from ackline.worker.execute.executor import Executor, ExecutorContext
from ackline.worker.execute.thread_executor import ThreadExecutor
from ackline.worker.fair_share import FairShare
from ackline.worker.handler_outcome import NO_HOOKS, Hooks
from ackline.worker.heartbeat import HEARTBEAT_TTL, HeartbeatSender
from ackline.worker.held import LeasedJob
from ackline.worker.leased_jobs import LeasedJobs
from ackline.worker.options import (
    require_concurrency,
    require_grace,
    require_handlers,
    require_hooks,
    require_weights,
)
from ackline.worker.outbox import SettleBuffer
from ackline.worker.processes.started_jobs import inherited_writer
from ackline.worker.processes.stop_signals import handle_stop_signals
from ackline.worker.startup_retry import retry_until_available
from ackline.worker.timers import STOP_TIMEOUT, Timers

logger = logging.getLogger("ackline")

INTERRUPT_SECONDS = 2.0
"""Seconds that interrupted handlers have to end after the grace period."""

GIVE_BACK_TIMEOUT = 2.0
"""Seconds that the store has, after a second request to stop, to take what is given back."""


class Worker:
    """Runs the handlers of one or more queues.

    `concurrency` is how many jobs of a queue it works on at once; quick ones are fetched ahead.
    Queues that have more jobs than it can work off get shares by their `weights`, one for each
    queue; equal by default. SIGTERM, SIGINT or SIGHUP stops claiming and gives
    running jobs `grace` seconds; a second one does not wait.

    >>> ackline.Worker(queue, concurrency=64).run()  # doctest: +SKIP
    """

    @suggests_options
    def __init__(
        self,
        *queues: Queue[Any, Any],
        concurrency: int = 16,
        weights: Sequence[float] | None = None,
        grace: float = 30.0,
        id: str | None = None,
        hooks: Hooks = NO_HOOKS,
        maintenance: bool = True,
        recovery: bool = True,
    ) -> None:
        require_handlers(queues)
        require_concurrency(concurrency)
        weights = [1.0] * len(queues) if weights is None else weights
        require_weights(weights, len(queues))
        require_grace(grace)
        require_hooks(hooks)
        self.id = new_worker_id() if id is None else id
        require_name("worker's id", self.id)
        self.queues = queues
        self.concurrency = concurrency
        self.weights = weights
        self.grace = grace
        self._hooks = hooks
        self._runs_maintenance = maintenance
        self._runs_recovery = recovery
        self._maintenance: Maintenance | None = None
        self._runners: list[QueueRunner] = []
        self._stop = threading.Event()
        self._stop_now = threading.Event()
        self._error_lock = threading.Lock()
        self._error: AcklineError | None = None

    def run(self) -> None:
        """Work until a signal or `stop` says otherwise; a store that is down is waited for.

        Raises `HandlersHang` when too many handlers do not stop: only a restart gets rid of them.
        Raises `StoreClosed` when this program has closed the store: that does not pass.
        """
        main = threading.current_thread() is threading.main_thread()
        restore_signals = handle_stop_signals(lambda _number: self.request_stop()) if main else None
        try:
            # A request may have come before the start, as from a parent that is gone.
            retry_until_available(self.start, self._stop)
            # Woken now and then so that signals are seen on every platform. Between two waits,
            # another thread may have stopped the worker and cleared the request again.
            while self._runners and not self._stop.wait(0.5):
                continue
            self.stop()
            if self._error is not None:
                raise self._error
        finally:
            if restore_signals is not None:
                restore_signals()

    def start(self) -> None:
        """Begin to work, in threads of its own."""
        if self._runners:
            raise ConfigError(
                f"worker {self.id} is already running: stop it first, or create another"
            )
        self._error = None
        try:
            self._start_runners()
        except BaseException:
            # Not by `stop`: a request to stop must not be forgotten because the start failed.
            self._shut_down(0.0, 0.0, self._stop_now)
            self._runners = []
            raise
        if self._runs_maintenance:
            self._maintenance = Maintenance(self.queues, recovery=self._runs_recovery)
            self._maintenance.start()
        logger.info("worker %s started on %s", self.id, ", ".join(str(q.key) for q in self.queues))

    def _start_runners(self) -> None:
        shares = FairShare()
        for queue, weight in zip(self.queues, self.weights, strict=True):
            queue.policies.publish()
            self._runners.append(QueueRunner(self, queue, shares, weight))
        for station in self._runners:
            station.start()

    def stop(self) -> None:
        """Stop claiming, let running jobs end within the grace period, release the rest."""
        self._stop.set()
        hurry = self._stop_now
        # In a thread, so that a store which does not answer cannot hold up a stop in a hurry.
        shutdown = threading.Thread(
            target=self._shut_down,
            args=[self.grace, INTERRUPT_SECONDS, hurry],
            name="ackline stop",
            daemon=True,
        )
        shutdown.start()
        while shutdown.is_alive() and not hurry.is_set():
            shutdown.join(0.05)
        shutdown.join(GIVE_BACK_TIMEOUT)
        if shutdown.is_alive():
            logger.error("worker %s gave up waiting for the store; its leases will expire", self.id)
        self._runners, self._maintenance = [], None
        # Not at the start: a request to stop must not be forgotten because it came early.
        self._stop.clear()
        # A new event: threads that are left behind must stay in a hurry.
        self._stop_now = threading.Event()
        logger.info("worker %s stopped", self.id)

    def _shut_down(self, grace: float, last_moment: float, hurry: threading.Event) -> None:
        stations, maintenance = self._runners, self._maintenance
        _for_each_runner(stations, QueueRunner.stop_claiming)
        _wait_for_handlers(stations, grace, hurry)
        _for_each_runner(stations, QueueRunner.interrupt_handlers)
        _wait_for_handlers(stations, last_moment, hurry)
        # All of them before any is waited for: one store may answer, and another not.
        _for_each_runner(stations, QueueRunner.release_all)
        _for_each_runner(stations, QueueRunner.close)
        if maintenance is not None:
            maintenance.stop()

    @property
    def error(self) -> AcklineError | None:
        """Why it has given up and claims no more, since its last start; mostly None.

        `run` raises it. A program that uses `start` has to look here, and stop the worker.
        """
        return self._error

    def stop_with_error(self, trouble: AcklineError) -> None:
        """Claim no more, and make `run` end and raise this: it does not pass."""
        with self._error_lock:
            if self._error is not None:
                return
            self._error = trouble
        logger.error("worker %s stops: %s", self.id, trouble)
        for station in self._runners:
            station.stop_claiming()
        self._stop.set()

    def request_stop(self) -> None:
        """Make `run` stop; called a second time, at once."""
        if self._stop.is_set():
            self._stop_now.set()
        self._stop.set()


def _wait_for_handlers(
    stations: Sequence[QueueRunner], seconds: float, hurry: threading.Event
) -> None:
    """Wait for running jobs, unless there is a hurry."""
    until = time.monotonic() + seconds
    while any(station.busy for station in stations) and time.monotonic() < until:
        if hurry.wait(0.01):
            return


def _for_each_runner(stations: Sequence[QueueRunner], step: Callable[[QueueRunner], None]) -> None:
    for station in stations:
        station.try_step(partial(step, station))


class QueueRunner:
    """Everything that works on one queue."""

    def __init__(
        self, worker: Worker, queue: Queue[Any, Any], shares: FairShare, weight: float
    ) -> None:
        self.queue = queue
        self._stop_worker = worker.stop_with_error
        self._timers = Timers()
        outbox = SettleBuffer(
            queue.store.capabilities.batch_size // 2, lambda: not self._buffered_jobs()
        )
        self._leased = LeasedJobs(queue, outbox, self._submit)
        self._claim_loop = ClaimLoop(
            self._leased,
            worker.id,
            worker.concurrency,
            self._buffered_jobs,
            self._waits_for_cpu,
            shares,
            weight,
            worker.stop_with_error,
        )
        outbox.on_ready(self._claim_loop.wake)
        self._executors = self._make_executors(worker)
        self._buffers = [executor.buffer for executor in self._executors.values()]
        self._heartbeat = HeartbeatSender(
            self._leased,
            _worker_heartbeat(worker, queue),
            self._interrupt,
            self._after_heartbeat,
            self._timers,
            worker.stop_with_error,
        )
        self._stop_checking_handlers = queue.handlers.on_add(self._require_executor)

    def start(self) -> None:
        """Begin to claim and run."""
        for executor in self._executors.values():
            executor.start()
        self._heartbeat.start()
        self._claim_loop.start()

    def stop_claiming(self) -> None:
        """Claim no more, and give back what has not begun."""
        self._claim_loop.stop_claiming()
        self._stop_checking_handlers()
        for executor in self._executors.values():
            self._leased.release(executor.take_buffered())

    @property
    def busy(self) -> bool:
        """Whether a handler runs, or an outcome is still on its way."""
        return bool(self._leased.jobs)

    def interrupt_handlers(self) -> None:
        """Tell every handler that still runs to stop; its job will be released."""
        for held in list(self._leased.jobs):
            if not held.settling:
                held.release_requested = True
                self._interrupt(held, StopReason.WORKER_STOPS)

    def release_all(self) -> None:
        """Release what is left."""
        self._leased.release(list(self._leased.jobs))

    def close(self) -> None:
        """Settle everything, say goodbye."""
        self.try_step(self._end_claim_loop)
        self.try_step(self._claim_loop.listener.close)
        self.try_step(self._heartbeat.stop)
        self.try_step(self._timers.stop)
        for executor in self._executors.values():
            self.try_step(executor.stop)

    def try_step(self, step: Callable[[], None]) -> None:
        """Take one step of a stop; if it fails, the others are still to be taken."""
        try:
            step()
        except Exception:
            logger.exception("queue %s did not shut down cleanly", self.queue.key)

    def _end_claim_loop(self) -> None:
        if not self._claim_loop.stop(timeout=10):
            logger.error("queue %s: the last outcomes could not be stored", self.queue.key)

    def _make_executors(self, worker: Worker) -> dict[bool, Executor]:
        sorts = {self.queue.handlers[kind].is_async for kind in self.queue.handlers.kinds}
        makers: dict[bool, type[Executor]] = {True: AsyncExecutor, False: ThreadExecutor}
        setting = ExecutorContext(
            self._leased.settle_buffer.put,
            worker._hooks,
            self._timers,
            self._claim_loop.before_running,
            inherited_writer(),
        )
        return {sort: makers[sort](worker.concurrency, setting) for sort in sorts}

    def _require_executor(self, handler: Handler) -> None:
        if handler.is_async not in self._executors:
            sort = "async" if handler.is_async else "sync"
            raise ConfigError(
                f"the worker of queue {self.queue.key} was started without {sort} handlers: "
                f"register {handler.function} before starting it"
            )

    def _submit(self, batch: Sequence[LeasedJob]) -> None:
        self._heartbeat.add_lease(min(held.lease for held in batch))
        # Only a job that was claimed alone: others would have to wait for its end.
        if len(batch) == 1 and self._executors[batch[0].handler.is_async].run_inline(batch[0]):
            return
        if len(self._executors) == 1:
            next(iter(self._executors.values())).submit(batch)
            return
        for sort, executor in self._executors.items():
            if mine := [held for held in batch if held.handler.is_async is sort]:
                executor.submit(mine)

    def _buffered_jobs(self) -> int:
        return sum(map(len, self._buffers))

    def _waits_for_cpu(self) -> bool:
        return any(executor.waits_for_cpu for executor in self._executors.values())

    def _interrupt(self, held: LeasedJob, reason: StopReason) -> None:
        executor = self._executors[held.handler.is_async]
        executor.interrupt(held, reason)
        if reason is StopReason.LEASE_LOST:
            # The handler may ignore its signal, and must not keep its lane for ever.
            self._timers.call_later(STOP_TIMEOUT, lambda: executor.give_up_on(held))

    def _after_heartbeat(self) -> None:
        for executor in self._executors.values():
            self._leased.release(executor.take_stale(), "waited too long for a free lane")
            if executor.blocked_by_hung_handlers:
                self._stop_worker(HandlersHang(str(self.queue.key)))


def _worker_heartbeat(worker: Worker, queue: Queue[Any, Any]) -> Heartbeat:
    return Heartbeat(
        id=worker.id,
        host=socket.gethostname(),
        pid=os.getpid(),
        started_at=queue.store.now(),
        concurrency=worker.concurrency,
        kinds=tuple(sorted(queue.handlers.kinds)),
        ttl=HEARTBEAT_TTL,
    )
