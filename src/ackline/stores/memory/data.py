"""The data of a memory store: its queues, each with its jobs in ordered lists, and its keys."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable

import msgspec

from ackline.core.config import DEFAULT_SETTINGS, QueueSettings
from ackline.core.events import Entry, JournalBatch, make_cursor
from ackline.core.job import Draft, Failure, Options, QueueKey, Record, State
from ackline.stores.contract import HISTORY_LIMIT, Filter, Heartbeat, KeyValue, Subject
from ackline.stores.memory.notify import Listeners
from ackline.stores.shared import paging
from ackline.stores.shared.apply import MutableJob, topics_to_notify
from ackline.stores.shared.groups import FreedGroups
from ackline.stores.shared.record_encoding import make_record


class StoredJob(MutableJob):
    """A job in memory. It is in exactly one list, at `at`."""

    __slots__ = ("created_at", "history", "job_list", "options", "payload")

    def __init__(self, num: int, draft: Draft, now: float) -> None:
        super().__init__(num, draft.id, draft.kind, draft.options.group, draft.priority)
        self.payload = draft.payload
        self.options: Options = draft.options
        self.created_at = now
        self.job_list: JobList | None = None
        self.history: deque[Failure] | tuple[()] = ()

    def size(self, *, history: bool = True) -> int:
        """The approximate size in bytes in another store."""
        options = self.options
        return (
            len(self.payload)
            + len(self.progress or b"")
            + len(self.result or b"")
            + sum(len(name) + len(value) for name, value in options.headers.items())
            + sum(len(part) for key in options.keys_if_undelivered for part in key)
            + sum(len(one.message) + len(one.traceback) for one in self.history if history)
        )

    def add_attempt(self, attempt: Failure) -> None:
        """Add an attempt that did not complete; the oldest ones are dropped."""
        if isinstance(self.history, tuple):
            self.history = deque(maxlen=HISTORY_LIMIT)
        self.history.append(attempt)

    def record(self, *, history: bool = True) -> Record:
        """The record of the job."""
        return make_record(
            self.id, self.kind, self.state, self.payload, self.priority, self.options,
            self.attempts, self.created_at, self.token, self.worker, self.started_at, self.at,
            self.finished_at, self.cancel_requested, self.progress, self.result,
            tuple(self.history) if history else (),
        )  # fmt: skip


ListEntry = tuple[float, int, StoredJob]

SortedJob = tuple[paging.SortKey, StoredJob]
"""A job with its sort key in pages."""


class JobList:
    """Jobs ordered by (at, num).

    Jobs mostly arrive in order, so they are in a deque that is read from its front; the few that
    belong before its last entry are in a heap. A job that has moved to another list leaves an
    outdated entry behind, which is skipped later.
    """

    __slots__ = ("count", "heap", "tail")

    def __init__(self) -> None:
        self.tail: deque[ListEntry] = deque()
        self.heap: list[ListEntry] = []
        self.count = 0

    def add(self, job: StoredJob, at: float) -> None:
        """Move a job from its current list, if any, to this one."""
        if job.job_list is not None:
            job.job_list.count -= 1
        job.job_list = self
        job.at = at
        self.count += 1
        tail, num = self.tail, job.num
        if not tail or at > tail[-1][0] or (at == tail[-1][0] and num >= tail[-1][1]):
            tail.append((at, num, job))
        else:
            heapq.heappush(self.heap, (at, num, job))
        if len(tail) + len(self.heap) > 2 * self.count + 64:
            self._compact()

    def first(self) -> StoredJob | None:
        """The first job of the list."""
        tail, heap = self.tail, self.heap
        while tail and not self._is_current(tail[0]):
            tail.popleft()
        while heap and not self._is_current(heap[0]):
            heapq.heappop(heap)
        if heap and (not tail or heap[0] < tail[0]):
            return heap[0][2]
        return tail[0][2] if tail else None

    def first_due(self, now: float) -> StoredJob | None:
        """The first job, if it is due."""
        job = self.first()
        return job if job is not None and job.at <= now else None

    def jobs(self) -> list[StoredJob]:
        """All jobs of this list, in order."""
        entries = filter(self._is_current, (*self.tail, *self.heap))
        jobs = {job.num: job for _, _, job in entries}
        return sorted(jobs.values(), key=lambda job: (job.at, job.num))

    def _is_current(self, entry: ListEntry) -> bool:
        at, _, job = entry
        return job.job_list is self and job.at == at

    def _compact(self) -> None:
        self.tail = deque((job.at, job.num, job) for job in self.jobs())
        self.heap = []


class WorkerEntry(msgspec.Struct, frozen=True):
    """A worker's last heartbeat."""

    heartbeat: Heartbeat
    received_at: float
    expires_at: float


class QueueData:
    """All data of one queue."""

    def __init__(self, key: QueueKey) -> None:
        self.key = key
        self.settings: QueueSettings = DEFAULT_SETTINGS
        self.is_dropped = False
        """Whether the queue was dropped, so that only its journal is left."""
        self.jobs: dict[str, StoredJob] = {}
        self._jobs_by_age = True
        self.ready: dict[str, JobList] = {}
        self.parked: dict[str, dict[str, JobList]] = {}
        self.running: dict[str, int] = {}
        self.lists: dict[State, JobList] = {state: JobList() for state in State}
        self.journal: list[JournalBatch] = []
        self.events = 0
        self.last_trimmed = (0, 0)
        self.workers: dict[str, WorkerEntry] = {}
        self.last_token = 0
        self.sorted_jobs: dict[bool, list[SortedJob]] = {}
        """Its jobs in the order of pages (newest first or not), until one of them changes."""

    def find(self, id: str, now: float) -> StoredJob | None:
        """The job with this id, unless its retention has ended."""
        job = self.jobs.get(id)
        return None if job is not None and job.past_retention(now) else job

    def add_moved(self, job: StoredJob) -> None:
        """Add a job that was moved here; it may be older than the other jobs."""
        self.jobs[job.id] = job
        self._jobs_by_age = False

    def candidates(self, job_filter: Filter) -> Iterable[StoredJob]:
        """The jobs that may match, oldest first: those with the filter's ids, or else all."""
        if job_filter.ids is None:
            if not self._jobs_by_age:
                self.jobs = dict(sorted(self.jobs.items(), key=lambda item: item[1].num))
                self._jobs_by_age = True
            return self.jobs.values()
        found = [job for id in job_filter.ids if (job := self.jobs.get(id)) is not None]
        return sorted(found, key=lambda job: job.num)

    def set_state(self, job: StoredJob, state: State, at: float) -> None:
        """Move a job to the list of a state."""
        if self.sorted_jobs:
            self.sorted_jobs.clear()
        job.state = state
        if state is State.QUEUED:
            job.rank = at
            ready = self.ready.get(job.kind)
            if ready is None:
                ready = self.ready[job.kind] = JobList()
            ready.add(job, at)
        else:
            self.lists[state].add(job, at)

    def drop(self, job: StoredJob) -> None:
        """Delete a job."""
        self.sorted_jobs.clear()
        if job.job_list is not None:
            job.job_list.count -= 1
            job.job_list = None
        del self.jobs[job.id]

    def park(self, job: StoredJob) -> None:
        """Park a queued job, because its group is full."""
        by_kind = self.parked.setdefault(job.group or "", {})
        by_kind.setdefault(job.kind, JobList()).add(job, job.rank)

    def unpark(self, group: str) -> bool:
        """Unpark as many jobs of a group as it has free slots; False if there are none.

        That many of each kind, because workers may want only some kinds. The next claim parks
        those that are too many.
        """
        free_slots, found = self.settings.group_limit - self.running.get(group, 0), False
        for parked in self.parked.get(group, {}).values():
            for _ in range(min(free_slots, parked.count)):
                if (job := parked.first()) is not None:
                    self.set_state(job, State.QUEUED, job.rank)
                    found = True
        return found

    def drop_empty_lists(self) -> None:
        """Drop the lists of kinds and groups that have no jobs any more."""
        self.ready = {kind: jobs for kind, jobs in self.ready.items() if jobs.count}
        self.parked = {
            group: kept
            for group, by_kind in self.parked.items()
            if (kept := {kind: jobs for kind, jobs in by_kind.items() if jobs.count})
        }

    def next_token(self, now: float) -> int:
        """A token above every earlier one, even if the store was restored from a backup."""
        self.last_token = max(self.last_token + 1, int(now * 1e6))
        return self.last_token

    def counts(self) -> dict[State, int]:
        """How many jobs are in each state."""
        counts = {state: jobs.count for state, jobs in self.lists.items()}
        parked = (jobs for by_kind in self.parked.values() for jobs in by_kind.values())
        counts[State.QUEUED] = sum(jobs.count for jobs in (*self.ready.values(), *parked))
        return counts


class StoreData:
    """The data of one memory store; its caller holds the lock."""

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = listeners
        self.pending_wakeups: set[Subject] = set()
        """What listeners are notified about once the lock is released."""
        self.queues: dict[QueueKey, QueueData] = {}
        self.keys: dict[tuple[str, tuple[str, ...]], KeyValue] = {}
        self._last_job = 0
        self._last_batch = 0
        self._last_version = 0

    def queue(self, queue: QueueKey) -> QueueData:
        """The data of a queue; if it does not exist, an empty one that is not kept."""
        return self.queues.get(queue) or QueueData(queue)

    def ensure_queue(self, queue: QueueKey) -> QueueData:
        """The data of a queue, created if necessary."""
        data = self.queues.get(queue)
        if data is None:
            data = self.queues[queue] = QueueData(queue)
        data.is_dropped = False
        return data

    def write_journal(self, data: QueueData, at: float, entries: list[Entry]) -> None:
        """Append one batch, in the same step as the changes that it records."""
        if entries:
            self._last_batch += 1
            data.journal.append(JournalBatch(self._last_batch, at, data.key, entries))
            data.events += len(entries)
            if self._listeners.any:
                self.pending_wakeups |= {(data.key, topic) for topic in topics_to_notify(entries)}

    def free_groups(self, data: QueueData, freed: FreedGroups) -> None:
        """Subtract ended leases, and unpark jobs of these groups."""
        for group, count in freed.items():
            data.running[group] = running = data.running.get(group, 0) - count
            if running <= 0:
                del data.running[group]
            if data.unpark(group):
                self.pending_wakeups.add((data.key, "ready"))

    def journal_end(self) -> str:
        """The cursor at the end of the journal."""
        return make_cursor(self._last_batch + 1, 0)

    def next_job(self) -> int:
        self._last_job += 1
        return self._last_job

    def put_key(self, tenant: str, key: tuple[str, ...], value: bytes) -> None:
        """Set a key, with a version that was never used before."""
        self._last_version += 1
        self.keys[tenant, key] = KeyValue(key=key, value=value, version=self._last_version)
