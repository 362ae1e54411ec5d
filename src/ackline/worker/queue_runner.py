"""Everything in a worker that works one queue: its claim loop, executors and heartbeat."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ackline.core.errors import AcklineError, ConfigError, HandlersHang
from ackline.core.job import QueueKey
from ackline.queue import Queue, StopReason
from ackline.queue.handlers import Handler
from ackline.stores.contract import Heartbeat
from ackline.worker.claim_loop import ClaimLoop
from ackline.worker.execute.async_executor import AsyncExecutor
from ackline.worker.execute.executor import Executor, ExecutorContext
from ackline.worker.execute.handler_loop import HandlerLoop
from ackline.worker.execute.thread_executor import ThreadExecutor
from ackline.worker.fair_share import FairShare
from ackline.worker.heartbeat import HeartbeatSender
from ackline.worker.hooks import Hooks
from ackline.worker.job_log import JobLog
from ackline.worker.leased_jobs import JobObserver, LeasedJob, LeasedJobs, SettleBuffer
from ackline.worker.lifespan import Resources
from ackline.worker.processes.started_jobs import inherited_writer
from ackline.worker.timers import STOP_TIMEOUT, Timers

logger = logging.getLogger("ackline")


class QueueStats(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker does with one of its queues."""

    key: QueueKey
    concurrency: int
    running: int
    """Handlers that are running."""
    prefetched: int
    """Leased jobs that wait for a free handler."""
    claims: int
    """Claims so far."""
    claimed_jobs: int
    """Jobs that it has got so far."""
    heartbeat_age: float
    """Seconds since the store accepted a heartbeat."""


class QueueRunner:
    """Claims, runs and settles the jobs of one queue."""

    def __init__(
        self,
        queue: Queue[Any, Any],
        *,
        worker_id: str,
        concurrency: int,
        heartbeat_ttl: float,
        hooks: Hooks,
        handler_loop: HandlerLoop | None,
        resources: Resources,
        fair_share: FairShare,
        weight: float,
        log_jobs: bool,
        observer: JobObserver | None,
        stop_worker: Callable[[AcklineError], None],
    ) -> None:
        self.queue = queue
        self._log = JobLog(queue.key, worker_id, enabled=log_jobs)
        self._handler_loop = handler_loop
        self._concurrency = concurrency
        self._stop_worker = stop_worker
        self._timers = Timers()
        settle_buffer = SettleBuffer(
            queue.store.capabilities.batch_size // 2, lambda: not self._buffered_jobs()
        )
        self._leased = LeasedJobs(
            queue, settle_buffer, self._submit, resources, self._log, observer
        )
        self._claim_loop = ClaimLoop(
            self._leased,
            worker_id,
            concurrency,
            self._buffered_jobs,
            self._waits_for_cpu,
            fair_share,
            weight,
            stop_worker,
        )
        settle_buffer.on_ready(self._claim_loop.wake)
        self._executors = self._make_executors(hooks)
        self._buffers = [executor.buffer for executor in self._executors.values()]
        self._heartbeat = HeartbeatSender(
            self._leased,
            _worker_heartbeat(queue, worker_id, concurrency, heartbeat_ttl),
            self._interrupt,
            self._after_heartbeat,
            self._timers,
            stop_worker,
        )
        self._stop_checking_handlers = queue.handlers.add_check(self._require_executor)

    def start(self) -> None:
        """Start claiming and running jobs."""
        for executor in self._executors.values():
            executor.start()
        self._heartbeat.start()
        self._claim_loop.start()

    def stop_claiming(self) -> None:
        """Stop claiming, and release the jobs that have not started."""
        self._claim_loop.stop_claiming()
        self._stop_checking_handlers()
        for executor in self._executors.values():
            self._leased.release(executor.take_buffered())

    @property
    def busy(self) -> bool:
        """Whether a handler is running, or an outcome is not stored yet."""
        return bool(self._leased.jobs)

    def stats(self) -> QueueStats:
        """What it is doing, and has done so far."""
        return QueueStats(
            key=self.queue.key,
            concurrency=self._concurrency,
            running=sum(executor.running_count for executor in self._executors.values()),
            prefetched=self._buffered_jobs(),
            claims=self._claim_loop.claims,
            claimed_jobs=self._claim_loop.claimed_jobs,
            heartbeat_age=self._heartbeat.age,
        )

    def interrupt_handlers(self) -> None:
        """Tell every handler that is still running to stop; its job will be released."""
        for job in list(self._leased.jobs):
            if not job.settling:
                job.release_requested = True
                self._interrupt(job, StopReason.WORKER_STOPS)

    def release_all(self) -> None:
        """Release what is left."""
        self._leased.release(list(self._leased.jobs))

    def close(self) -> None:
        """Settle everything and deregister."""
        self.try_step(self._end_claim_loop)
        self.try_step(self._claim_loop.listener.close)
        self.try_step(self._heartbeat.stop)
        self.try_step(self._timers.stop)
        self.try_step(self._log.log_omitted)
        for executor in self._executors.values():
            self.try_step(executor.stop)

    def try_step(self, step: Callable[[], None]) -> None:
        """Run one step of the shutdown; the others run even if it fails."""
        try:
            step()
        except Exception:
            logger.exception("queue %s did not shut down cleanly", self.queue.key)

    def _end_claim_loop(self) -> None:
        if not self._claim_loop.stop(timeout=10):
            logger.error("queue %s: the last outcomes could not be stored", self.queue.key)

    def _make_executors(self, hooks: Hooks) -> dict[bool, Executor]:
        handlers = self.queue.handlers
        context = ExecutorContext(
            self._leased.settle_buffer.put,
            hooks,
            self._timers,
            self._claim_loop.before_inline_run,
            inherited_writer(),
            lambda: self._leased.observer is not None or self._log.logs_completed,
        )
        executors: dict[bool, Executor] = {}
        if handlers.has_sync:
            executors[False] = ThreadExecutor(self._concurrency, context)
        if handlers.has_async:
            assert self._handler_loop is not None
            executors[True] = AsyncExecutor(self._concurrency, context, self._handler_loop)
        return executors

    def _require_executor(self, handler: Handler) -> None:
        if handler.is_async not in self._executors:
            syntax = "async" if handler.is_async else "sync"
            raise ConfigError(
                f"the worker of queue {self.queue.key} was started without {syntax} handlers: "
                f"register {handler.function} before starting it"
            )

    def _submit(self, batch: Sequence[LeasedJob]) -> None:
        self._heartbeat.add_lease(min(job.lease for job in batch))
        # Only a job that was claimed alone: others would have to wait for it.
        if len(batch) == 1 and self._executors[batch[0].handler.is_async].run_inline(batch[0]):
            return
        if len(self._executors) == 1:
            next(iter(self._executors.values())).submit(batch)
            return
        for is_async, executor in self._executors.items():
            if jobs := [job for job in batch if job.handler.is_async is is_async]:
                executor.submit(jobs)

    def _buffered_jobs(self) -> int:
        return sum(map(len, self._buffers))

    def _waits_for_cpu(self) -> bool:
        return any(executor.waits_for_cpu for executor in self._executors.values())

    def _interrupt(self, job: LeasedJob, reason: StopReason) -> None:
        executor = self._executors[job.handler.is_async]
        executor.interrupt(job, reason)
        if reason is StopReason.LEASE_LOST:
            # The handler may ignore its signal, and must not occupy its thread forever.
            self._timers.call_later(STOP_TIMEOUT, lambda: executor.give_up_on(job))

    def _after_heartbeat(self) -> None:
        self._log.log_omitted()
        for executor in self._executors.values():
            self._leased.release(executor.take_stale(), "waited too long for a free thread")
            if executor.blocked_by_hung_handlers:
                self._stop_worker(HandlersHang(str(self.queue.key)))


def _worker_heartbeat(
    queue: Queue[Any, Any], worker_id: str, concurrency: int, ttl: float
) -> Heartbeat:
    kinds = queue.handlers.kinds_to_claim
    return Heartbeat(
        id=worker_id,
        host=socket.gethostname(),
        pid=os.getpid(),
        started_at=queue.store.now(),
        concurrency=concurrency,
        kinds=None if kinds is None else tuple(sorted(kinds)),
        ttl=ttl,
    )
