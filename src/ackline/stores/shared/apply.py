"""Apply transitions: to jobs, groups, keys and the journal, and decide who is notified.

A store reads the jobs of a batch and writes what has changed; everything else happens here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

import msgspec

from ackline.core.config import QueueSettings
from ackline.core.events import Act, Entry, Event
from ackline.core.job import WAITING, Failure, Options, QueueKey, State
from ackline.core.lifecycle import (
    REPEATABLE,
    Destination,
    ExpectedJob,
    Transition,
    Verdict,
    expected_job,
    find_destination,
    find_position,
    history_entry,
    journal_note,
    journal_priority,
    keys_to_write,
    may_move,
    passes_guard,
    records_callback,
    was_applied,
)
from ackline.stores.contract import Topic
from ackline.stores.shared.groups import FreedGroups

_COMPLETE, _PROCESSING, _COMPLETED = Act.COMPLETE, State.PROCESSING, State.COMPLETED
_SETTINGS_ACTS = frozenset({Act.CONFIGURE, Act.PAUSE, Act.RESUME})

NO_JOB = Verdict(False, None)
_COMPLETED_VERDICT = Verdict(True, _COMPLETED)


class MutableJob:
    """A job while transitions change it; a store adds where it keeps the job."""

    __slots__ = (
        "act", "at", "attempts", "cancel_requested", "finished_at", "group", "id", "kind", "num",
        "priority", "progress", "rank", "result", "started_at", "state", "token", "worker",
    )  # fmt: skip

    def __init__(self, num: int, id: str, kind: str, group: str | None, priority: int) -> None:
        self.num = num
        self.id = id
        self.kind = kind
        self.group = group
        self.priority = priority
        self.state = State.QUEUED
        self.at = 0.0
        """Its time in the list of its state."""
        self.rank = 0.0
        """Its `at` when it was last queued."""
        self.attempts = 0
        self.token = 0
        self.worker = ""
        self.started_at: float | None = None
        self.finished_at: float | None = None
        self.act: Act | None = None
        """The act that ended its last lease."""
        self.cancel_requested = False
        self.progress: bytes | None = None
        self.result: bytes | None = None

    def past_retention(self, now: float) -> bool:
        """Whether its retention has ended, so that it counts as deleted."""
        return self.state.terminal and self.at <= now


class AppliedChange(msgspec.Struct, frozen=True, gc=False):
    """What an applied transition has done, in addition to the changes of the job itself."""

    source: State
    destination: Destination
    entry: Entry
    attempt: Failure | None
    """The attempt that ended without completing, for the job's history."""


def apply_to_job(
    job: MutableJob, transition: Transition, now: float, ageing: float
) -> AppliedChange:
    """Change a job by a transition whose guard holds."""
    source = job.state
    destination = find_destination(transition, source, job.cancel_requested)
    attempts, token, worker = job.attempts, job.token, job.worker
    attempt = None
    if transition.act is Act.PROGRESS:
        job.progress = transition.progress
    elif transition.act is Act.REQUEST_CANCEL:
        job.cancel_requested = True
    if source is State.PROCESSING and destination.state is not source:
        attempt = history_entry(transition, attempts, worker, job.started_at or 0.0, now)
        job.act = transition.act
        job.cancel_requested = False
    if transition.attempts is not None:
        job.attempts = transition.attempts
    old_priority = job.priority
    if transition.edit is not None and transition.edit.priority is not None:
        job.priority = transition.edit.priority
    job.state, job.at = (
        destination.state,
        find_position(
            destination,
            now,
            at=job.at,
            old_rank=job.rank,
            old_priority=old_priority,
            priority=job.priority,
            ageing=ageing,
        ),
    )
    if destination.state is State.QUEUED:
        job.rank = job.at
    if not destination.state.terminal:
        job.finished_at = None
    elif destination.state is not source:
        job.finished_at, job.result = now, transition.result
    entry = Entry(
        transition.act, job.id, job.kind, source, destination.state, attempts, token, worker,
        journal_note(transition), transition.by, journal_priority(transition, job.priority),
        recovered_by=transition.recovered_by,
    )  # fmt: skip
    return AppliedChange(source, destination, entry, attempt)


J = TypeVar("J", bound=MutableJob)


class ApplyPlan(ABC, Generic[J]):
    """The transitions of one call, to be written by a store."""

    def __init__(self, queue: QueueKey, settings: QueueSettings, size: int, now: float) -> None:
        self.queue = queue
        self.settings = settings
        self.now = now
        self.verdicts = [NO_JOB] * size
        self.freed_groups = FreedGroups()
        self.moved_in: list[tuple[QueueKey, Entry]] = []
        """The journal entries of the queues that jobs were moved to."""
        self._entries: list[Entry | None] = [None] * size
        self._callback_entries: dict[int, int] = {}
        """The indexes of entries that may need a callback URL, each with the job's number."""

    # --- implemented by a store ---

    @abstractmethod
    def find(self, id: str) -> J | None:
        """The job with this id, including the changes of earlier transitions of the batch."""

    @abstractmethod
    def payload_of(self, job: J) -> bytes: ...

    @abstractmethod
    def result_and_history(self, job: J) -> tuple[bytes | None, Sequence[Failure]]:
        """The result of a job, and its attempts that ended without completing."""

    @abstractmethod
    def options_of(self, jobs: Sequence[int], /) -> Mapping[int, Options]:
        """The options of these jobs, without the jobs that have none."""

    @abstractmethod
    def write(self, job: J, transition: Transition, change: AppliedChange) -> None:
        """Write a changed job, now or at the end of the batch."""

    @abstractmethod
    def write_key(self, key: tuple[str, ...], job: J) -> None:
        """Write a key of the tenant, with the payload of the job."""

    @abstractmethod
    def move(self, job: J, target: QueueKey) -> bool:
        """Move a job to another queue; False if that queue has a job with its id."""

    # --- the same for all stores ---

    def apply(self, index: int, transition: Transition) -> None:
        """Apply a transition if its guard holds."""
        job, now = self.find(transition.id), self.now
        if job is None or job.past_retention(now):
            return
        deadline = job.at if job.state is State.PROCESSING else None
        if transition.expected is not None and transition.expected != self._as_expected(job):
            self.verdicts[index] = Verdict(False, job.state)
        elif not passes_guard(transition, job.state, job.token, deadline, now):
            self.verdicts[index] = Verdict(self._repeats(job, transition), job.state)
        elif transition.target is not None:
            self._move(index, job, transition, transition.target)
        else:
            self._change(index, job, transition)

    def _as_expected(self, job: J) -> ExpectedJob:
        return expected_job(job.state, job.token, job.priority, self.payload_of(job), job.at)

    def _repeats(self, job: J, transition: Transition) -> bool:
        if transition.token is None or transition.act not in REPEATABLE:
            return False
        return was_applied(transition, job.act, job.token, *self.result_and_history(job))

    def _change(self, index: int, job: J, transition: Transition) -> None:
        change = apply_to_job(job, transition, self.now, self.settings.ageing)
        self.write(job, transition, change)
        self._entries[index] = change.entry
        self.verdicts[index] = Verdict(True, job.state)
        self.freed_groups.add(job.group, change.source, job.state)
        if records_callback(transition, job.state):
            self._callback_entries[index] = job.num
        # Not for a repeated transition: keys deleted since must not reappear.
        for key in keys_to_write(transition, job.state):
            self.write_key(key, job)

    def _move(self, index: int, job: J, transition: Transition, target: QueueKey) -> None:
        moved = may_move(self.queue, target) and self.move(job, target)
        self.verdicts[index] = Verdict(moved, job.state)
        if moved:
            self._entries[index], moved_in = _move_entries(self.queue, transition, target, job)
            self.moved_in.append((target, moved_in))
            self.freed_groups.add(job.group, job.state, None)

    def record_completion(
        self,
        index: int,
        transition: Transition,
        num: int,
        kind: str,
        group: str | None,
        attempts: int,
        token: int,
        worker: str,
    ) -> None:
        """Record a plain completion whose job the store has found and writes by itself."""
        self._entries[index] = Entry(
            _COMPLETE, transition.id, kind, _PROCESSING, _COMPLETED, attempts, token, worker,
            transition.note, transition.by,
        )  # fmt: skip
        self.verdicts[index] = _COMPLETED_VERDICT
        if group is not None:
            self.freed_groups.add(group, _PROCESSING, _COMPLETED)
        if transition.has_callback:
            self._callback_entries[index] = num

    def entries(self) -> list[Entry]:
        """The journal entries of the queue, with the callback URL of jobs that have finished."""
        options = (
            self.options_of(sorted(self._callback_entries.values()))
            if self._callback_entries
            else {}
        )
        for index, num in self._callback_entries.items():
            entry, given = self._entries[index], options.get(num)
            if entry is not None and given is not None and given.callback_url is not None:
                self._entries[index] = msgspec.structs.replace(
                    entry, callback_url=given.callback_url
                )
        return [entry for entry in self._entries if entry is not None]


def _move_entries(
    source: QueueKey, transition: Transition, target: QueueKey, job: MutableJob
) -> tuple[Entry, Entry]:
    """The journal entries of a move, for the source queue and for the target queue."""
    moved_out = Entry(
        Act.MOVE,
        job.id,
        job.kind,
        job.state,
        None,
        job.attempts,
        by=transition.by,
        moved_from=source.name,
        moved_to=target.name,
    )
    moved_in = msgspec.structs.replace(moved_out, source=None, to=job.state, priority=job.priority)
    return moved_out, moved_in


def topics_to_notify(entries: Sequence[Entry | Event]) -> set[Topic]:
    """The topics to notify about a batch of the journal."""
    topics: set[Topic] = {"changes"} if entries else set()
    act: Act | None = None
    to: State | None = None
    for entry in entries:
        if entry.act is act and entry.to is to:
            continue
        act, to = entry.act, entry.to
        if act is Act.REQUEST_CANCEL:
            topics.add("cancel_requests")
        elif to in WAITING or act in _SETTINGS_ACTS:
            # Claimable now, or due earlier than waiting workers know.
            topics.add("ready")
        elif to is None or to.terminal:
            topics.add("finished")
    return topics
