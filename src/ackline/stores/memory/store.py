"""The memory store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ackline.core.clock import Clock, SystemClock
from ackline.core.config import QueueSettings, validated_settings
from ackline.core.errors import ConfigError, StoreClosed
from ackline.core.events import Events
from ackline.core.job import Draft, QueueKey, Record
from ackline.core.lifecycle import Transition, Verdict
from ackline.stores.contract import (
    LEASES_LIMIT,
    MAX_ANSWER_BYTES,
    Capabilities,
    ClaimRequest,
    ClaimResult,
    Filter,
    Heartbeat,
    HeartbeatReply,
    JoinContext,
    KeyValue,
    KeyWrite,
    LeaseExtension,
    Listener,
    NextDue,
    Page,
    QueueInfo,
    Receipt,
    StoreInfo,
    Subscription,
    Topic,
    WorkerRecord,
    refuse_to_join,
)
from ackline.stores.memory import jobs, operate, queries
from ackline.stores.memory.apply import apply
from ackline.stores.memory.data import StoreData
from ackline.stores.memory.notify import Listeners
from ackline.stores.shared.retention import prune_in_steps

T = TypeVar("T")


class MemoryStore:
    """Keeps jobs in the memory of this process, until it ends.

    >>> store = MemoryStore()
    >>> store.open()
    """

    capabilities = Capabilities(
        name="memory", persistent=False, shared=False, batch_size=500, max_journal=1_000_000
    )

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._listeners = Listeners()
        self._stored = StoreData(self._listeners)
        self._closed = False

    def open(self) -> None:
        """Open the store; one that was closed has its jobs again."""
        self._closed = False

    def close(self) -> None:
        """Refuse further calls; the jobs stay as long as the store object."""
        self._closed = True

    def _require_open(self) -> None:
        if self._closed:
            raise StoreClosed("the memory store is closed: open() it")

    @property
    def _data(self) -> StoreData:
        self._require_open()
        return self._stored

    def _write(self, change: Callable[..., T], *args: Any) -> T:
        """Change the data and notify the listeners."""
        with self._lock:
            self._require_open()
            answer = change(self._stored, *args, self._clock.now())
            if wakeups := self._stored.pending_wakeups:
                self._stored.pending_wakeups = set()
        if wakeups:
            self._listeners.notify(wakeups)
        return answer

    def info(self) -> StoreInfo:
        return StoreInfo(
            name="memory",
            location="this process",
            durability="none: jobs live as long as this process",
            durable=False,
            version="1",
            schema=1,
            now=self._clock.now(),
            cursor=self._data.journal_end(),
        )

    def now(self) -> float:
        self._require_open()
        return self._clock.now()

    def enqueue(
        self, queue: QueueKey, drafts: Sequence[Draft], keys: Sequence[KeyWrite] = ()
    ) -> list[Receipt]:
        return self._write(jobs.enqueue, queue, drafts, keys)

    def claim(
        self, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition] = ()
    ) -> ClaimResult:
        return self._write(jobs.claim, queue, request, transitions)

    def apply(self, queue: QueueKey, transitions: Sequence[Transition]) -> list[Verdict]:
        return self._write(apply, queue, transitions)

    def join(self, connection: object) -> JoinContext:
        del connection
        return refuse_to_join("memory")

    def heartbeat(
        self,
        queue: QueueKey,
        heartbeat: Heartbeat | None,
        extensions: Sequence[LeaseExtension],
    ) -> HeartbeatReply:
        return self._write(jobs.heartbeat, queue, heartbeat, extensions)

    def next_due(self, queues: Sequence[QueueKey]) -> list[NextDue]:
        with self._lock:
            return [queries.next_due(self._data.queue(queue)) for queue in queues]

    def promote(self, queue: QueueKey, limit: int) -> int:
        return self._write(jobs.promote, queue, limit)

    def leases(
        self, queue: QueueKey, *, worker: str | None = None, limit: int = LEASES_LIMIT
    ) -> list[Record]:
        with self._lock:
            return queries.leases(self._data.queue(queue), worker, limit, self._clock.now())

    def prune(self, queue: QueueKey, limit: int, needed_after: str | None = None) -> int:
        max_events = self.capabilities.max_journal
        return prune_in_steps(
            queue,
            limit,
            lambda left: self._write(operate.prune, queue, left, max_events, needed_after),
        )

    def get(
        self, queue: QueueKey, ids: Sequence[str], max_bytes: int | None = None
    ) -> list[Record | None]:
        with self._lock:
            return queries.get(self._data.queue(queue), ids, max_bytes, self._clock.now())

    def page(
        self,
        queue: QueueKey,
        job_filter: Filter,
        cursor: str | None,
        limit: int,
        newest_first: bool = False,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> Page:
        with self._lock:
            data, now = self._data.queue(queue), self._clock.now()
            return queries.page(data, job_filter, cursor, limit, newest_first, max_bytes, now)

    def describe(
        self, tenant: str | None, name: str | None = None, *, include_dropped: bool = False
    ) -> list[QueueInfo]:
        with self._lock:
            return queries.describe(self._data, tenant, name, include_dropped)

    def workers(self, queues: Sequence[QueueKey]) -> list[list[WorkerRecord]]:
        with self._lock:
            return [queries.workers(self._data.queue(queue)) for queue in queues]

    def events(
        self,
        queue: QueueKey | None,
        after: str | None,
        limit: int,
        *,
        tenant: str | None = None,
    ) -> Events:
        with self._lock:
            return queries.events(self._data, queue, after, limit, tenant)

    def listen(
        self, queues: Sequence[QueueKey], topic: Topic, kinds: frozenset[str] | None = None
    ) -> Listener:
        del kinds  # waking everyone is cheap within a process
        self._require_open()
        return self._listeners.add(queues, topic)

    def subscribe(self) -> Subscription:
        self._require_open()
        return self._listeners.subscribe()

    def configure(
        self,
        queue: QueueKey,
        settings: QueueSettings,
        by: str = "",
        *,
        expected: QueueSettings | None = None,
    ) -> bool:
        return self._write(operate.configure, queue, validated_settings(settings), expected, by)

    def purge(self, queue: QueueKey, job_filter: Filter, limit: int, by: str = "") -> int:
        return self._write(operate.purge, queue, job_filter, limit, by)

    def drop(self, queue: QueueKey, by: str = "") -> bool:
        return self._write(operate.drop, queue, by)

    def read_keys(
        self,
        tenant: str,
        prefix: tuple[str, ...],
        limit: int,
        after: tuple[str, ...] | None = None,
        max_bytes: int | None = None,
    ) -> list[KeyValue]:
        with self._lock:
            return operate.read_keys(self._data, tenant, prefix, limit, after, max_bytes)

    def write_keys(self, tenant: str, writes: Sequence[KeyWrite]) -> bool:
        with self._lock:
            return operate.write_keys(self._data, tenant, writes)


def from_url(url: str, clock: Clock | None = None) -> MemoryStore:
    """A new, empty store; the URL is always `memory://`."""
    if url != "memory://":
        raise ConfigError(f"{url!r}: a memory store has no name or options, write memory://")
    return MemoryStore(clock)
