"""Acting on jobs, and on the queue as a whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ackline.core import lifecycle
from ackline.core.config import QueueSettings
from ackline.core.errors import InvalidOption, JobChanged, JobNotFound, WrongState
from ackline.core.job import LIVE, QueueKey, Record, State
from ackline.core.lifecycle import Edit, Transition
from ackline.core.limits import (
    as_names,
    require_name,
    require_priority,
    require_seconds,
    require_some_seconds,
    require_text,
    truncate_note,
)
from ackline.queue.base import P, R
from ackline.queue.dropping import drop_steps
from ackline.queue.job import Job, record_of
from ackline.queue.observe import Observer, as_states
from ackline.queue.purging import BULK_PAGE_SIZE, existed_at, purge_steps
from ackline.stores.contract import Filter

_UNSET: Any = object()


class Operator(Observer[P, R]):
    """The operating side of a queue."""

    # --- acting on one job ---

    def cancel(self, id: str, *, by: str = "") -> State:
        """Cancel a job that waits; ask a running one to stop. Returns the state it is in now.

        A finished job stays as it is.
        """
        record = self._require(id)
        waiting = lifecycle.cancel(id, self.policies.of(record), by)
        running = lifecycle.request_cancel(id, by)
        while True:
            # The job may be claimed or given back between the two steps: try until one fits.
            for transition in (waiting, running):
                verdict = self.apply([transition])[0]
                if verdict.state is None:
                    raise JobNotFound(self.name, id)
                if verdict.applied or verdict.state not in LIVE:
                    return verdict.state

    def redrive(self, id: str, *, delay: float = 0.0, by: str = "") -> None:
        """Take a job out of the DLQ and run it again, with all its attempts."""
        require_seconds("delay", delay)
        self._apply_to_job(lifecycle.redrive(id, delay, by=by))

    def redrive_all(
        self, *, kinds: Iterable[str] | None = None, rate: float | None = None, by: str = ""
    ) -> int:
        """Redrive everything in the DLQ, or all of some kinds; returns the number of jobs.

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
        began = self.store.now()
        while True:
            page = self.store.page(self.key, dead, cursor, BULK_PAGE_SIZE)
            # A job that has failed again since is at the end of the list: it is not redriven twice.
            ended = [(job.id, job.finished_at or 0.0) for job in page.jobs]
            ids = existed_at(self.store, began, ended)
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
        delay: float | None = None,
        expected: Job[P] | None = None,
        by: str = "",
    ) -> None:
        """Change a job that is not processing; its payload only with the serde that wrote it.

        Raises `WrongState` if it is, or if a job that has ended is to be delayed. With `seen`, a
        job that you looked up, raises `JobChanged` unless it is still like that.
        """
        if payload is _UNSET and priority is None and delay is None:
            raise InvalidOption("edit needs something to change: a payload, a priority or a delay")
        if priority is not None:
            require_priority(priority)
        require_seconds("delay", delay)
        data = None
        if payload is not _UNSET:
            record = self._require(id)
            self.serdes.require_own(record)
            declared = self.handlers.payload_type(record.kind)
            data = self.serdes.encode_as(payload, declared, record.kind)
        change = Edit(payload=data, priority=priority, delay=delay)
        known = None if expected is None else lifecycle.expected_from(record_of(expected))
        self._apply_to_job(lifecycle.edit(id, change, by, seen=known))

    def keep_result(self, id: str, seconds: float) -> None:
        """Keep a finished job and its result for `seconds` from now.

        Raises `WrongState` if the job has not finished.
        """
        require_some_seconds("seconds", seconds)
        self._apply_to_job(lifecycle.edit(id, Edit(keep=seconds)))

    def move(self, id: str, queue: str, *, by: str = "") -> None:
        """Hand a job to another queue of the same tenant."""
        require_name("queue", queue)
        if queue == self.name:
            raise InvalidOption(f"job {id!r} cannot be moved to {queue!r}: it is in this queue")
        self._apply_to_job(lifecycle.move(id, QueueKey(self.key.tenant, queue), by))

    # --- acting on the queue ---

    def pause(self, *, by: str = "") -> None:
        """Hand out no more jobs; those that run go on."""
        self.configure(paused=True, by=by)

    def resume(self, *, by: str = "") -> None:
        """Hand out jobs again."""
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
        """Delete jobs for good: all, or those of some states, kinds or ids; returns the number.

        Jobs that are enqueued in the meantime stay.
        """
        which = Filter(states=as_states(states), kinds=as_names(kinds), ids=as_names(ids, "ids"))
        return sum(purge_steps(self, which, by))

    def drop(self, *, force: bool = False, by: str = "") -> int:
        """Delete the queue with its finished jobs, settings and schedules; returns how many jobs.

        Raises `QueueNotEmpty` while jobs wait or run, unless forced: then they are deleted too.
        The journal stays as long as ever. A new job, or a worker, creates the queue again.

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
        seen = transition.expected
        if seen is None or (
            verdict.state is seen.state and not lifecycle.may_apply(transition, seen.state)
        ):
            raise WrongState(transition.act, transition.id, verdict.state)
        raise JobChanged(transition.id)
