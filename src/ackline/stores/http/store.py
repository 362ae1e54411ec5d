"""The store over HTTP."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ackline.core.clock import Clock
from ackline.core.config import QueueSettings, validated_settings
from ackline.core.errors import ConfigError
from ackline.core.events import Event
from ackline.core.job import Draft, QueueKey, Record, State
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
    Store,
    StoreInfo,
    Subscription,
    Topic,
    WorkerRecord,
    refuse_to_join,
)
from ackline.stores.http.address import Address, read_address
from ackline.stores.http.client import StoreClient
from ackline.stores.http.connection import ConnectionPool
from ackline.stores.http.notify import HttpListener, HttpSubscription
from ackline.stores.shared.byte_limit import ByteLimit
from ackline.stores.wire import LISTEN, VERBS, tenant_of


class HttpStore:
    """Keeps jobs in a service, with the guarantees of the service's own store.

    >>> store = HttpStore(read_address("https://jobs.example.com/api"), token)  # doctest: +SKIP
    """

    capabilities = Capabilities(
        name="http", persistent=True, shared=True, batch_size=200, max_journal=1_000_000
    )
    """Used until the store is open; then those of the service."""

    def __init__(self, address: Address, token: str | None = None) -> None:
        self._connections = ConnectionPool(address, token)
        self._client = StoreClient(self._connections)
        self._listeners: set[HttpListener] = set()

    def open(self) -> None:
        self._connections.open()
        try:
            self.capabilities = self._client.handshake().capabilities
        except BaseException:
            self._connections.close()
            raise

    def close(self) -> None:
        for listener in list(self._listeners):
            listener.close()
        self._connections.close()

    @property
    def tenant(self) -> str:
        """The tenant whose queues the token gives access to."""
        return self._client.limits.tenant

    def info(self) -> StoreInfo:
        info = self._client.call(Store.info)
        return msgspec.structs.replace(
            info,
            name="http",
            location=self._connections.where,
            version=f"{self._client.limits.version} over {info.name} {info.version}",
        )

    def now(self) -> float:
        return self._client.call(Store.now)

    # --- producing and consuming ---

    def enqueue(
        self, queue: QueueKey, drafts: Sequence[Draft], keys: Sequence[KeyWrite] = ()
    ) -> list[Receipt]:
        if keys:
            # The keys are written together with all the jobs or not at all: in one request.
            return self._client.call(Store.enqueue, queue=queue, drafts=drafts, keys=keys)
        return self._client.call_each(Store.enqueue, "drafts", queue=queue, drafts=drafts)

    def claim(
        self, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition] = ()
    ) -> ClaimResult:
        request = msgspec.structs.replace(request, limit=self._client.clamp_limit(request.limit))
        arguments = {"queue": queue, "request": request, "transitions": transitions}
        if transitions and self._client.exceeds_limits(transitions, VERBS["claim"].pack(arguments)):
            verdicts = self.apply(queue, transitions)
            return msgspec.structs.replace(self.claim(queue, request), verdicts=verdicts)
        return self._client.call(Store.claim, **arguments)

    def apply(self, queue: QueueKey, transitions: Sequence[Transition]) -> list[Verdict]:
        return self._client.call_each(
            Store.apply, "transitions", queue=queue, transitions=transitions
        )

    def heartbeat(
        self,
        queue: QueueKey,
        heartbeat: Heartbeat | None,
        extensions: Sequence[LeaseExtension],
    ) -> HeartbeatReply:
        lost, cancelled = list[int](), list[int]()
        batch_size = self._client.limits.max_batch
        for start in range(0, max(1, len(extensions)), batch_size):
            part = extensions[start : start + batch_size]
            reply = self._client.call(
                Store.heartbeat, queue=queue, heartbeat=heartbeat, extensions=part
            )
            lost += [start + index for index in reply.lost]
            cancelled += [start + index for index in reply.cancelled]
        return HeartbeatReply(lost, cancelled)

    def join(self, connection: object) -> JoinContext:
        del connection
        return refuse_to_join("a service, over HTTP,")

    # --- maintenance ---

    def next_due(self, queues: Sequence[QueueKey]) -> list[NextDue]:
        # One request is about one tenant's queues.
        found = dict[QueueKey, NextDue]()
        for tenant in dict.fromkeys(queue.tenant for queue in queues):
            own = [queue for queue in queues if queue.tenant == tenant]
            due = self._client.call_each(Store.next_due, "queues", queues=own)
            found.update(zip(own, due, strict=True))
        return [found[queue] for queue in queues]

    def promote(self, queue: QueueKey, limit: int) -> int:
        return self._client.call_until_done(Store.promote, limit, queue=queue)

    def leases(
        self, queue: QueueKey, *, worker: str | None = None, limit: int = LEASES_LIMIT
    ) -> list[Record]:
        if worker is not None and limit > self._client.limits.max_answer:
            return list(itertools.islice(self._leases_of_worker(queue, worker), limit))
        limit = self._client.clamp_limit(limit)
        return self._client.call(Store.leases, queue=queue, worker=worker, limit=limit)

    def prune(self, queue: QueueKey, limit: int, needed_after: str | None = None) -> int:
        return self._client.call_until_done(
            Store.prune, limit, queue=queue, needed_after=needed_after
        )

    # --- reading ---

    def get(
        self, queue: QueueKey, ids: Sequence[str], max_bytes: int | None = None
    ) -> list[Record | None]:
        call = self._client.call_each if max_bytes is None else self._client.call_first
        return call(Store.get, "ids", queue=queue, ids=ids, max_bytes=max_bytes)

    def page(
        self,
        queue: QueueKey,
        job_filter: Filter,
        cursor: str | None,
        limit: int,
        newest_first: bool = False,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> Page:
        return self._client.call(
            Store.page,
            queue=queue,
            job_filter=job_filter,
            cursor=cursor,
            limit=self._client.clamp_limit(limit),
            newest_first=newest_first,
            max_bytes=max_bytes,
        )

    def describe(
        self, tenant: str | None, name: str | None = None, *, include_dropped: bool = False
    ) -> list[QueueInfo]:
        """All queues of the token's tenant; no token gives access to those of every tenant."""
        return self._client.call(
            Store.describe, tenant=tenant, name=name, include_dropped=include_dropped
        )

    def workers(self, queues: Sequence[QueueKey]) -> list[list[WorkerRecord]]:
        return self._client.call_each(Store.workers, "queues", queues=queues)

    def events(
        self,
        queue: QueueKey | None,
        after: str | None,
        limit: int,
        *,
        tenant: str | None = None,
    ) -> Sequence[Event]:
        """The journal after a cursor; without a queue, of all queues of the token's tenant."""
        limit = self._client.clamp_limit(limit)
        return self._client.call(Store.events, queue=queue, after=after, limit=limit, tenant=tenant)

    def listen(
        self, queues: Sequence[QueueKey], topic: Topic, kinds: frozenset[str] | None = None
    ) -> Listener:
        # Queues beyond the service's limit get no notifications: listeners must not rely on them.
        listened = queues[: self._client.limits.max_listened_queues]
        arguments: dict[str, Any] = {"queues": listened, "topic": topic, "kinds": kinds}
        idle_timeout = 2 * self._client.limits.ping_every + self._connections.address.timeout
        listener = HttpListener(
            self._connections,
            LISTEN.pack(arguments),
            tenant_of(arguments),
            idle_timeout,
            self._listeners.discard,
        )
        self._listeners.add(listener)
        return listener

    def subscribe(self) -> Subscription:
        return HttpSubscription()

    # --- operating ---

    def configure(
        self,
        queue: QueueKey,
        settings: QueueSettings,
        by: str = "",
        *,
        expected: QueueSettings | None = None,
    ) -> bool:
        changed = validated_settings(settings)
        return self._client.call(
            Store.configure, queue=queue, settings=changed, by=by, expected=expected
        )

    def purge(self, queue: QueueKey, job_filter: Filter, limit: int, by: str = "") -> int:
        return self._client.call_until_done(
            Store.purge, limit, queue=queue, job_filter=job_filter, by=by
        )

    def drop(self, queue: QueueKey, by: str = "") -> bool:
        return self._client.call(Store.drop, queue=queue, by=by)

    # --- the key-value store ---

    def read_keys(
        self,
        tenant: str,
        prefix: tuple[str, ...],
        limit: int,
        after: tuple[str, ...] | None = None,
        max_bytes: int | None = None,
    ) -> list[KeyValue]:
        keys, byte_limit = list[KeyValue](), ByteLimit(max_bytes)
        max_response = self._client.limits.max_answer_bytes
        while True:
            per_call = self._client.clamp_limit(limit - len(keys))
            max_size = min(byte_limit.remaining or max_response, max_response)
            where = {"tenant": tenant, "prefix": prefix, "after": after}
            page = self._client.call(Store.read_keys, limit=per_call, max_bytes=max_size, **where)
            keys += page
            size = sum(len(entry.value) for entry in page)
            byte_limit.add(size)
            at_end = len(page) < per_call and size < max_size
            if at_end or byte_limit.reached or len(keys) == limit:
                return keys
            after = page[-1].key

    def write_keys(self, tenant: str, writes: Sequence[KeyWrite]) -> bool:
        return self._client.call(Store.write_keys, tenant=tenant, writes=writes)

    def _leases_of_worker(self, queue: QueueKey, worker: str) -> Iterator[Record]:
        """All jobs leased by a worker, from pages: `leases` has no cursor."""
        job_filter, cursor = Filter(states=frozenset({State.PROCESSING})), None
        while True:
            page = self.page(queue, job_filter, cursor, self._client.limits.max_answer)
            leased = (job.without_data() for job in page.jobs if job.worker == worker)
            yield from (msgspec.structs.replace(job, history=()) for job in leased)
            cursor = page.cursor
            if cursor is None:
                return


TOKEN_VARIABLE = "ACKLINE_TOKEN"
"""The environment variable with the token, used if none is passed."""


def from_url(url: str, clock: Clock | None = None, token: str | None = None) -> HttpStore:
    """The store of a URL: `http://` or `https://`, up to the base path of the service."""
    if clock is not None:
        raise ConfigError("a store over HTTP uses the clock of the service: leave out the clock")
    return HttpStore(read_address(url), token or os.environ.get(TOKEN_VARIABLE))
