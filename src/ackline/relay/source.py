"""The relay's side of the source queue: claims jobs, and settles those that were moved."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ackline.core import lifecycle
from ackline.core.events import Act
from ackline.core.job import Record, State
from ackline.core.lifecycle import Transition, Verdict
from ackline.queue import Queue
from ackline.queue.consume import MAX_POLL_INTERVAL, new_worker_id, poll_interval
from ackline.queue.settle import failure_from
from ackline.relay.ledger import RelayedJobs
from ackline.stores.contract import Filter, Heartbeat, LeaseExtension, Listener
from ackline.worker.heartbeat import HEARTBEAT_INTERVAL, HEARTBEAT_TTL

WORKER_PREFIX = "relay-"
"""Prefix of the worker ids of relays."""

PAGE_SIZE, MAX_PAGES = 500, 20
"""Jobs per page of the source's DLQ, and how many pages one check reads at most."""

_FAILED = Filter(states=frozenset({State.FAILED}))

_SETTLED_FOR_GOOD = frozenset({None, State.COMPLETED, State.CANCELLED})
"""States in which the source does not deliver a job again. A failed job may be redriven."""


class SourceQueue:
    """A worker of the source queue that runs no handlers."""

    def __init__(self, queue: Queue[Any, Any], lease: float, batch: int) -> None:
        self.queue = queue
        self.id = WORKER_PREFIX + new_worker_id()
        self.leases_lost = 0
        self._lease = lease
        self._batch = batch
        self._settling: list[tuple[Record, Transition]] = []
        self._listener: Listener | None = None
        self._started_at = 0.0
        self._heartbeat_at = float("-inf")
        self._poll_after = MAX_POLL_INTERVAL
        self._dlq_cursor: str | None = None
        """Where the next check of the DLQ continues, if the last one did not reach the end."""

    @property
    def busy(self) -> bool:
        """Whether jobs are still to be settled."""
        return bool(self._settling)

    def open(self) -> None:
        """Listen for jobs."""
        if self._listener is not None:
            return
        self._started_at = self.queue.store.now()
        self._listener = self.queue.store.listen([self.queue.key], "ready")

    def settle_and_claim(
        self, limit: int, in_flight: Sequence[Record]
    ) -> tuple[list[Record], RelayedJobs]:
        """Settle, and claim the next jobs; returns both the new jobs and those settled for good."""
        self._send_heartbeat(in_flight)
        settling = self._settling
        transitions = [transition for _, transition in settling]
        if limit:
            request = self.queue.claim_request(limit, self._lease, None, self.id)
            # Jobs of one group may be moved at the same time: the target enforces its limit.
            request = msgspec.structs.replace(request, ignore_group_limit=True)
            claimed = self.queue.claim_records(request, transitions)
            jobs, verdicts = claimed.jobs, claimed.verdicts
            self._poll_after = poll_interval(claimed)
        else:
            jobs, verdicts = [], self.queue.apply(transitions) if transitions else []
        self._settling = []
        return jobs, self._settled(settling, verdicts)

    def _settled(
        self, settling: Sequence[tuple[Record, Transition]], verdicts: Sequence[Verdict]
    ) -> RelayedJobs:
        """Those settled for good. Jobs that were cancelled meanwhile are left to recovery."""
        self.leases_lost += sum(not verdict.applied for verdict in verdicts)
        return {
            job.id: job.created_at
            for (job, _), verdict in zip(settling, verdicts, strict=True)
            if verdict.state is None or verdict.state is State.COMPLETED
        }

    def complete(self, jobs: Iterable[Record]) -> None:
        """Complete jobs that are in the target, which makes their callbacks."""
        for job in jobs:
            completion = lifecycle.complete(job, None, self.queue.policies.of(job), "relayed")
            self._settle(job, msgspec.structs.replace(completion, has_callback=False))

    def release(self, jobs: Iterable[Record]) -> None:
        """Release jobs that are not: they keep their position in the queue, and their attempt."""
        for job in jobs:
            note = "the relay could not enqueue it in the target"
            self._settle(job, lifecycle.release(job, self.queue.policies.of(job), note))

    def bury(self, job: Record, error: Exception) -> None:
        """Send a job that the target refuses to the DLQ."""
        failure = failure_from(job, error)
        self._settle(job, lifecycle.bury(job, failure, self.queue.policies.of(job)))

    def _settle(self, job: Record, transition: Transition) -> None:
        self._settling.append((job, transition))

    def settled_for_good(self, jobs: RelayedJobs) -> tuple[RelayedJobs, list[str]]:
        """Of jobs that were moved: those settled for good, and the ids of the cancelled ones."""
        ids = list(jobs)
        found = self.queue.store.get(self.queue.key, ids) if ids else []
        settled, cancelled = {}, []
        for id, record in zip(ids, found, strict=True):
            same = record is not None and record.created_at == jobs[id]
            state = record.state if record is not None and same else None
            if state in _SETTLED_FOR_GOOD:
                settled[id] = jobs[id]
            if state is State.CANCELLED:
                cancelled.append(id)
        return settled, cancelled

    def redrive_lost(self) -> int:
        """Redrive jobs whose attempts were used up by dead relays; returns how many.

        The attempts are for the handler, which has not run yet.
        """
        if not self.queue.counts()[State.FAILED]:
            return 0
        redriven = 0
        for _ in range(MAX_PAGES):
            page = self.queue.store.page(self.queue.key, _FAILED, self._dlq_cursor, PAGE_SIZE)
            ids = [job.id for job in page.jobs if _expired_in_relay(job)]
            verdicts = self.queue.apply([lifecycle.redrive(id, by=self.id) for id in ids])
            redriven += sum(verdict.applied for verdict in verdicts)
            self._dlq_cursor = page.cursor
            if page.cursor is None:
                break
        return redriven

    def wait(self) -> None:
        """Wait for jobs."""
        assert self._listener is not None
        self._listener.wait(self._poll_after)

    def wake(self) -> None:
        """End the wait."""
        if self._listener is not None:
            self._listener.wake()

    def close(self) -> None:
        """Deregister, and stop listening."""
        listener, self._listener = self._listener, None
        if listener is not None:
            self._send_heartbeat([], ttl=0.0)
            listener.close()

    def _send_heartbeat(self, jobs: Sequence[Record], ttl: float = HEARTBEAT_TTL) -> None:
        now = time.monotonic()
        if ttl and now - self._heartbeat_at < HEARTBEAT_INTERVAL:
            return
        extensions = [LeaseExtension(job.id, job.token, self._lease) for job in jobs]
        heartbeat = Heartbeat(
            id=self.id,
            host=socket.gethostname(),
            pid=os.getpid(),
            started_at=self._started_at,
            concurrency=self._batch,
            kinds=None,
            ttl=ttl,
        )
        self.queue.store.heartbeat(self.queue.key, heartbeat, extensions)
        self._heartbeat_at = now


def _expired_in_relay(job: Record) -> bool:
    last = job.history[-1] if job.history else None
    return last is not None and last.act == Act.EXPIRE and last.worker.startswith(WORKER_PREFIX)
