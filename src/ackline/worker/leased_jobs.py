"""A leased job from its claim until its outcome is stored, and the outcomes on their way."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ackline.core import lifecycle
from ackline.core.config import ResolvedPolicy
from ackline.core.events import Act
from ackline.core.fork_safety import renew_locks_after_fork
from ackline.core.job import NO_OPTIONS, QueueKey, Record
from ackline.core.lifecycle import Transition, Verdict
from ackline.core.limits import Seconds, as_seconds
from ackline.queue import Handler, Job, Queue
from ackline.queue.job import NO_RESOURCES
from ackline.worker.job_log import JobLog
from ackline.worker.progress import ProgressWriter
from ackline.worker.timers import Timer

logger = logging.getLogger("ackline")

_decision_lock = threading.Lock()
"""Guards the decision how a job ends. All jobs share it: it is locked only briefly."""
renew_locks_after_fork(sys.modules[__name__], "_decision_lock")


class LeasedJob(Job[Any]):
    """A job from its claim until it is settled or its lease is lost; its handler sees a `Job`."""

    __slots__ = (
        "buffered_at",
        "given_up",
        "handler",
        "handler_ended",
        "leased_until",
        "lost",
        "on_forgotten",
        "owning_queue",
        "policy",
        "progress_writer",
        "release_requested",
        "run_seconds",
        "run_started",
        "settling",
        "task",
        "task_started",
        "timed_out",
        "timeout_timer",
    )

    def __init__(
        self,
        queue: Queue[Any, Any],
        record: Record,
        handler: Handler,
        policy: ResolvedPolicy,
        resources: Mapping[str, Any] = NO_RESOURCES,
        progress_writer: ProgressWriter | None = None,
    ) -> None:
        super().__init__(record, queue, handler.payload_type, resources)
        self.owning_queue = queue
        self.progress_writer = progress_writer
        self.handler = handler
        self.policy = policy
        self.task: asyncio.Task[None] | None = None
        self.timeout_timer: Timer | None = None
        self.buffered_at = 0.0
        """When an executor buffered it, by this process's monotonic clock; 0 before."""
        self.on_forgotten: Callable[[], None] | None = None
        """Called by `forget`, when the outcome is stored or the lease is lost."""
        self.leased_until = 0.0
        """Until when, by the same clock, the lease lasts if no heartbeat reaches the store."""
        self.run_started = 0.0
        """When its handler was called, by the same clock; 0 before."""
        self.run_seconds: float | None = None
        """How long its handler ran; known if the attempt failed, or if somebody wants to know."""
        self.lost = False
        self.handler_ended = False
        self.release_requested = False
        self.settling = False
        self.task_started = False
        """Whether its task has started: if cancelled before that, it would never settle the job."""
        self.timed_out = False
        self.given_up = False
        """Whether its handler did not stop, and no longer counts as running."""

    @property
    def stop_requested(self) -> bool:
        """Whether its signal is set; unlike `signal`, this does not create it."""
        return self._signal is not None and self._signal.is_set()

    def mark_settling(self) -> bool:
        """Mark it as being settled; False if it already is, or if its lease is lost."""
        with _decision_lock:
            if self.lost or self.settling:
                return False
            self.settling = True
            return True

    def mark_lost(self) -> bool:
        """Mark the lease as lost; False if it was already, or if the job is being settled."""
        with _decision_lock:
            if self.lost or self.settling:
                return False
            self.lost = True
            return True

    def forget(self) -> None:
        """Call `on_forgotten` once: a second time, the slot it frees may be another job's."""
        if self.on_forgotten is None:
            return
        with _decision_lock:
            on_forgotten, self.on_forgotten = self.on_forgotten, None
        if on_forgotten is not None:
            on_forgotten()

    def extend(self, seconds: Seconds) -> None:
        sent_at = time.monotonic()
        super().extend(seconds)
        self.leased_until = max(self.leased_until, sent_at + as_seconds(seconds))

    def report(self, progress: Any) -> None:
        if self.progress_writer is None:
            super().report(progress)
        else:
            self.progress_writer.put(self, self.owning_queue.serdes.encode_progress(progress))

    @property
    def lease(self) -> float:
        """Seconds for which each heartbeat extends the lease."""
        return self.policy.lease


COMPLETE = Act.COMPLETE
"""Looking it up in its enum takes a noticeable time, for each job."""

EndedJob = tuple[LeasedJob, Transition]


class JobObserver(Protocol):
    """Measures how jobs end, in the thread that settles them."""

    def settled(
        self, key: QueueKey, batch: Sequence[EndedJob], verdicts: Sequence[Verdict]
    ) -> None:
        """The store has answered to these outcomes."""

    def lost(self, key: QueueKey, job: LeasedJob) -> None:
        """The lease of a job is lost."""


class SettleBuffer:
    """Collects outcomes: executors put them in, the claim loop takes out batches."""

    def __init__(self, flush_at: int, flush_now: Callable[[], bool]) -> None:
        self._settled: deque[EndedJob] = deque()
        self._flush_at = flush_at
        self._flush_now = flush_now
        self._wake: Callable[[], None] = lambda: None
        self._wake_requested = False
        """Whether the claim loop was woken, and has not read the buffer since."""

    def on_ready(self, wake: Callable[[], None]) -> None:
        """Set the function to call when outcomes should be sent."""
        self._wake = wake

    def put(self, job: LeasedJob, transition: Transition) -> None:
        """Add the outcome of a job; only the first counts, and none if its lease is lost."""
        if not job.mark_settling():
            return
        self._settled.append((job, transition))
        size = len(self._settled)
        # The first outcome as well: the claim loop lets it wait for others only briefly.
        if not self._wake_requested and (size == 1 or size >= self._flush_at or self._flush_now()):
            self._wake_requested = True
            self._wake()

    def rearm(self) -> None:
        """Wake the claim loop again for later outcomes; called before it reads the buffer."""
        self._wake_requested = False

    def put_back(self, batch: list[EndedJob]) -> None:
        """Put back a batch that could not be sent; it is safe to send it again."""
        self._settled.extendleft(reversed(batch))

    def take(self, limit: int) -> list[EndedJob]:
        """Remove and return the oldest outcomes, up to a limit."""
        batch: list[EndedJob] = []
        try:
            while len(batch) < limit:
                batch.append(self._settled.popleft())
        except IndexError:
            pass
        return batch

    def __len__(self) -> int:
        return len(self._settled)


class LeasedJobs:
    """The leased jobs of one queue, and the outcomes to be stored."""

    def __init__(
        self,
        queue: Queue[Any, Any],
        settle_buffer: SettleBuffer,
        submit: Callable[[Sequence[LeasedJob]], None],
        resources: Mapping[str, Any],
        log: JobLog,
        observer: JobObserver | None = None,
    ) -> None:
        self.queue = queue
        self.log = log
        self.observer = observer
        self._resources = resources
        self.settle_buffer = settle_buffer
        self.jobs: set[LeasedJob] = set()
        self.progress = ProgressWriter(queue)
        self._submit = submit

    def start(self, records: Sequence[Record], leased_at: float, *, accept: bool) -> None:
        """Have jobs run whose leases began at `leased_at`, or release them if not accepted."""
        queue = self.queue
        try:
            batch = self._wrap_records(records)
        except Exception:
            # Their policies cannot be read now. The jobs must not stay leased without being run.
            known = queue.policies.last_known
            queue.apply(
                [
                    lifecycle.release(job, known(job), "its policy could not be read")
                    for job in records
                ]
            )
            raise
        for job in batch:
            job.leased_until = leased_at + job.lease
        self.jobs.update(batch)
        if not accept:
            self.release(batch)
            return
        try:
            self._submit(batch)
        except BaseException:
            # Jobs that an executor has buffered are for it to start, or to release.
            self.release([job for job in batch if not job.buffered_at], "no executor accepted it")
            raise

    def _wrap_records(self, records: Sequence[Record]) -> list[LeasedJob]:
        queue, batch = self.queue, []
        by_kind: dict[str, tuple[Handler, ResolvedPolicy]] = {}
        for record in records:
            # Jobs of a kind without options of their own share handler and policy.
            handler_and_policy = by_kind.get(record.kind) if record.options is NO_OPTIONS else None
            if handler_and_policy is None:
                handler_and_policy = queue.handlers[record.kind], queue.policies.of(record)
                if record.options is NO_OPTIONS:
                    by_kind[record.kind] = handler_and_policy
            batch.append(
                LeasedJob(queue, record, *handler_and_policy, self._resources, self.progress)
            )
        return batch

    def release(self, batch: Sequence[LeasedJob], note: str = "the worker stopped") -> None:
        """Release jobs that have no outcome; it costs them no attempt."""
        for job in batch:
            self.settle_buffer.put(job, lifecycle.release(job.record, job.policy, note))

    def record_verdicts(self, batch: Sequence[EndedJob], verdicts: Sequence[Verdict]) -> None:
        """Forget jobs that the store has answered for, and log how they ended."""
        self.jobs.difference_update([job for job, _ in batch])
        logs_all = self.log.logs_completed
        for (job, transition), verdict in zip(batch, verdicts, strict=True):
            job.forget()
            completed = verdict.applied and transition.act is COMPLETE
            if logs_all or not completed or job.settled_in_transaction:
                self.log.settled(job, transition, verdict)
                job.exception = None  # it refers to the job, by the frames of its traceback
        self._observe(lambda observer: observer.settled(self.queue.key, batch, verdicts))

    def _observe(self, call: Callable[[JobObserver], None]) -> None:
        if self.observer is None:
            return
        try:
            call(self.observer)
        except Exception:
            # It may be the program's own. The jobs of this call to the store have to run.
            logger.exception("queue %s: the observer of its jobs failed", self.queue.key)

    def mark_lost(self, job: LeasedJob) -> bool:
        """Forget a job whose lease is lost: what its handler returns no longer counts.

        False if its outcome is already being stored; the store decides whether it counts.
        """
        if not job.mark_lost():
            return False
        self.forget(job)
        self.log.lost(job, "its handler is stopped")
        self._observe(lambda observer: observer.lost(self.queue.key, job))
        return True

    def drop_unstorable(self, batch: Sequence[EndedJob]) -> None:
        """Forget jobs whose outcomes can no longer be stored."""
        if not batch:
            return
        logger.error(
            "queue %s: its store is closed, and the outcomes of %d jobs could not be stored; "
            "the jobs are retried when their leases expire",
            self.queue.key,
            len(batch),
        )
        for job, _ in batch:
            self.forget(job)

    def forget(self, job: LeasedJob) -> None:
        """Forget a job without an answer from the store."""
        self.jobs.discard(job)
        job.forget()
