"""The Redis store."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import partial

import redis

from ackline.core.clock import Clock
from ackline.core.config import QueueSettings, validated_settings
from ackline.core.events import Events, make_cursor
from ackline.core.job import Draft, QueueKey, Record
from ackline.core.lifecycle import Transition, Verdict
from ackline.stores.contract import (
    LEASES_LIMIT,
    MAX_ANSWER_BYTES,
    Capabilities,
    ClaimRequest,
    ClaimResult,
    DeliverableClaim,
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
    Subject,
    Subscription,
    Topic,
    WorkerRecord,
    refuse_to_join,
)
from ackline.stores.redis import jobs, operate, queries
from ackline.stores.redis.direct_delivery import DeliveryListener, Inbox
from ackline.stores.redis.io.address import Address, Durability, read_address
from ackline.stores.redis.io.connection import Connection, address_of
from ackline.stores.redis.journal import (
    earliest_time,
    last_batch,
    read_all_events,
    read_events,
)
from ackline.stores.redis.key_names import SCHEMA, KeyNames
from ackline.stores.redis.notify import (
    PubSubConnection,
    RedisCompletionListener,
    RedisListener,
    RedisSubscription,
)
from ackline.stores.redis.safety import (
    ServerFacts,
    combine_facts,
    health_issues,
    read_facts,
    require_own_prefix,
    require_safe,
)
from ackline.stores.redis.scripts import Scripts

FACTS_TTL = 5.0
"""Seconds for which facts about the server are cached."""


class RedisStore:
    """Stores jobs in Redis or Valkey.

    >>> store = RedisStore(read_address("redis://localhost"))  # doctest: +SKIP
    """

    capabilities = Capabilities(
        name="redis", persistent=True, shared=True, batch_size=200, max_journal=1_000_000
    )

    def __init__(
        self, address: Address, clock: Clock | None = None, client: redis.Redis | None = None
    ) -> None:
        names = KeyNames(address.prefix, address.mode == "cluster")
        self._address = address
        self._clock = clock
        self._connection = Connection(address, client)
        self._scripts = Scripts(self._connection, names, clock)
        self._names = names
        self._listeners: set[PubSubConnection] = set()
        self._facts: tuple[float, list[ServerFacts]] | None = None
        self._durability_when_opened: Durability = "none"

    def open(self) -> None:
        self._connection.open()
        self._facts = None
        try:
            nodes = self._read_facts()
            for facts in nodes:
                require_safe(facts, self._address)
            self._durability_when_opened = combine_facts(nodes).effective_durability(self._address)
            require_own_prefix(self._connection, self._names)
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        for listener in list(self._listeners):
            listener.close()
        self._connection.close()

    def info(self) -> StoreInfo:
        self._connection.require_open()
        nodes = self._read_facts()
        facts, now = combine_facts(nodes), self._now()
        return StoreInfo(
            name="redis",
            location=self._address.location,
            durability=facts.durability_text(self._address),
            durable=facts.durability != "none",
            version=f"{facts.product} {facts.version}",
            schema=SCHEMA,
            now=now,
            cursor=make_cursor(last_batch(self._connection, self._names, now) + 1, 0),
            details={
                "role": facts.role,
                "replicas": str(facts.replicas),
                "prefix": self._address.prefix,
                "memory": f"{facts.used_memory:,} bytes",
                "maxmemory": f"{facts.maxmemory:,} bytes" if facts.maxmemory else "no limit",
            },
            issues=health_issues(nodes, self._address, self._durability_when_opened),
        )

    def now(self) -> float:
        self._connection.require_open()
        return self._now()

    def _read_facts(self) -> list[ServerFacts]:
        moment = time.monotonic()
        if self._facts is None or moment - self._facts[0] > FACTS_TTL:
            self._facts = (moment, read_facts(self._connection))
        return self._facts[1]

    def _now(self) -> float:
        return earliest_time(self._connection) if self._clock is None else self._clock.now()

    # --- jobs ---

    def enqueue(
        self, queue: QueueKey, drafts: Sequence[Draft], keys: Sequence[KeyWrite] = ()
    ) -> list[Receipt]:
        return jobs.enqueue(self._scripts, queue, drafts, keys)

    def claim(
        self, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition] = ()
    ) -> ClaimResult:
        if isinstance(request, DeliverableClaim) and isinstance(request.listener, DeliveryListener):
            inbox, free = request.listener.inbox, request.free_capacity
            return jobs.claim(self._scripts, queue, request, transitions, inbox, free)
        return jobs.claim(self._scripts, queue, request, transitions)

    def apply(self, queue: QueueKey, transitions: Sequence[Transition]) -> list[Verdict]:
        return jobs.apply(self._scripts, queue, transitions)

    def join(self, connection: object) -> JoinContext:
        del connection
        return refuse_to_join("Redis")

    def heartbeat(
        self,
        queue: QueueKey,
        heartbeat: Heartbeat | None,
        extensions: Sequence[LeaseExtension],
    ) -> HeartbeatReply:
        return jobs.heartbeat(self._scripts, queue, heartbeat, extensions)

    # --- maintenance ---

    def next_due(self, queues: Sequence[QueueKey]) -> list[NextDue]:
        return queries.next_due(self._connection, self._names, queues)

    def promote(self, queue: QueueKey, limit: int) -> int:
        return self._scripts.promote(queue, limit)

    def leases(
        self, queue: QueueKey, *, worker: str | None = None, limit: int = LEASES_LIMIT
    ) -> list[Record]:
        return queries.leases(self._scripts, queue, worker, limit)

    def prune(self, queue: QueueKey, limit: int, needed_after: str | None = None) -> int:
        max_journal = self.capabilities.max_journal
        return operate.prune(self._scripts, queue, limit, max_journal, needed_after, self._now())

    # --- queries ---

    def get(
        self, queue: QueueKey, ids: Sequence[str], max_bytes: int | None = None
    ) -> list[Record | None]:
        return queries.get(self._scripts, queue, ids, max_bytes)

    def page(
        self,
        queue: QueueKey,
        job_filter: Filter,
        cursor: str | None,
        limit: int,
        newest_first: bool = False,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> Page:
        return queries.page(
            self._scripts, queue, job_filter, cursor, limit, newest_first, max_bytes
        )

    def describe(
        self, tenant: str | None, name: str | None = None, *, include_dropped: bool = False
    ) -> list[QueueInfo]:
        return queries.describe(self._scripts, tenant, name, include_dropped)

    def workers(self, queues: Sequence[QueueKey]) -> list[list[WorkerRecord]]:
        return queries.workers(self._connection, self._names, queues)

    def events(
        self,
        queue: QueueKey | None,
        after: str | None,
        limit: int,
        *,
        tenant: str | None = None,
    ) -> Events:
        if queue is None:
            return read_all_events(self._connection, self._names, after, limit, tenant)
        return read_events(self._connection, self._names, queue, after, limit)

    def listen(
        self, queues: Sequence[QueueKey], topic: Topic, kinds: frozenset[str] | None = None
    ) -> Listener:
        del kinds  # every listener is woken, and claims jobs of its kinds itself
        channels = [self._names.channel(queue, topic) for queue in queues]
        listener = self._listener(queues, topic, channels)
        self._listeners.add(listener)
        return listener

    def _listener(
        self, queues: Sequence[QueueKey], topic: Topic, channels: list[str]
    ) -> RedisListener:
        connection, on_close = self._connection, self._listeners.discard
        if topic == "finished":
            return RedisCompletionListener(connection, channels, _request_nothing, on_close)
        if topic != "ready":
            return RedisListener(connection, channels, _request_nothing, on_close)
        request_wakeups = partial(self._scripts.request_wakeups, queues)
        # In a cluster, a script cannot know whether anybody listens: listeners may be at any node.
        if len(queues) != 1 or self._names.clustered:
            return RedisListener(connection, channels, request_wakeups, on_close)
        inbox = Inbox()
        channels.append(self._names.channel(queues[0], f"to:{inbox.name}"))
        return DeliveryListener(connection, channels, request_wakeups, on_close, inbox)

    def subscribe(self) -> Subscription:
        def request_wakeups(subjects: Iterable[Subject]) -> None:
            self._scripts.request_wakeups([queue for queue, topic in subjects if topic == "ready"])

        own_channel = f"{self._address.prefix}:subscription"
        subscription = RedisSubscription(
            self._connection,
            own_channel,
            self._names.channel,
            request_wakeups,
            self._listeners.discard,
        )
        self._listeners.add(subscription)
        return subscription

    # --- operations ---

    def configure(
        self,
        queue: QueueKey,
        settings: QueueSettings,
        by: str = "",
        *,
        expected: QueueSettings | None = None,
    ) -> bool:
        return operate.configure(self._scripts, queue, validated_settings(settings), expected, by)

    def purge(self, queue: QueueKey, job_filter: Filter, limit: int, by: str = "") -> int:
        return operate.purge(self._scripts, queue, job_filter, limit, by)

    def drop(self, queue: QueueKey, by: str = "") -> bool:
        return operate.drop(self._scripts, queue, by)

    # --- key-value store ---

    def read_keys(
        self,
        tenant: str,
        prefix: tuple[str, ...],
        limit: int,
        after: tuple[str, ...] | None = None,
        max_bytes: int | None = None,
    ) -> list[KeyValue]:
        return operate.read_keys(self._scripts, tenant, prefix, limit, after, max_bytes)

    def write_keys(self, tenant: str, writes: Sequence[KeyWrite]) -> bool:
        return operate.write_keys(self._scripts, tenant, writes)


def _request_nothing() -> None:
    """Topics other than `ready` are always published: no need to request wake-ups."""


def from_url(url: str, clock: Clock | None = None) -> RedisStore:
    """The store at a URL: `redis://`, `rediss://`, `redis+unix://`, `redis+sentinel://`, …."""
    return RedisStore(read_address(url), clock)


def from_client(client: redis.Redis, clock: Clock | None = None) -> RedisStore:
    """The store on the server of a client; it opens connections of its own, with its settings."""
    return RedisStore(address_of(client), clock, client)
