"""A store that wraps another; subclasses change some of its calls."""

from __future__ import annotations

from collections.abc import Sequence

from ackline.core.config import QueueSettings
from ackline.core.events import Event
from ackline.core.job import Draft, QueueKey, Record
from ackline.core.lifecycle import Transition, Verdict
from ackline.stores.contract import (
    LEASES_LIMIT,
    MAX_ANSWER_BYTES,
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
    Store,
    StoreInfo,
    Subscription,
    Topic,
    WorkerRecord,
)


class WrappedStore:
    """Passes every call on unchanged."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.capabilities = inner.capabilities

    def open(self) -> None:
        self.inner.open()

    def close(self) -> None:
        self.inner.close()

    def info(self) -> StoreInfo:
        return self.inner.info()

    def now(self) -> float:
        return self.inner.now()

    def enqueue(
        self, queue: QueueKey, drafts: Sequence[Draft], keys: Sequence[KeyWrite] = ()
    ) -> list[Receipt]:
        return self.inner.enqueue(queue, drafts, keys)

    def claim(
        self, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition] = ()
    ) -> ClaimResult:
        return self.inner.claim(queue, request, transitions)

    def apply(self, queue: QueueKey, transitions: Sequence[Transition]) -> list[Verdict]:
        return self.inner.apply(queue, transitions)

    def join(self, connection: object) -> JoinContext:
        return self.inner.join(connection)

    def heartbeat(
        self,
        queue: QueueKey,
        heartbeat: Heartbeat | None,
        extensions: Sequence[LeaseExtension],
    ) -> HeartbeatReply:
        return self.inner.heartbeat(queue, heartbeat, extensions)

    def next_due(self, queues: Sequence[QueueKey]) -> list[NextDue]:
        return self.inner.next_due(queues)

    def promote(self, queue: QueueKey, limit: int) -> int:
        return self.inner.promote(queue, limit)

    def leases(
        self, queue: QueueKey, *, worker: str | None = None, limit: int = LEASES_LIMIT
    ) -> list[Record]:
        return self.inner.leases(queue, worker=worker, limit=limit)

    def prune(self, queue: QueueKey, limit: int, needed_after: str | None = None) -> int:
        return self.inner.prune(queue, limit, needed_after)

    def get(
        self, queue: QueueKey, ids: Sequence[str], max_bytes: int | None = None
    ) -> list[Record | None]:
        return self.inner.get(queue, ids, max_bytes)

    def page(
        self,
        queue: QueueKey,
        job_filter: Filter,
        cursor: str | None,
        limit: int,
        newest_first: bool = False,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> Page:
        return self.inner.page(queue, job_filter, cursor, limit, newest_first, max_bytes)

    def describe(
        self, tenant: str | None, name: str | None = None, *, include_dropped: bool = False
    ) -> list[QueueInfo]:
        return self.inner.describe(tenant, name, include_dropped=include_dropped)

    def workers(self, queues: Sequence[QueueKey]) -> list[list[WorkerRecord]]:
        return self.inner.workers(queues)

    def events(
        self,
        queue: QueueKey | None,
        after: str | None,
        limit: int,
        *,
        tenant: str | None = None,
    ) -> Sequence[Event]:
        return self.inner.events(queue, after, limit, tenant=tenant)

    def listen(
        self, queues: Sequence[QueueKey], topic: Topic, kinds: frozenset[str] | None = None
    ) -> Listener:
        return self.inner.listen(queues, topic, kinds)

    def subscribe(self) -> Subscription:
        return self.inner.subscribe()

    def configure(
        self,
        queue: QueueKey,
        settings: QueueSettings,
        by: str = "",
        *,
        expected: QueueSettings | None = None,
    ) -> bool:
        return self.inner.configure(queue, settings, by, expected=expected)

    def purge(self, queue: QueueKey, job_filter: Filter, limit: int, by: str = "") -> int:
        return self.inner.purge(queue, job_filter, limit, by)

    def drop(self, queue: QueueKey, by: str = "") -> bool:
        return self.inner.drop(queue, by)

    def read_keys(
        self,
        tenant: str,
        prefix: tuple[str, ...],
        limit: int,
        after: tuple[str, ...] | None = None,
        max_bytes: int | None = None,
    ) -> list[KeyValue]:
        return self.inner.read_keys(tenant, prefix, limit, after, max_bytes)

    def write_keys(self, tenant: str, writes: Sequence[KeyWrite]) -> bool:
        return self.inner.write_keys(tenant, writes)
