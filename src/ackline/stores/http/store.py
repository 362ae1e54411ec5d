"""The verbs of the store over HTTP."""

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
    CLAIM_MAINTENANCE_LIMIT,
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
    """Keeps jobs in a service. What the service's own store promises holds here as well.

    >>> store = HttpStore(read_address("https://jobs.example.com/api"), token)  # doctest: +SKIP
    """

    capabilities = Capabilities(
        name="http", persistent=True, shared=True, batch_size=200, max_journal=1_000_000
    )
    """Used until it is open; from then on, the service's."""

    def __init__(self, address: Address, token: str | None = None) -> None:
        self._connections = ConnectionPool(address, token)
        self._calls = StoreClient(self._connections)
        self._listeners: set[HttpListener] = set()

    def open(self) -> None:
        self._connections.open()
        try:
            self.capabilities = self._calls.handshake().capabilities
        except BaseException:
            self._connections.close()
            raise

    def close(self) -> None:
        for listener in list(self._listeners):
            listener.close()
        self._connections.close()

    @property
    def tenant(self) -> str:
        """The tenant whose queues the token opens."""
        return self._calls.limits.tenant

    def info(self) -> StoreInfo:
        info = self._calls.ask(Store.info)
        return msgspec.structs.replace(
            info,
            name="http",
            location=self._connections.where,
            version=f"{self._calls.limits.version} over {info.name} {info.version}",
        )

    def now(self) -> float:
        return self._calls.ask(Store.now)

    # --- jobs in, out and through ---

    def enqueue(
        self, queue: QueueKey, drafts: Sequence[Draft], keys: Sequence[KeyWrite] = ()
    ) -> list[Receipt]:
        if keys:
            # The keys are written together with all the jobs or not at all: in one request.
            return self._calls.ask(Store.enqueue, queue=queue, drafts=drafts, keys=keys)
        return self._calls.ask_each(Store.enqueue, "drafts", queue=queue, drafts=drafts)

    def claim(
        self, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition] = ()
    ) -> ClaimResult:
        request = msgspec.structs.replace(request, limit=self._calls.clamp_limit(request.limit))
        arguments = {"queue": queue, "request": request, "transitions": transitions}
        if transitions and self._calls.too_many(transitions, VERBS["claim"].pack(arguments)):
            verdicts = self.apply(queue, transitions)
            return msgspec.structs.replace(self.claim(queue, request), verdicts=verdicts)
        return self._calls.ask(Store.claim, **arguments)

    def apply(self, queue: QueueKey, transitions: Sequence[Transition]) -> list[Verdict]:
        return self._calls.ask_each(
            Store.apply, "transitions", queue=queue, transitions=transitions
        )

    def heartbeat(
        self, queue: QueueKey, heartbeat: Heartbeat, extensions: Sequence[LeaseExtension]
    ) -> HeartbeatReply:
        lost, cancelled, most = list[int](), list[int](), self._calls.limits.max_batch
        for start in range(0, max(1, len(extensions)), most):
            part = extensions[start : start + most]
            reply = self._calls.ask(
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
            due = self._calls.ask_each(Store.next_due, "queues", queues=own)
            found.update(zip(own, due, strict=True))
        return [found[queue] for queue in queues]

    def promote(self, queue: QueueKey, limit: int) -> int:
        return self._calls.ask_in_rounds(Store.promote, limit, queue=queue)

    def leases(
        self, queue: QueueKey, *, worker: str | None = None, limit: int = CLAIM_MAINTENANCE_LIMIT
    ) -> list[Record]:
        if worker is not None and limit > self._calls.limits.max_answer:
            return list(itertools.islice(self._leases_of_worker(queue, worker), limit))
        limit = self._calls.clamp_limit(limit)
        return self._calls.ask(Store.leases, queue=queue, worker=worker, limit=limit)

    def prune(self, queue: QueueKey, limit: int, needed_after: str | None = None) -> int:
        return self._calls.ask_in_rounds(Store.prune, limit, queue=queue, needed_after=needed_after)

    # --- looking ---

    def get(
        self, queue: QueueKey, ids: Sequence[str], max_bytes: int | None = None
    ) -> list[Record | None]:
        ask = self._calls.ask_each if max_bytes is None else self._calls.ask_first
        return ask(Store.get, "ids", queue=queue, ids=ids, max_bytes=max_bytes)

    def page(
        self,
        queue: QueueKey,
        job_filter: Filter,
        cursor: str | None,
        limit: int,
        newest_first: bool = False,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> Page:
        return self._calls.ask(
            Store.page,
            queue=queue,
            job_filter=job_filter,
            cursor=cursor,
            limit=self._calls.clamp_limit(limit),
            newest_first=newest_first,
            max_bytes=max_bytes,
        )

    def describe(
        self, tenant: str | None, name: str | None = None, *, include_dropped: bool = False
    ) -> list[QueueInfo]:
        """All queues of the token's tenant; no token opens those of every tenant."""
        return self._calls.ask(
            Store.describe, tenant=tenant, name=name, include_dropped=include_dropped
        )

    def workers(self, queues: Sequence[QueueKey]) -> list[list[WorkerRecord]]:
        return self._calls.ask_each(Store.workers, "queues", queues=queues)

    def events(
        self,
        queue: QueueKey | None,
        after: str | None,
        limit: int,
        *,
        tenant: str | None = None,
    ) -> Sequence[Event]:
        """The journal after a cursor; without a queue, of all queues of the token's tenant."""
        limit = self._calls.clamp_limit(limit)
        return self._calls.ask(Store.events, queue=queue, after=after, limit=limit, tenant=tenant)

    def listen(
        self, queues: Sequence[QueueKey], topic: Topic, kinds: frozenset[str] | None = None
    ) -> Listener:
        # News of queues beyond the service's limit is missed, as any news may be.
        heard = queues[: self._calls.limits.max_listened_queues]
        arguments: dict[str, Any] = {"queues": heard, "topic": topic, "kinds": kinds}
        silence = 2 * self._calls.limits.ping_every + self._connections.address.timeout
        listener = HttpListener(
            self._connections,
            LISTEN.pack(arguments),
            tenant_of(arguments),
            silence,
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
        return self._calls.ask(
            Store.configure, queue=queue, settings=changed, by=by, expected=expected
        )

    def purge(self, queue: QueueKey, job_filter: Filter, limit: int, by: str = "") -> int:
        return self._calls.ask_in_rounds(
            Store.purge, limit, queue=queue, job_filter=job_filter, by=by
        )

    def drop(self, queue: QueueKey, by: str = "") -> bool:
        return self._calls.ask(Store.drop, queue=queue, by=by)

    # --- the small key-value room ---

    def read_keys(
        self,
        tenant: str,
        prefix: tuple[str, ...],
        limit: int,
        after: tuple[str, ...] | None = None,
        max_bytes: int | None = None,
    ) -> list[KeyValue]:
        keys, budget, most = (
            list[KeyValue](),
            ByteLimit(max_bytes),
            self._calls.limits.max_answer_bytes,
        )
        while True:
            at_once = self._calls.clamp_limit(limit - len(keys))
            within = min(budget.remaining or most, most)
            where = {"tenant": tenant, "prefix": prefix, "after": after}
            page = self._calls.ask(Store.read_keys, limit=at_once, max_bytes=within, **where)
            keys += page
            size = sum(len(entry.value) for entry in page)
            budget.add(size)
            ended = len(page) < at_once and size < within
            if ended or budget.reached or len(keys) == limit:
                return keys
            after = page[-1].key

    def write_keys(self, tenant: str, writes: Sequence[KeyWrite]) -> bool:
        return self._calls.ask(Store.write_keys, tenant=tenant, writes=writes)

    def _leases_of_worker(self, queue: QueueKey, worker: str) -> Iterator[Record]:
        """All jobs that a worker holds, by `page`: `leases` has no cursor to read on from."""
        which, cursor = Filter(states=frozenset({State.PROCESSING})), None
        while True:
            page = self.page(queue, which, cursor, self._calls.limits.max_answer)
            held = (job.without_data() for job in page.jobs if job.worker == worker)
            yield from (msgspec.structs.replace(job, history=()) for job in held)
            cursor = page.cursor
            if cursor is None:
                return


TOKEN_VARIABLE = "ACKLINE_TOKEN"
"""The environment variable with the token, if the caller passes none."""


def from_url(url: str, clock: Clock | None = None, token: str | None = None) -> HttpStore:
    """The store that a URL names: `http://` or `https://`, up to the service's base path."""
    if clock is not None:
        raise ConfigError("over HTTP, the clock is that of the service's store: leave it out")
    return HttpStore(read_address(url), token or os.environ.get(TOKEN_VARIABLE))
