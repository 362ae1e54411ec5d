"""The worker: claims jobs, runs their handlers, settles them, and stops gracefully."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

from ackline.errors import ConfigError
from ackline.maintenance import Maintenance
from ackline.queue import Queue, StopReason
from ackline.queue.consumer import worker_id
from ackline.stores.base import WorkerBeat
from ackline.worker.courier import Courier
from ackline.worker.executor import Executor, LoopExecutor, ThreadExecutor
from ackline.worker.heartbeat import ALIVE_FOR, Heartbeat
from ackline.worker.held import Held
from ackline.worker.holdings import Holdings
from ackline.worker.patience import keep_trying
from ackline.worker.running import NO_HOOKS, Hooks
from ackline.worker.signals import hear_signals
from ackline.worker.timekeeper import GIVE_UP, Timekeeper

logger = logging.getLogger("ackline")

COURIERS = 2
"""Threads that carry outcomes and claims for each queue: one waits while another carries."""

LAST_MOMENT = 2.0
"""Seconds that interrupted handlers have to end after the grace period."""


class Worker:
    """Runs the handlers of one or more queues.

    `concurrency` is how many jobs it works on at once; quick ones are fetched ahead. SIGTERM,
    SIGINT or SIGHUP stops claiming and gives running jobs `grace` seconds; a second one
    does not wait.

    >>> ackline.Worker(queue, concurrency=64).run()  # doctest: +SKIP
    """

    def __init__(
        self,
        *queues: Queue[Any, Any],
        concurrency: int = 16,
        grace: float = 30.0,
        id: str | None = None,
        hooks: Hooks = NO_HOOKS,
        maintenance: bool = True,
        recovery: bool = True,
    ) -> None:
        if not queues:
            raise ConfigError("a worker needs at least one queue")
        for queue in queues:
            if not isinstance(queue, Queue):
                raise ConfigError(f"a worker takes queues, as from open(url)[name], not {queue!r}")
            if not queue.handlers:
                raise ConfigError(f"queue {queue.key} has no handler: add one with @queue.handler")
        if concurrency < 1:
            raise ConfigError(f"concurrency must be at least 1, not {concurrency}")
        self.id = id or worker_id()
        self.queues = queues
        self.concurrency = concurrency
        self.grace = grace
        self._hooks = hooks
        self._maintains = maintenance
        self._recovers = recovery
        self._maintenance: Maintenance | None = None
        self._stations: list[Station] = []
        self._stop = threading.Event()
        self._hurry = threading.Event()
        self._signals = 0

    def run(self) -> None:
        """Work until a signal or `stop` says otherwise; a store that is down is waited for."""
        main = threading.current_thread() is threading.main_thread()
        deafen = hear_signals(lambda _number: self.request_stop()) if main else None
        try:
            # A request may have come before the start, as from a parent that is gone.
            keep_trying(self.start, self._stop)
            # Woken now and then so that signals are seen on every platform.
            while not self._stop.wait(0.5):
                continue
            self.stop()
        finally:
            if deafen is not None:
                deafen()

    def start(self) -> None:
        """Begin to work, in threads of its own."""
        if self._stations:
            raise ConfigError(f"worker {self.id} works already; stop it first, or make another")
        try:
            self._start_stations()
        except BaseException:
            # Not by `stop`: a request to stop must not be forgotten because the start failed.
            self._leave(grace=0.0, last_moment=0.0)
            raise
        if self._maintains:
            self._maintenance = Maintenance(self.queues, recovery=self._recovers)
            self._maintenance.start()
        logger.info("worker %s started on %s", self.id, ", ".join(str(q.key) for q in self.queues))

    def _start_stations(self) -> None:
        for queue in self.queues:
            queue.publish_policies()
            self._stations.append(Station(self, queue))
        for station in self._stations:
            station.start()

    def stop(self) -> None:
        """Stop claiming, let running jobs end within the grace period, release the rest."""
        self._stop.set()
        self._leave(self.grace, LAST_MOMENT)
        # Not at the start: a request to stop must not be forgotten because it came early.
        self._stop.clear()
        self._hurry.clear()
        logger.info("worker %s stopped", self.id)

    def _leave(self, grace: float, last_moment: float) -> None:
        for station in self._stations:
            station.stop_claiming()
        if self._maintenance is not None:
            self._maintenance.stop()
            self._maintenance = None
        until = time.monotonic() + grace
        while any(s.busy for s in self._stations) and time.monotonic() < until:
            if self._hurry.wait(0.01):
                break
        for station in self._stations:
            station.interrupt_all()
        last = time.monotonic() + (0.0 if self._hurry.is_set() else last_moment)
        while any(s.busy for s in self._stations) and time.monotonic() < last:
            time.sleep(0.01)
        stations, self._stations = self._stations, []
        for station in stations:
            try:
                station.close()
            except Exception:
                logger.exception("queue %s could not be left cleanly", station.queue.key)

    def request_stop(self) -> None:
        """Make `run` stop; called a second time, at once."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()


class Station:
    """All that works on one queue."""

    def __init__(self, worker: Worker, queue: Queue[Any, Any]) -> None:
        self.queue = queue
        self._timekeeper = Timekeeper()
        self._holdings = Holdings(
            queue,
            worker.id,
            worker.concurrency,
            self._submit,
            self._unstarted,
        )
        self._executors = self._make_executors(worker)
        self._couriers = [
            Courier(self._holdings, f"ackline courier {n} {queue.key}") for n in range(COURIERS)
        ]
        self._holdings.outbox.on_enough(self._wake_courier)
        self._heartbeat = Heartbeat(
            self._holdings, _beat(worker, queue), self._interrupt, self._on_beat
        )

    def start(self) -> None:
        """Begin to claim and run."""
        for executor in self._executors.values():
            executor.start()
        self._heartbeat.start()
        for courier in self._couriers:
            courier.start()

    def stop_claiming(self) -> None:
        """Claim no more, and give back what has not begun."""
        self._holdings.claiming = False
        for executor in self._executors.values():
            self._holdings.give_back(executor.take_unstarted())

    @property
    def busy(self) -> bool:
        """Whether a handler runs, or an outcome is still on its way."""
        return bool(self._holdings.held)

    def interrupt_all(self) -> None:
        """Tell every handler that still runs to stop; its job will be released."""
        for held in list(self._holdings.held):
            if not held.settling:
                held.releasing = True
                self._interrupt(held, StopReason.WORKER_STOPS)

    def close(self) -> None:
        """Release what is left, settle everything, say goodbye."""
        self._holdings.give_back(list(self._holdings.held))
        for courier in self._couriers:
            courier.stop()
        joined = [courier.join(timeout=10) for courier in self._couriers]
        if not all(joined):
            logger.error("queue %s: the last outcomes could not be stored", self.queue.key)
        self._heartbeat.stop()
        self._timekeeper.stop()
        for executor in self._executors.values():
            executor.stop()

    def _make_executors(self, worker: Worker) -> dict[bool, Executor]:
        sorts = {self.queue.handlers[kind].is_async for kind in self.queue.handlers.kinds}
        makers: dict[bool, type[Executor]] = {True: LoopExecutor, False: ThreadExecutor}
        put = self._holdings.outbox.put
        return {
            sort: makers[sort](worker.concurrency, put, worker._hooks, self._timekeeper)
            for sort in sorts
        }

    def _submit(self, batch: Sequence[Held]) -> None:
        self._heartbeat.expect(min(held.lease for held in batch))
        if len(self._executors) == 1:
            next(iter(self._executors.values())).submit(batch)
            return
        for sort, executor in self._executors.items():
            if mine := [held for held in batch if held.handler.is_async is sort]:
                executor.submit(mine)

    def _unstarted(self) -> int:
        return sum(len(executor.buffer) for executor in self._executors.values())

    def _interrupt(self, held: Held, reason: StopReason) -> None:
        executor = self._executors[held.handler.is_async]
        executor.interrupt(held, reason)
        if reason is StopReason.LEASE_LOST:
            # It may not listen, and must not keep its lane for ever.
            self._timekeeper.call_later(GIVE_UP, lambda: executor.write_off(held))

    def _on_beat(self) -> None:
        for executor in self._executors.values():
            self._holdings.give_back(executor.take_stale(), "waited too long for a free lane")

    def _wake_courier(self) -> None:
        idle = [courier for courier in self._couriers if courier.idle]
        # Rather one that rests: the one that listens goes on waiting for jobs.
        for courier in sorted(idle, key=lambda one: one.listening)[:1] or self._couriers:
            courier.wake()


def _beat(worker: Worker, queue: Queue[Any, Any]) -> WorkerBeat:
    return WorkerBeat(
        id=worker.id,
        host=socket.gethostname(),
        pid=os.getpid(),
        started_at=queue.store.info().now,
        concurrency=worker.concurrency,
        kinds=tuple(sorted(queue.handlers.kinds)),
        ttl=ALIVE_FOR,
    )
