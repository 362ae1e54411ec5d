"""Bulk operations: one act on all jobs that match a filter, in requests of limited length."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, assert_never

import msgspec

from ackline.core import lifecycle
from ackline.core.errors import EventsDropped
from ackline.core.events import Act, Entry, Events, read_cursor
from ackline.core.job import QueueKey, Record, State
from ackline.core.lifecycle import Transition
from ackline.queue import Queue
from ackline.service.http.problems import Conflict, Unprocessable
from ackline.service.limits.errors import QueueFull
from ackline.service.threads.slow_work import Chunks
from ackline.service.views.error_groups import fingerprint_of
from ackline.stores.contract import Filter, Page

PAGE = 500
EVENTS_PAGE = 5000

TIME_LIMIT = 10.0
"""Seconds that one request may take; the next one continues."""

CATCH_UP_LIMIT = 10.0
"""Seconds to read the journal since the operation, or its preview, started."""

PREVIEW_AGAIN = "preview it again"


class BulkCursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where a request continues a bulk operation."""

    started_at: float
    """When the first request started: its caller has not seen what changed since."""
    journal: str
    """The end of the journal at that time: it has changes that the jobs do not show."""
    done: Annotated[int, msgspec.Meta(ge=0)] = 0
    """How many jobs were changed so far."""
    page: str | None = None

    def after(self, count: int, page: str | None = None) -> BulkCursor:
        """The cursor after changing `count` more jobs."""
        return BulkCursor(self.started_at, self.journal, self.done + count, page)

    @property
    def as_of(self) -> str:
        """The start of the first request, as text: another operation can start as of it, too."""
        return str(BulkCursor(self.started_at, self.journal))

    def __str__(self) -> str:
        return msgspec.json.encode(self).decode()


class BulkProgress(msgspec.Struct, frozen=True):
    """How many jobs were changed, and where to continue; None if nothing is left."""

    count: int
    rest: BulkCursor | None = None


class BulkStep(msgspec.Struct, frozen=True):
    """One request's part of a bulk operation: the selected jobs from a cursor on. Blocks."""

    queue: Queue[Any, Any]
    filter: Filter
    fingerprint: str | None
    """Only failed jobs with this error."""
    cursor: BulkCursor
    stopping: Callable[[], bool]
    """Whether the service is shutting down: then the rest is left to another request."""

    def for_each_page(
        self, apply: Callable[[Sequence[Record], BulkCursor], int]
    ) -> Chunks[BulkProgress]:
        """Apply a function to one page of jobs after another; it returns how many it changed.

        Jobs that have changed since the operation started are skipped: its caller has not seen
        them as they are.
        """
        if not self.filter.states:
            return BulkProgress(0)
        changes = _ChangedJobs(self)
        yield from changes.catch_up()
        until = time.monotonic() + TIME_LIMIT
        count, cursor = 0, self.cursor
        while True:
            page = self._page(cursor.page)
            changes.read_new()  # after reading the page: its jobs may have changed just before
            try:
                done = apply([job for job in page.jobs if self._is_selected(job, changes)], cursor)
            except QueueFull:
                if not count:
                    raise
                return BulkProgress(count, cursor)
            count, cursor = count + done, cursor.after(done, page.cursor)
            if page.cursor is None:
                return BulkProgress(count)
            if time.monotonic() >= until or self.stopping():
                return BulkProgress(count, cursor)
            yield

    def purge(self, jobs: Sequence[Record], by: str) -> int:
        """Delete the jobs that still match."""
        if not jobs:
            return 0
        job_filter = msgspec.structs.replace(self.filter, ids=frozenset(job.id for job in jobs))
        return self.queue.store.purge(self.queue.key, job_filter, len(jobs), by)

    def _is_selected(self, job: Record, changes: _ChangedJobs) -> bool:
        same_error = self.fingerprint is None or fingerprint_of(job) == self.fingerprint
        return same_error and not changes.has_changed(job)

    def _page(self, cursor: str | None) -> Page:
        try:
            return self.queue.store.page(self.queue.key, self.filter, cursor, PAGE)
        except msgspec.DecodeError:
            raise _invalid_cursor() from None


class _ChangedJobs:
    """The jobs that have changed since a bulk operation, or its preview, started."""

    def __init__(self, step: BulkStep) -> None:
        self._store, self._key = step.queue.store, step.queue.key
        self._states = step.filter.states
        self._since = step.cursor.started_at
        self._cursor = step.cursor.journal
        self._ids: set[str] = set()

    def catch_up(self) -> Chunks[None]:
        """Read the journal up to now; refuse if it is incomplete, or takes too long."""
        until = time.monotonic() + CATCH_UP_LIMIT
        try:
            while self._read():
                if time.monotonic() >= until:
                    raise Conflict(f"too much has changed since the preview: {PREVIEW_AGAIN}")
                yield
        except EventsDropped:
            raise Conflict(
                f"the journal no longer goes back to the preview: {PREVIEW_AGAIN}"
            ) from None

    def read_new(self) -> None:
        """Read the new events of the journal."""
        try:
            while self._read():
                pass
        except EventsDropped as error:  # trimmed just now
            self._cursor = error.cursor

    def has_changed(self, job: Record) -> bool:
        """Whether a job has changed, by the journal or by the job's own times."""
        return job.id in self._ids or _changed_at(job) > self._since

    def _read(self) -> bool:
        events = Events.from_sequence(self._store.events(self._key, self._cursor, EVENTS_PAGE))
        for batch in events.batches:
            self._ids.update(entry.id for entry in batch.entries if self._may_match_now(entry))
        self._cursor = events.cursor or self._cursor
        return bool(events)

    def _may_match_now(self, entry: Entry) -> bool:
        """Whether a job may match now that did not match before."""
        changed = entry.source is not entry.to or entry.act in (Act.EDIT, Act.MOVE)
        return changed and entry.to in self._states


def start_cursor(cursor: str | None, as_of: str | None, queue: Queue[Any, Any]) -> BulkCursor:
    """Where a request starts, `as_of` a preview if there was one, or continues. Blocks."""
    if cursor is not None:
        return _read(cursor, "$.cursor")
    if as_of is not None:
        preview = _read(as_of, "$.as_of")
        return BulkCursor(preview.started_at, preview.journal)
    info = queue.store.info()
    return BulkCursor(info.now, info.cursor)


def _changed_at(job: Record) -> float:
    """The latest change of a job's state, by its own times."""
    times = [job.created_at, job.started_at, job.finished_at]
    times += [failure.at for failure in job.history[-1:]]
    return max(at for at in times if at is not None)


def _read(text: str, at: str) -> BulkCursor:
    try:
        cursor = _decoder.decode(text)
        read_cursor(cursor.journal)
    except ValueError:
        raise _invalid_cursor(at) from None
    return cursor


def _invalid_cursor(at: str = "$.cursor") -> Unprocessable:
    return Unprocessable("this is not a cursor of this operation", at=at)


_decoder = msgspec.json.Decoder(BulkCursor)


Action = Literal["cancel", "redrive", "move", "delete"]


class BulkOperation(msgspec.Struct, frozen=True):
    """What to do with all jobs that match, and who does it."""

    action: Action
    by: str
    target: QueueKey | None = None
    """The queue to move jobs to."""
    rate: float | None = None
    """Maximum number of redriven jobs that become due per second."""

    def apply_to(self, step: BulkStep) -> Chunks[BulkProgress]:
        """Change all jobs that match and existed when the first request started."""
        if self.action == "delete":
            return step.for_each_page(lambda jobs, _: step.purge(jobs, self.by))

        def apply(jobs: Sequence[Record], cursor: BulkCursor) -> int:
            transitions = [
                self._transition(step, job, index) for index, job in enumerate(jobs, cursor.done)
            ]
            return sum(verdict.applied for verdict in step.queue.apply(transitions))

        return step.for_each_page(apply)

    def _transition(self, step: BulkStep, job: Record, index: int) -> Transition:
        match self.action:
            case "cancel" if job.state is State.PROCESSING:
                return lifecycle.request_cancel(job.id, self.by)
            case "cancel":
                return lifecycle.cancel(job.id, step.queue.policies.of(job), self.by)
            case "redrive":
                delay = index / self.rate if self.rate else 0.0
                return lifecycle.redrive(job.id, delay, by=self.by)
            case "move":
                assert self.target is not None, "a move without a target is refused before"
                return lifecycle.move(job.id, self.target, self.by)
            case "delete":
                raise AssertionError("a purge is not a transition")
            case _:
                assert_never(self.action)


def count(step: BulkStep) -> Chunks[BulkProgress]:
    """Count the jobs that match."""
    return step.for_each_page(lambda jobs, _: len(jobs))
