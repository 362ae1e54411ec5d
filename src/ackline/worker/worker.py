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

from ackline.config import hinting
from ackline.errors import AcklineError, ConfigError, HandlersHang
from ackline.limits import require_name
from ackline.maintenance import Maintenance
from ackline.queue import Queue, StopReason
from ackline.queue.consumer import worker_id
from ackline.queue.handlers import Handler
from ackline.stores.base import WorkerBeat
from ackline.worker.begun import inherited_board
from ackline.worker.claim_loop import ClaimLoop
from ackline.worker.executor import Executor, Setting
from ackline.worker.heartbeat import ALIVE_FOR, Heartbeat
from ackline.worker.held import Held
from ackline.worker.lanes import ThreadExecutor
from ackline.worker.leased_jobs import LeasedJobs
from ackline.worker.loop import LoopExecutor
from ackline.worker.options import (
    require_concurrency,
    require_grace,
    require_handled,
    require_hooks,
    require_weights,
)
from ackline.worker.outbox import Outbox
from ackline.worker.patience import keep_trying
from ackline.worker.running import NO_HOOKS, Hooks
from ackline.worker.shares import Shares
from ackline.worker.signals import hear_signals
from ackline.worker.timekeeper import GIVE_UP, Timekeeper

logger = logging.getLogger("ackline")

LAST_MOMENT = 2.0
"""Seconds that interrupted handlers have to end after the grace period."""

AT_ONCE = 2.0
"""Seconds that the store has, after a second request to stop, to take what is given back."""


class Worker:
    """Runs the handlers of one or more queues.

    `concurrency` is how many jobs of a queue it works on at once; quick ones are fetched ahead.
    Queues that have more jobs than it can work off get shares by their `weights`, one for each
    queue; equal by default. SIGTERM, SIGINT or SIGHUP stops claiming and gives
    running jobs `grace` seconds; a second one does not wait.

    >>> ackline.Worker(queue, concurrency=64).run()  # doctest: +SKIP
    """

    @hinting
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
        require_handled(queues)
        require_concurrency(concurrency)
        weights = [1.0] * len(queues) if weights is None else weights
        require_weights(weights, len(queues))
        require_grace(grace)
        require_hooks(hooks)
        self.id = worker_id() if id is None else id
        require_name("worker's id", self.id)
        self.queues = queues
        self.concurrency = concurrency
        self.weights = weights
        self.grace = grace
        self._hooks = hooks
        self._maintains = maintenance
        self._recovers = recovery
        self._maintenance: Maintenance | None = None
        self._stations: list[Station] = []
        self._stop = threading.Event()
        self._hurry = threading.Event()
        self._giving_up = threading.Lock()
        self._trouble: AcklineError | None = None

    def run(self) -> None:
        """Work until a signal or `stop` says otherwise; a store that is down is waited for.

        Raises `HandlersHang` when too many handlers do not stop: only a restart gets rid of them.
        Raises `StoreClosed` when this program has closed the store: that does not pass.
        """
        main = threading.current_thread() is threading.main_thread()
        deafen = hear_signals(lambda _number: self.request_stop()) if main else None
        try:
            # A request may have come before the start, as from a parent that is gone.
            keep_trying(self.start, self._stop)
            # Woken now and then so that signals are seen on every platform. Between two waits,
            # another thread may have stopped the worker and cleared the request again.
            while self._stations and not self._stop.wait(0.5):
                continue
            self.stop()
            if self._trouble is not None:
                raise self._trouble
        finally:
            if deafen is not None:
                deafen()

    def start(self) -> None:
        """Begin to work, in threads of its own."""
        if self._stations:
            raise ConfigError(
                f"worker {self.id} is already running: stop it first, or create another"
            )
        self._trouble = None
        try:
            self._start_stations()
        except BaseException:
            # Not by `stop`: a request to stop must not be forgotten because the start failed.
            self._leave(0.0, 0.0, self._hurry)
            self._stations = []
            raise
        if self._maintains:
            self._maintenance = Maintenance(self.queues, recovery=self._recovers)
            self._maintenance.start()
        logger.info("worker %s started on %s", self.id, ", ".join(str(q.key) for q in self.queues))

    def _start_stations(self) -> None:
        shares = Shares()
        for queue, weight in zip(self.queues, self.weights, strict=True):
            queue.policies.publish()
            self._stations.append(Station(self, queue, shares, weight))
        for station in self._stations:
            station.start()

    def stop(self) -> None:
        """Stop claiming, let running jobs end within the grace period, release the rest."""
        self._stop.set()
        hurry = self._hurry
        # In a thread, so that a store which does not answer cannot hold up a stop in a hurry.
        leaving = threading.Thread(
            target=self._leave,
            args=[self.grace, LAST_MOMENT, hurry],
            name="ackline stop",
            daemon=True,
        )
        leaving.start()
        while leaving.is_alive() and not hurry.is_set():
            leaving.join(0.05)
        leaving.join(AT_ONCE)
        if leaving.is_alive():
            logger.error("worker %s gave up waiting for the store; its leases will expire", self.id)
        self._stations, self._maintenance = [], None
        # Not at the start: a request to stop must not be forgotten because it came early.
        self._stop.clear()
        # A new event: threads that are left behind must stay in a hurry.
        self._hurry = threading.Event()
        logger.info("worker %s stopped", self.id)

    def _leave(self, grace: float, last_moment: float, hurry: threading.Event) -> None:
        stations, maintenance = self._stations, self._maintenance
        _each(stations, Station.stop_claiming)
        _let_end(stations, grace, hurry)
        _each(stations, Station.interrupt_all)
        _let_end(stations, last_moment, hurry)
        # All of them before any is waited for: one store may answer, and another not.
        _each(stations, Station.give_back)
        _each(stations, Station.close)
        if maintenance is not None:
            maintenance.stop()

    @property
    def trouble(self) -> AcklineError | None:
        """Why it has given up and claims no more, since its last start; mostly None.

        `run` raises it. A program that uses `start` has to look here, and stop the worker.
        """
        return self._trouble

    def give_up(self, trouble: AcklineError) -> None:
        """Claim no more, and make `run` end and raise this: it does not pass."""
        with self._giving_up:
            if self._trouble is not None:
                return
            self._trouble = trouble
        logger.error("worker %s stops: %s", self.id, trouble)
        for station in self._stations:
            station.stop_claiming()
        self._stop.set()

    def request_stop(self) -> None:
        """Make `run` stop; called a second time, at once."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()


def _let_end(stations: Sequence[Station], seconds: float, hurry: threading.Event) -> None:
    """Wait for running jobs, unless there is a hurry."""
    until = time.monotonic() + seconds
    while any(station.busy for station in stations) and time.monotonic() < until:
        if hurry.wait(0.01):
            return


def _each(stations: Sequence[Station], step: Callable[[Station], None]) -> None:
    for station in stations:
        station.attempt(partial(step, station))


class Station:
    """Everything that works on one queue."""

    def __init__(
        self, worker: Worker, queue: Queue[Any, Any], shares: Shares, weight: float
    ) -> None:
        self.queue = queue
        self._give_up = worker.give_up
        self._timekeeper = Timekeeper()
        outbox = Outbox(queue.store.capabilities.batch // 2, lambda: not self._unstarted())
        self._leased = LeasedJobs(queue, outbox, self._submit)
        self._claim_loop = ClaimLoop(
            self._leased,
            worker.id,
            worker.concurrency,
            self._unstarted,
            self._waits_for_processor,
            shares,
            weight,
            worker.give_up,
        )
        outbox.on_enough(self._claim_loop.wake)
        self._executors = self._make_executors(worker)
        self._buffers = [executor.buffer for executor in self._executors.values()]
        self._heartbeat = Heartbeat(
            self._leased,
            _beat(worker, queue),
            self._interrupt,
            self._on_beat,
            self._timekeeper,
            worker.give_up,
        )
        self._accept_any_handler = queue.handlers.ask_before_adding(self._require_executor)

    def start(self) -> None:
        """Begin to claim and run."""
        for executor in self._executors.values():
            executor.start()
        self._heartbeat.start()
        self._claim_loop.start()

    def stop_claiming(self) -> None:
        """Claim no more, and give back what has not begun."""
        self._claim_loop.stop_claiming()
        self._accept_any_handler()
        for executor in self._executors.values():
            self._leased.give_back(executor.take_unstarted())

    @property
    def busy(self) -> bool:
        """Whether a handler runs, or an outcome is still on its way."""
        return bool(self._leased.held)

    def interrupt_all(self) -> None:
        """Tell every handler that still runs to stop; its job will be released."""
        for held in list(self._leased.held):
            if not held.settling:
                held.releasing = True
                self._interrupt(held, StopReason.WORKER_STOPS)

    def give_back(self) -> None:
        """Release what is left."""
        self._leased.give_back(list(self._leased.held))

    def close(self) -> None:
        """Settle everything, say goodbye."""
        self.attempt(self._end_claim_loop)
        self.attempt(self._claim_loop.listener.close)
        self.attempt(self._heartbeat.stop)
        self.attempt(self._timekeeper.stop)
        for executor in self._executors.values():
            self.attempt(executor.stop)

    def attempt(self, step: Callable[[], None]) -> None:
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
        makers: dict[bool, type[Executor]] = {True: LoopExecutor, False: ThreadExecutor}
        setting = Setting(
            self._leased.outbox.put,
            worker._hooks,
            self._timekeeper,
            self._claim_loop.before_running,
            inherited_board(),
        )
        return {sort: makers[sort](worker.concurrency, setting) for sort in sorts}

    def _require_executor(self, handler: Handler) -> None:
        if handler.is_async not in self._executors:
            sort = "async" if handler.is_async else "sync"
            raise ConfigError(
                f"the worker of queue {self.queue.key} was started without {sort} handlers: "
                f"register {handler.function} before starting it"
            )

    def _submit(self, batch: Sequence[Held]) -> None:
        self._heartbeat.expect(min(held.lease for held in batch))
        # Only a job that was claimed alone: others would have to wait for its end.
        if len(batch) == 1 and self._executors[batch[0].handler.is_async].run_alone(batch[0]):
            return
        if len(self._executors) == 1:
            next(iter(self._executors.values())).submit(batch)
            return
        for sort, executor in self._executors.items():
            if mine := [held for held in batch if held.handler.is_async is sort]:
                executor.submit(mine)

    def _unstarted(self) -> int:
        return sum(map(len, self._buffers))

    def _waits_for_processor(self) -> bool:
        return any(executor.waits_for_processor for executor in self._executors.values())

    def _interrupt(self, held: Held, reason: StopReason) -> None:
        executor = self._executors[held.handler.is_async]
        executor.interrupt(held, reason)
        if reason is StopReason.LEASE_LOST:
            # The handler may ignore its signal, and must not keep its lane for ever.
            self._timekeeper.call_later(GIVE_UP, lambda: executor.write_off(held))

    def _on_beat(self) -> None:
        for executor in self._executors.values():
            self._leased.give_back(executor.take_stale(), "waited too long for a free lane")
            if executor.stuck:
                self._give_up(HandlersHang(str(self.queue.key)))


def _beat(worker: Worker, queue: Queue[Any, Any]) -> WorkerBeat:
    return WorkerBeat(
        id=worker.id,
        host=socket.gethostname(),
        pid=os.getpid(),
        started_at=queue.store.now(),
        concurrency=worker.concurrency,
        kinds=tuple(sorted(queue.handlers.kinds)),
        ttl=ALIVE_FOR,
    )
