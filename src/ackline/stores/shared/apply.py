"""What transitions do: to jobs, groups and keys, to the journal, and who is woken.

A store finds the jobs of a batch, and writes what has changed; everything else happens here.
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
    guard_holds,
    history_entry,
    journal_note,
    journal_priority,
    keys_to_write,
    may_move,
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
    """A job as transitions see and change it; a store adds where it keeps the job."""

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
        """Its place in the line of its state."""
        self.rank = 0.0
        """Its place in the line of queued jobs, when it was there last."""
        self.attempts = 0
        self.token = 0
        self.worker = ""
        self.started_at: float | None = None
        self.finished_at: float | None = None
        self.act: Act | None = None
        """How its last lease ended."""
        self.cancel_requested = False
        self.progress: bytes | None = None
        self.result: bytes | None = None

    def past_retention(self, now: float) -> bool:
        """Whether its retention has ended, so that it counts as gone."""
        return self.state.terminal and self.at <= now


class AppliedChange(msgspec.Struct, frozen=True, gc=False):
    """What an applied transition has done to a job, besides what the job itself shows."""

    source: State
    destination: Destination
    entry: Entry
    attempt: Failure | None
    """The attempt that has ended without completing, for the job's history."""


def apply_to_job(
    job: MutableJob, transition: Transition, now: float, ageing: float
) -> AppliedChange:
    """Change a job as a transition says whose guard holds."""
    source = job.state
    landing = find_destination(transition, source, job.cancel_requested)
    attempts, token, worker = job.attempts, job.token, job.worker
    ended = None
    if transition.act is Act.PROGRESS:
        job.progress = transition.progress
    elif transition.act is Act.REQUEST_CANCEL:
        job.cancel_requested = True
    if source is State.PROCESSING and landing.state is not source:
        ended = history_entry(transition, attempts, worker, job.started_at or 0.0, now)
        job.act = transition.act
        job.cancel_requested = False
    if transition.attempts is not None:
        job.attempts = transition.attempts
    old_priority = job.priority
    if transition.edit is not None and transition.edit.priority is not None:
        job.priority = transition.edit.priority
    job.state, job.at = (
        landing.state,
        find_position(
            landing,
            now,
            at=job.at,
            old_rank=job.rank,
            old_priority=old_priority,
            priority=job.priority,
            ageing=ageing,
        ),
    )
    if landing.state is State.QUEUED:
        job.rank = job.at
    if not landing.state.terminal:
        job.finished_at = None
    elif landing.state is not source:
        job.finished_at, job.result = now, transition.result
    entry = Entry(
        transition.act, job.id, job.kind, source, landing.state, attempts, token, worker,
        journal_note(transition), transition.by, journal_priority(transition, job.priority),
    )  # fmt: skip
    return AppliedChange(source, landing, entry, ended)


J = TypeVar("J", bound=MutableJob)


class ApplyPlan(ABC, Generic[J]):
    """The transitions of one call, on their way into a store."""

    def __init__(self, queue: QueueKey, settings: QueueSettings, size: int, now: float) -> None:
        self.queue = queue
        self.settings = settings
        self.now = now
        self.verdicts = [NO_JOB] * size
        self.freed_groups = FreedGroups()
        self.moved_in: list[tuple[QueueKey, Entry]] = []
        """The entries for the journals of the queues that jobs were moved to."""
        self._entries: list[Entry | None] = [None] * size
        self._callback_entries: dict[int, int] = {}
        """Entries that end the life of a job that may call back, each with the job's number."""

    # --- what a store adds ---

    @abstractmethod
    def find(self, id: str) -> J | None:
        """The job of this id, as earlier transitions of the batch have left it."""

    @abstractmethod
    def payload_of(self, job: J) -> bytes: ...

    @abstractmethod
    def last_settling(self, job: J) -> tuple[bytes | None, Sequence[Failure]]:
        """Its result, and its attempts that ended without completing."""

    @abstractmethod
    def options_of(self, jobs: Sequence[int], /) -> Mapping[int, Options]:
        """The options of those of these jobs that have any."""

    @abstractmethod
    def write(self, job: J, transition: Transition, change: AppliedChange) -> None:
        """Write, now or when the batch ends, how a job has changed."""

    @abstractmethod
    def write_key(self, key: tuple[str, ...], job: J) -> None:
        """Write a key of the tenant, with the job's payload."""

    @abstractmethod
    def move(self, job: J, target: QueueKey) -> bool:
        """Hand a job to another queue; False if that has a job of its id."""

    # --- what is the same for all ---

    def apply(self, index: int, transition: Transition) -> None:
        """Apply a transition if its guard holds."""
        job, now = self.find(transition.id), self.now
        if job is None or job.past_retention(now):
            return
        deadline = job.at if job.state is State.PROCESSING else None
        if transition.expected is not None and transition.expected != self._seen_now(job):
            self.verdicts[index] = Verdict(False, job.state)
        elif not guard_holds(transition, job.state, job.token, deadline, now):
            self.verdicts[index] = Verdict(self._repeats(job, transition), job.state)
        elif transition.target is not None:
            self._move(index, job, transition, transition.target)
        else:
            self._step(index, job, transition)

    def _seen_now(self, job: J) -> ExpectedJob:
        return expected_job(job.state, job.token, job.priority, self.payload_of(job), job.at)

    def _repeats(self, job: J, transition: Transition) -> bool:
        if transition.token is None or transition.act not in REPEATABLE:
            return False
        return was_applied(transition, job.act, job.token, *self.last_settling(job))

    def _step(self, index: int, job: J, transition: Transition) -> None:
        done = apply_to_job(job, transition, self.now, self.settings.ageing)
        self.write(job, transition, done)
        self._entries[index] = done.entry
        self.verdicts[index] = Verdict(True, job.state)
        self.freed_groups.add(job.group, done.source, job.state)
        if records_callback(transition, job.state):
            self._callback_entries[index] = job.num
        # Not if it was applied before: keys that were cleaned up since must not come back.
        for key in keys_to_write(transition, job.state):
            self.write_key(key, job)

    def _move(self, index: int, job: J, transition: Transition, target: QueueKey) -> None:
        moved = may_move(self.queue, target) and self.move(job, target)
        self.verdicts[index] = Verdict(moved, job.state)
        if moved:
            self._entries[index], arrival = _move_entries(self.queue, transition, target, job)
            self.moved_in.append((target, arrival))
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
        """Note a plain completion of a lease that the store has found, and writes by itself."""
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
        """The entries for the queue's journal, those that end a job with its callback URL."""
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
    """A move's entries in the journals of both queues: the departure, then the arrival."""
    left = Entry(
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
    return left, msgspec.structs.replace(left, source=None, to=job.state, priority=job.priority)


def topics_to_notify(entries: Sequence[Entry | Event]) -> set[Topic]:
    """Whose listeners must be woken for a batch of the journal."""
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
            # Claimable now, or due sooner than the workers that wait for the next due job know.
            topics.add("ready")
        elif to is None or to.terminal:
            topics.add("finished")
    return topics
