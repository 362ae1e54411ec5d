"""What operators do to jobs and to a queue: cancel, redrive, edit, move, purge, drop."""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Iterable, Iterator
from typing import Any

import msgspec

from ackline.core import lifecycle
from ackline.core.config import QueueSettings
from ackline.core.errors import InvalidOption, JobChanged, JobNotFound, QueueNotEmpty, WrongState
from ackline.core.job import LIVE, TERMINAL, QueueKey, Record, State
from ackline.core.lifecycle import Edit, Transition
from ackline.core.limits import (
    Seconds,
    as_names,
    optional_seconds,
    require_name,
    require_priority,
    require_text,
    some_seconds,
    truncate_note,
)
from ackline.core.reserved_keys import DROPPED_WITH_QUEUE, reserved_key
from ackline.queue.base import P, R
from ackline.queue.job import Job, record_of
from ackline.queue.observe import Observer, as_states
from ackline.stores.contract import Filter, KeyValue, KeyWrite, Store

_UNSET: Any = object()


class Operator(Observer[P, R]):
    """The operating side of a queue."""

    # --- acting on one job ---

    def cancel(self, id: str, *, by: str = "") -> State:
        """Cancel a waiting job, or request that a running one stops. Returns its state now.

        A finished job stays as it is.
        """
        record = self._require(id)
        waiting = lifecycle.cancel(id, self.policies.of(record), by)
        running = lifecycle.request_cancel(id, by)
        while True:
            # The job may be claimed or released between the two: try until one is applied.
            for transition in (waiting, running):
                verdict = self.apply([transition])[0]
                if verdict.state is None:
                    raise JobNotFound(self.name, id)
                if verdict.applied or verdict.state not in LIVE:
                    return verdict.state

    def redrive(self, id: str, *, delay: Seconds = 0.0, by: str = "") -> None:
        """Take a job out of the DLQ and run it again, with all its attempts."""
        self._apply_to_job(lifecycle.redrive(id, some_seconds("delay", delay), by=by))

    def redrive_all(
        self, *, kinds: Iterable[str] | None = None, rate: float | None = None, by: str = ""
    ) -> int:
        """Redrive all jobs in the DLQ, or those of some kinds; returns their number.

        Jobs that fail (again) in the meantime stay there.
        With a `rate`, at most that many jobs a second become due, to spare the services they call.
        """
        if rate is not None and not (type(rate) in (int, float) and rate > 0):
            raise InvalidOption(f"rate must be more than 0 jobs a second, not {rate!r}")
        dead = Filter(
            states=frozenset({State.FAILED}),
            kinds=as_names(kinds),
        )
        count, cursor = 0, None
        started_at = self.store.now()
        while True:
            page = self.store.page(self.key, dead, cursor, BULK_PAGE_SIZE)
            # A job that has failed again since is at the end of the list: it is not redriven twice.
            finished = [(job.id, job.finished_at or 0.0) for job in page.jobs]
            ids = existed_at(self.store, started_at, finished)
            verdicts = self.apply(
                [
                    lifecycle.redrive(id, (count + index) / rate if rate else 0.0, by=by)
                    for index, id in enumerate(ids)
                ]
            )
            count += sum(verdict.applied for verdict in verdicts)
            cursor = page.cursor
            if cursor is None:
                return count

    def edit(
        self,
        id: str,
        *,
        payload: Any = _UNSET,
        priority: int | None = None,
        delay: Seconds | None = None,
        expected: Job[P] | None = None,
        by: str = "",
    ) -> None:
        """Change a job that is not processing; its payload only with the serde that wrote it.

        Raises `WrongState` if it is, or if a job that has ended is to be delayed. With
        `expected`, a job that you looked up, raises `JobChanged` if it has changed since.
        """
        if payload is _UNSET and priority is None and delay is None:
            raise InvalidOption("edit needs something to change: a payload, a priority or a delay")
        if priority is not None:
            require_priority(priority)
        seconds = optional_seconds("delay", delay)
        data = None
        if payload is not _UNSET:
            record = self._require(id)
            self.serdes.require_own(record)
            declared = self.handlers.payload_type(record.kind)
            data = self.serdes.encode_as(payload, declared, record.kind)
        change = Edit(payload=data, priority=priority, delay=seconds)
        expected_job = None if expected is None else lifecycle.expected_from(record_of(expected))
        self._apply_to_job(lifecycle.edit(id, change, by, expected=expected_job))

    def keep_result(self, id: str, seconds: Seconds) -> None:
        """Keep a finished job and its result for `seconds` from now.

        Raises `WrongState` if the job has not finished.
        """
        self._apply_to_job(lifecycle.edit(id, Edit(keep=some_seconds("seconds", seconds))))

    def move(self, id: str, queue: str, *, by: str = "") -> None:
        """Move a job to another queue of the same tenant."""
        require_name("queue", queue)
        if queue == self.name:
            raise InvalidOption(f"job {id!r} cannot be moved to {queue!r}: it is in this queue")
        self._apply_to_job(lifecycle.move(id, QueueKey(self.key.tenant, queue), by))

    # --- acting on the queue ---

    def pause(self, *, by: str = "") -> None:
        """Stop delivering jobs; running ones continue."""
        self.configure(paused=True, by=by)

    def resume(self, *, by: str = "") -> None:
        """Deliver jobs again."""
        self.configure(paused=False, by=by)

    def configure(self, *, by: str = "", **changes: Any) -> QueueSettings:
        """Change some of the queue's settings; see `QueueSettings`."""
        policies = self.policies
        changed = policies.change(
            lambda stored: policies.with_changes(stored, changes), truncate_note(by)
        )
        policies.settings(max_age=0)
        return changed

    def purge(
        self,
        *,
        states: Iterable[State | str] | None = None,
        kinds: Iterable[str] | None = None,
        ids: Iterable[str] | None = None,
        by: str = "",
    ) -> int:
        """Delete jobs: all, or those of some states, kinds or ids; returns their number.

        Jobs that are enqueued in the meantime stay.
        """
        which = Filter(states=as_states(states), kinds=as_names(kinds), ids=as_names(ids, "ids"))
        return sum(purge_steps(self, which, by))

    def drop(self, *, force: bool = False, by: str = "") -> int:
        """Delete the queue, its finished jobs, settings and schedules; returns the number of jobs.

        Raises `QueueNotEmpty` while jobs wait or run, unless forced: then they are deleted too.
        The journal keeps its retention. A new job, or a worker, creates the queue again.

        >>> queue.drop()  # doctest: +SKIP
        """
        return sum(drop_steps(self, force, by))

    def _require(self, id: str) -> Record:
        require_text("id", id)
        record = self.store.get(self.key, [id])[0]
        if record is None:
            raise JobNotFound(self.name, id)
        return record

    def _apply_to_job(self, transition: Transition) -> None:
        require_text("id", transition.id)
        verdict = self.apply([transition])[0]
        if verdict.state is None:
            raise JobNotFound(self.name, transition.id)
        if verdict.applied:
            return
        expected = transition.expected
        if expected is None or (
            verdict.state is expected.state and not lifecycle.may_apply(transition, expected.state)
        ):
            raise WrongState(transition.act, transition.id, verdict.state)
        raise JobChanged(transition.id)


BULK_PAGE_SIZE = 500
"""Jobs per step of a bulk operation."""

MAX_CLOCK_SKEW = 1.0
"""Seconds that the clocks of a cluster's nodes may differ. A time further in the future was
written before the clock was set back."""

ProgressSteps = Generator[int, None, int]
"""Yields the number of jobs of each step; returns their sum."""


def purge_steps(queue: Observer[Any, Any], which: Filter, by: str) -> ProgressSteps:
    """Delete the jobs that match and existed when the first step started."""
    started_at = queue.store.now()
    total = 0
    for part in _split_ids(which):
        total += yield from _purge_older(queue, part, started_at, by)
    return total


def existed_at(store: Store, started_at: float, jobs: list[tuple[str, float]]) -> list[str]:
    """The ids of the given jobs, by their times, that existed when an operation started.

    A time in the future counts as older: it was written before the clock was set back.
    """
    now = started_at
    if any(at > started_at for _, at in jobs):
        now = store.now() + MAX_CLOCK_SKEW
    return [id for id, at in jobs if not started_at < at <= now]


def _purge_older(
    queue: Observer[Any, Any], which: Filter, started_at: float, by: str
) -> ProgressSteps:
    # Just above now, because a job created at this very moment was there already.
    later = math.nextafter(started_at, math.inf)
    earlier = msgspec.structs.replace(which, created_before=later)
    total = yield from _purge(queue, earlier, by)
    after = msgspec.structs.replace(which, created_after=later)
    cursor = None
    while True:
        page = queue.store.page(queue.key, after, cursor, BULK_PAGE_SIZE)
        older = existed_at(queue.store, started_at, [(job.id, job.created_at) for job in page.jobs])
        if older:
            only_older = msgspec.structs.replace(which, ids=frozenset(older))
            total += yield from _purge(queue, only_older, by)
        else:
            yield 0
        cursor = page.cursor
        if cursor is None:
            return total


def _purge(queue: Observer[Any, Any], which: Filter, by: str) -> ProgressSteps:
    total = 0
    while count := queue.store.purge(queue.key, which, BULK_PAGE_SIZE, truncate_note(by)):
        total += count
        yield count
    return total


def _split_ids(which: Filter) -> Iterator[Filter]:
    """Split a filter with many ids, as a service limits the number per request."""
    if which.ids is None:
        yield which
        return
    left = iter(which.ids)
    while part := frozenset(itertools.islice(left, BULK_PAGE_SIZE)):
        yield msgspec.structs.replace(which, ids=part)


MAX_METADATA_KEYS = 10_000

MAX_DROP_TRIES = 100
"""Jobs may arrive faster than they can be deleted."""


def drop_steps(queue: Operator[Any, Any], force: bool, by: str) -> ProgressSteps:
    """Drop a queue; returns the number of jobs deleted with it."""
    metadata = metadata_of(queue)
    deleted = 0
    for _ in range(MAX_DROP_TRIES):
        if queue.store.drop(queue.key, truncate_note(by)):
            delete_metadata(queue, metadata)
            queue.policies.settings(max_age=0)
            return deleted
        if not force and _count_live(queue):
            break
        # Without force, only finished jobs: a job that was just enqueued is live.
        which = Filter() if force else Filter(states=TERMINAL)
        deleted += yield from purge_steps(queue, which, by)
    raise QueueNotEmpty(str(queue.key), _count_live(queue))


def _count_live(queue: Operator[Any, Any]) -> int:
    counts = queue.counts()
    return sum(counts[state] for state in LIVE)


def metadata_of(queue: Operator[Any, Any]) -> list[KeyValue]:
    """The metadata of a queue. Read it before the drop: the queue may be created again."""
    tenant, queue_name = queue.key.tenant, queue.key.name
    return [
        entry
        for family in sorted(DROPPED_WITH_QUEUE)
        for entry in queue.store.read_keys(
            tenant, reserved_key(family, queue_name), MAX_METADATA_KEYS
        )
    ]


def delete_metadata(queue: Operator[Any, Any], metadata: list[KeyValue]) -> None:
    """Delete metadata, except what was written again since it was read."""
    for entry in metadata:
        write = KeyWrite(key=entry.key, value=None, version=entry.version)
        queue.store.write_keys(queue.key.tenant, [write])
