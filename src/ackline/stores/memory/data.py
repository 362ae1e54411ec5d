"""The data of a memory store: its queues, each with its jobs in ordered lines, and its keys."""

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
    """A job in memory. It stands in exactly one line, at `at`."""

    __slots__ = ("created_at", "history", "job_list", "options", "payload")

    def __init__(self, num: int, draft: Draft, now: float) -> None:
        super().__init__(num, draft.id, draft.kind, draft.options.group, draft.priority)
        self.payload = draft.payload
        self.options: Options = draft.options
        self.created_at = now
        self.job_list: JobList | None = None
        self.history: deque[Failure] | tuple[()] = ()

    def size(self, *, history: bool = True) -> int:
        """About how many bytes another store would need for it."""
        options = self.options
        return (
            len(self.payload)
            + len(self.progress or b"")
            + len(self.result or b"")
            + sum(len(name) + len(value) for name, value in options.headers.items())
            + sum(len(part) for key in options.keys_if_undelivered for part in key)
            + sum(len(end.message) + len(end.traceback) for end in self.history if history)
        )

    def add_attempt(self, ended: Failure) -> None:
        """Add an attempt that did not complete; the oldest fall out."""
        if isinstance(self.history, tuple):
            self.history = deque(maxlen=HISTORY_LIMIT)
        self.history.append(ended)

    def record(self, *, history: bool = True) -> Record:
        """The job as others see it."""
        return make_record(
            self.id, self.kind, self.state, self.payload, self.priority, self.options,
            self.attempts, self.created_at, self.token, self.worker, self.started_at, self.at,
            self.finished_at, self.cancel_requested, self.progress, self.result,
            tuple(self.history) if history else (),
        )  # fmt: skip


ListEntry = tuple[float, int, StoredJob]

SortedJob = tuple[paging.SortKey, StoredJob]
"""A job, and its place in a list of all jobs."""


class JobList:
    """Jobs ordered by (at, num).

    Jobs mostly come in order, so they stand in a plain row that is taken from its front; the
    few that belong before the row's end are kept in a heap. A job that has moved leaves an
    outdated place behind, which is skipped when met.
    """

    __slots__ = ("count", "heap", "tail")

    def __init__(self) -> None:
        self.tail: deque[ListEntry] = deque()
        self.heap: list[ListEntry] = []
        self.count = 0

    def add(self, job: StoredJob, at: float) -> None:
        """Take a job out of the line it stands in, if any, and let it stand in this one."""
        if job.job_list is not None:
            job.job_list.count -= 1
        job.job_list = self
        job.at = at
        self.count += 1
        row, num = self.tail, job.num
        if not row or at > row[-1][0] or (at == row[-1][0] and num >= row[-1][1]):
            row.append((at, num, job))
        else:
            heapq.heappush(self.heap, (at, num, job))
        if len(row) + len(self.heap) > 2 * self.count + 64:
            self._compact()

    def first(self) -> StoredJob | None:
        """The job at the head of the line."""
        row, heap = self.tail, self.heap
        while row and not self._is_current(row[0]):
            row.popleft()
        while heap and not self._is_current(heap[0]):
            heapq.heappop(heap)
        if heap and (not row or heap[0] < row[0]):
            return heap[0][2]
        return row[0][2] if row else None

    def first_due(self, now: float) -> StoredJob | None:
        """The job at the head, if its time has come."""
        job = self.first()
        return job if job is not None and job.at <= now else None

    def jobs(self) -> list[StoredJob]:
        """All jobs of this line, in order."""
        standing = filter(self._is_current, (*self.tail, *self.heap))
        seen = {job.num: job for _, _, job in standing}
        return sorted(seen.values(), key=lambda job: (job.at, job.num))

    def _is_current(self, place: ListEntry) -> bool:
        at, _, job = place
        return job.job_list is self and job.at == at

    def _compact(self) -> None:
        self.tail = deque((job.at, job.num, job) for job in self.jobs())
        self.heap = []


class WorkerEntry(msgspec.Struct, frozen=True):
    """A worker's last sign of life."""

    beat: Heartbeat
    seen_at: float
    expires_at: float


class QueueData:
    """Everything that the store holds of one queue."""

    def __init__(self, key: QueueKey) -> None:
        self.key = key
        self.settings: QueueSettings = DEFAULT_SETTINGS
        self.is_dropped = False
        """Whether only its journal is left."""
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
        """Its jobs in the order of pages (newest first or not), until one of them moves."""

    def find(self, id: str, now: float) -> StoredJob | None:
        """The job of this id, unless its retention is over."""
        job = self.jobs.get(id)
        return None if job is not None and job.past_retention(now) else job

    def add_moved(self, job: StoredJob) -> None:
        """Keep a job that was moved here: it may be older than those that are here."""
        self.jobs[job.id] = job
        self._jobs_by_age = False

    def candidates(self, which: Filter) -> Iterable[StoredJob]:
        """The jobs to search for matches, the oldest first: those of its ids, or else all."""
        if which.ids is None:
            if not self._jobs_by_age:
                self.jobs = dict(sorted(self.jobs.items(), key=lambda item: item[1].num))
                self._jobs_by_age = True
            return self.jobs.values()
        named = [job for id in which.ids if (job := self.jobs.get(id)) is not None]
        return sorted(named, key=lambda job: job.num)

    def set_state(self, job: StoredJob, state: State, at: float) -> None:
        """Put a job in the line of a state."""
        if self.sorted_jobs:
            self.sorted_jobs.clear()
        job.state = state
        if state is State.QUEUED:
            job.rank = at
            line = self.ready.get(job.kind)
            if line is None:
                line = self.ready[job.kind] = JobList()
            line.add(job, at)
        else:
            self.lists[state].add(job, at)

    def drop(self, job: StoredJob) -> None:
        """Forget a job, wherever it is kept."""
        self.sorted_jobs.clear()
        if job.job_list is not None:
            job.job_list.count -= 1
            job.job_list = None
        del self.jobs[job.id]

    def park(self, job: StoredJob) -> None:
        """Set a queued job aside: its group has as many jobs running as allowed."""
        by_kind = self.parked.setdefault(job.group or "", {})
        by_kind.setdefault(job.kind, JobList()).add(job, job.rank)

    def unpark(self, group: str) -> bool:
        """Let as many parked jobs of a group stand in line as it has places for; False if none.

        That many of each kind, because workers may want only some kinds. The next claim parks
        those that are too many.
        """
        places, found = self.settings.group_limit - self.running.get(group, 0), False
        for line in self.parked.get(group, {}).values():
            for _ in range(min(places, line.count)):
                if (job := line.first()) is not None:
                    self.set_state(job, State.QUEUED, job.rank)
                    found = True
        return found

    def drop_empty_lists(self) -> None:
        """Drop the lines of kinds and groups that have no jobs any more."""
        self.ready = {kind: line for kind, line in self.ready.items() if line.count}
        self.parked = {
            group: kept
            for group, by_kind in self.parked.items()
            if (kept := {kind: line for kind, line in by_kind.items() if line.count})
        }

    def next_token(self, now: float) -> int:
        """A token above every earlier one, even if a store was restored from a copy."""
        self.last_token = max(self.last_token + 1, int(now * 1e6))
        return self.last_token

    def counts(self) -> dict[State, int]:
        """How many jobs stand in each state."""
        counts = {state: line.count for state, line in self.lists.items()}
        parked = (line for by_kind in self.parked.values() for line in by_kind.values())
        counts[State.QUEUED] = sum(line.count for line in (*self.ready.values(), *parked))
        return counts


class StoreData:
    """The data of one memory store; its caller holds the lock."""

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = listeners
        self.pending_wakeups: set[Subject] = set()
        """What listeners are to be told when the lock is released."""
        self.queues: dict[QueueKey, QueueData] = {}
        self.keys: dict[tuple[str, tuple[str, ...]], KeyValue] = {}
        self._last_job = 0
        self._last_batch = 0
        self._last_version = 0

    def queue(self, queue: QueueKey) -> QueueData:
        """The data of a queue; if there is none, an empty one that is not kept."""
        return self.queues.get(queue) or QueueData(queue)

    def ensure_queue(self, queue: QueueKey) -> QueueData:
        """The data of a queue, made if need be."""
        data = self.queues.get(queue)
        if data is None:
            data = self.queues[queue] = QueueData(queue)
        data.is_dropped = False
        return data

    def write_journal(self, data: QueueData, at: float, entries: list[Entry]) -> None:
        """Append one batch, in the same step as the changes that it reports."""
        if entries:
            self._last_batch += 1
            data.journal.append(JournalBatch(self._last_batch, at, data.key, entries))
            data.events += len(entries)
            if self._listeners.any:
                self.pending_wakeups.update(
                    (data.key, topic) for topic in topics_to_notify(entries)
                )

    def free_groups(self, data: QueueData, left: FreedGroups) -> None:
        """Count ended leases, and let parked jobs of these groups stand in line again."""
        for group, count in left.items():
            data.running[group] = running = data.running.get(group, 0) - count
            if running <= 0:
                del data.running[group]
            if data.unpark(group):
                self.pending_wakeups.add((data.key, "ready"))

    def journal_end(self) -> str:
        """The cursor after everything that has happened."""
        return make_cursor(self._last_batch + 1, 0)

    def next_job(self) -> int:
        self._last_job += 1
        return self._last_job

    def put_key(self, tenant: str, key: tuple[str, ...], value: bytes) -> None:
        """Set a key under a version that was never used before."""
        self._last_version += 1
        self.keys[tenant, key] = KeyValue(key=key, value=value, version=self._last_version)
