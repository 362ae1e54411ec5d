"""The contract of a store: twenty-five methods, most of which take a batch.

A store knows no policy. It inserts drafts, leases jobs, and applies the transitions that the
lifecycle decided, by compare-and-set, each batch in one atomic step together with its journal
entries and counts. Every method can safely be called again after an unknown outcome.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, Protocol, Self, runtime_checkable

import msgspec

from ackline.core.config import QueueSettings
from ackline.core.errors import CannotJoin, EventsDropped
from ackline.core.events import Act, Event, make_cursor, read_cursor
from ackline.core.job import Draft, Options, QueueKey, Record, State
from ackline.core.lifecycle import Transition, Verdict
from ackline.core.limits import RESERVED_KEY_PREFIX
from ackline.core.reserved_keys import KeyFamily, reserved_key

LEASES_LIMIT = 200
"""How many lapsed leases are read in one call, unless it has a limit of its own."""

MAX_ANSWER_BYTES = 4 * 1024 * 1024
"""The size in bytes at which an answer with jobs or keys ends, so that large ones do not fill the
memory of the caller; call again for the rest."""

LOOKUP_BATCH = 1000
"""How many jobs or keys `find_each_job` and `read_each_key` request per call: a store may have to
read all of them to find where the byte limit is reached."""

HISTORY_LIMIT = 100
"""The most failed or returned attempts kept for one job."""

"""The second part of the keys that belong to a queue; the queue's name is the third."""

DEAD_WORKER_RETENTION = 3600.0
"""Seconds for which a dead worker is still listed."""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What distinguishes a store from others, for callers that can use it."""

    name: str
    persistent: bool
    shared: bool
    """Whether several processes can open it at the same time."""
    one_machine: bool = False
    """Whether it is a file: on another machine, the same URL opens or creates a different store."""
    batch_size: int
    """The batch size at which it is both fast and fair."""
    max_journal: int
    """The most events kept in the journal of a queue, unless its settings say otherwise."""
    joins_transactions: bool = False
    """Whether it can take part in the caller's own transaction."""


class HealthIssue(msgspec.Struct, frozen=True):
    """A problem with a store, and what to do about it; `code` identifies the kind of problem."""

    code: str
    message: str
    advice: str
    critical: bool = True
    """Whether it needs action; if not, it is only informational."""


class StoreInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What `ackline doctor` and `/readyz` report about a store."""

    name: str
    location: str
    durability: str
    """What a job survives once its enqueue has returned, as text."""
    durable: bool
    """Whether jobs survive a crash of the process or server that keeps them, except perhaps those
    of the last moments."""
    version: str
    schema: int
    now: float
    cursor: str
    """The end of the journal: every later event comes after this cursor."""
    details: Mapping[str, str] = {}
    issues: tuple[HealthIssue, ...] = ()


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """The answer to one draft: accepted, or the state of the job that already has the id."""

    id: str
    accepted: bool
    state: State
    result: bytes | None = None


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's request for jobs: how many, of which kinds (None is all), and for how long."""

    worker: str
    limit: int
    lease: float
    kinds: frozenset[str] | None = None
    lease_of_kind: Mapping[str, float] = {}
    """Lease times of the kinds that have their own."""
    max_bytes: int | None = None
    """No further job is leased after the one with which this many bytes are reached."""
    ignore_group_limit: bool = False
    """Whether any number of jobs of a group may be leased, because the caller will not run them."""

    def lease_of(self, kind: str, options: Options) -> float:
        """How long a job is leased: its own lease time, else its kind's, else the request's."""
        return options.lease or self.lease_of_kind.get(kind, self.lease)


class ClaimResult(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a claim: the leased jobs, and what else the worker has to act on."""

    jobs: list[Record]
    verdicts: list[Verdict]
    """One for each transition passed with the claim."""
    lapsed: list[Record] = []
    """Jobs whose lease has lapsed, without payload, progress and result: expire them."""
    next_at: float | None = None
    """When the next job is due or the next lease lapses, as far as the store knows.

    Leases that have already lapsed do not count: expiring them may be impossible.
    In a paused queue nothing becomes due, so only leases count.
    """
    now: float
    may_have_more: bool = False
    """Whether more jobs may be ready although fewer than requested came: `max_bytes` was reached,
    or the store has not scanned all ready jobs."""


class NextDue(msgspec.Struct, frozen=True, gc=False):
    """When a queue next needs maintenance, by the store's clock; either time may be in the past."""

    job_at: float | None
    """When the next scheduled or failing job is due, even in a paused queue; None without any."""
    lease_at: float | None
    """When the next lease ends; None if no job is leased."""


class LeaseExtension(msgspec.Struct, frozen=True, gc=False):
    """A lease that a worker asks to extend, and for how long."""

    id: str
    token: int
    seconds: float


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's heartbeat. It counts as alive for `ttl` seconds; 0 removes it."""

    id: str
    host: str
    pid: int
    started_at: float
    concurrency: int
    kinds: tuple[str, ...] | None
    ttl: float


class WorkerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A worker, as recorded by its heartbeats."""

    heartbeat: Heartbeat
    last_heartbeat_at: float
    expires_at: float
    leases: int


class HeartbeatReply(msgspec.Struct, frozen=True):
    """Which leases are lost and for which jobs cancelling was requested, as indexes."""

    lost: list[int]
    cancelled: list[int]


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects jobs of a queue; a field with its default value matches every job."""

    states: frozenset[State] = frozenset(State)
    kinds: frozenset[str] | None = None
    ids: frozenset[str] | None = None
    created_after: float | None = None
    created_before: float | None = None
    text: str | None = None
    """A part of the payload, encoded as UTF-8."""
    tags: frozenset[str] | None = None
    """Tags that a job must have all of."""

    def matches(self, record: Record) -> bool:
        """Whether the filter selects this job."""
        return (
            record.state in self.states
            and (self.kinds is None or record.kind in self.kinds)
            and (self.ids is None or record.id in self.ids)
            and (self.created_after is None or record.created_at >= self.created_after)
            and (self.created_before is None or record.created_at < self.created_before)
            and (self.text is None or self.text.encode() in record.payload)
            and self.matches_tags(record.options)
        )

    def matches_tags(self, options: Options) -> bool:
        """Whether a job with these options has all tags of the filter."""
        return self.tags is None or self.tags.issubset(options.tags)


class Page(msgspec.Struct, frozen=True):
    """A page of jobs; pass `cursor` back for the next page, None means there is none."""

    jobs: list[Record]
    cursor: str | None


class QueueInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A queue with its settings and its counts by state, which are kept up to date, hence O(1)."""

    key: QueueKey
    settings: QueueSettings
    counts: Mapping[State, int]
    """Empty over HTTP for a token that may not read queues."""


class KeyValue(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a tenant's key-value store."""

    key: tuple[str, ...]
    value: bytes
    version: int


class KeyWrite(msgspec.Struct, frozen=True, kw_only=True):
    """Set a key, or delete it (value None); with a version, only if the key still has it.

    Version 0 means: only if the key does not exist.
    """

    key: tuple[str, ...]
    value: bytes | None
    version: int | None = None


def queue_key(queue: QueueKey, *parts: str) -> tuple[str, ...]:
    """A key that belongs to a queue and that an enqueue can write in the same step as its jobs.

    >>> queue_key(QueueKey("default", "email"), "relay")
    ('ackline', 'queue', 'email', 'relay')
    """
    return reserved_key(KeyFamily.QUEUE, queue.name, *parts)


def are_internal_writes(writes: Sequence[KeyWrite]) -> bool:
    """Whether all writes are deletions or Ackline's own keys, which a full store accepts too.

    Ackline's own keys are small, and jobs cannot be settled without some of them.
    """
    return all(write.value is None or write.key[:1] == (RESERVED_KEY_PREFIX,) for write in writes)


def act_of_change(old: QueueSettings, new: QueueSettings) -> Act:
    """The act for a change of settings: pause or resume only if nothing else has changed."""
    if old.paused == new.paused or msgspec.structs.replace(old, paused=new.paused) != new:
        return Act.CONFIGURE
    return Act.PAUSE if new.paused else Act.RESUME


def require_not_trimmed(
    queue: QueueKey | None, after: str | None, last_trimmed: tuple[int, int]
) -> None:
    """Raise `EventsDropped` if entries after the cursor were trimmed.

    `last_trimmed` is the last trimmed batch and its size. Without a cursor, reading starts at the
    oldest entry that is kept.
    """
    if after and read_cursor(after) < last_trimmed:
        journal = f"queue {str(queue)!r}" if queue is not None else "a queue"
        raise EventsDropped(journal, after, make_cursor(*last_trimmed))


Topic = Literal["ready", "changes", "finished", "cancel_requests"]
"""What a listener waits for: claimable jobs, any transition, finished or deleted jobs, or cancel
requests."""

TOPICS: tuple[Topic, ...] = ("ready", "changes", "finished", "cancel_requests")
"""Stores write the index of a topic in this tuple."""


class Listener(Protocol):
    """Waits for notifications without polling; one may be lost now and then, so limit the wait."""

    def wait(self, timeout: float) -> bool:
        """Block until there may be something to read (True), or until the timeout (False)."""

    def wake(self) -> None:
        """Make the current or next `wait` return immediately. Any thread may call it."""

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_error: object) -> None: ...


Subject = tuple[QueueKey, Topic]
"""What a subscription is notified about."""


class Subscription(Protocol):
    """Waits for notifications about many subjects, which may change; used by one thread.

    It takes at most one thread, file or connection, however many subjects there are. As with a
    listener, a notification may be lost now and then, so also read now and then without one.

    >>> subscription.add([(QueueKey("default", "email"), "ready")])  # doctest: +SKIP
    >>> subscription.wait(60.0)  # doctest: +SKIP
    {(QueueKey(tenant='default', name='email'), 'ready')}
    """

    def add(self, subjects: Iterable[Subject]) -> None:
        """Add subjects; the next `wait` reports each of them once.

        There is no notification for what happened before, so read their state then.
        """

    def remove(self, subjects: Iterable[Subject]) -> None:
        """Remove subjects."""

    def wait(self, timeout: float) -> Collection[Subject] | None:
        """The subjects that may have changed; empty after the timeout or a call of `wake`.

        None means that any of them may have changed: the connection was lost, or too many
        notifications came. While the store cannot be reached, it keeps trying.
        """

    def wake(self) -> None:
        """Make the current or next `wait` return immediately. Any thread may call it."""

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_error: object) -> None: ...


class Completion(msgspec.Struct, frozen=True, gc=False):
    """A completed job, as described by its notification."""

    id: str
    result: bytes | None
    state: Literal[State.COMPLETED] = State.COMPLETED
    failure: None = None


@runtime_checkable
class CompletionListener(Protocol):
    """A listener for `finished`, of a store whose notifications carry the results of jobs."""

    def completions(self) -> Sequence[Completion] | None:
        """All jobs finished since the last call; None if others may have finished, too."""


class DeliveredJobs(msgspec.Struct, frozen=True, gc=False):
    """Jobs that a store has leased to a worker without a claim."""

    jobs: list[Record]
    leased_at: float
    """When the first of these leases started, by `time.monotonic`."""


@runtime_checkable
class DirectDelivery(Listener, Protocol):
    """A listener for `ready`, of a store that leases a new job directly to a waiting worker.

    Such a job wakes the listener. A `DeliverableClaim` that gets fewer jobs than the worker could
    start lets the store deliver one job, and only one until the next claim.
    """

    def delivered(self, worker: str) -> DeliveredJobs:
        """The jobs delivered to this worker since the last call.

        Call it after each claim, too: a claim also recovers a delivery that was lost on its way.
        """


class DeliverableClaim(ClaimRequest, frozen=True, kw_only=True):
    """A claim by a worker that accepts a direct delivery if too few jobs are ready."""

    listener: DirectDelivery
    free_capacity: int
    """How many jobs the worker could start now; 0 ends direct delivery."""


class JoinedTransaction(Protocol):
    """The store inside the caller's transaction: changes take effect when the caller commits.

    Each method is done completely or, if it raises, not at all; the transaction stays usable.
    """

    def enqueue(self, queue: QueueKey, drafts: Sequence[Draft]) -> list[Receipt]:
        """As `Store.enqueue`; the jobs become visible, and listeners are woken, at the commit."""

    def claim(
        self, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition] = ()
    ) -> ClaimResult:
        """As `Store.claim`; nobody else gets the jobs, and a rollback returns them immediately."""

    def apply(self, queue: QueueKey, transitions: Sequence[Transition]) -> list[Verdict]:
        """As `Store.apply`; nobody else can settle these jobs until the transaction ends."""


class JoinContext(Protocol):
    """A block during which only the store uses the caller's transaction.

    Use `with` for blocking connections and `async with` for asyncio connections; each refuses the
    other. The methods of `JoinedTransaction` block: call them in a thread, not in the event loop.
    """

    def __enter__(self) -> JoinedTransaction: ...

    def __exit__(self, *error: object) -> None: ...

    async def __aenter__(self) -> JoinedTransaction: ...

    async def __aexit__(self, *error: object) -> None: ...


def refuse_to_join(store: str) -> JoinContext:
    """Raise `CannotJoin`, for stores that cannot take part in the caller's transaction."""
    raise CannotJoin(
        f"jobs in {store} cannot join your transaction; of the built-in stores, only postgresql "
        "supports that. Or enqueue after your commit, with an id derived from your data"
    )


class Store(Protocol):
    """What a store implements. It is thread-safe; `open`, not the constructor, does the I/O.

    Where a method takes `max_bytes`, its answer ends with the job or key that reaches the limit, so
    it always has at least one. Payload, options, progress, result and failed attempts of a job
    count as they are stored, and the value of a key. The store itself cuts the answer, so the rest
    is never sent.
    """

    capabilities: Capabilities

    def open(self) -> None:
        """Connect, check the store and migrate it."""

    def close(self) -> None:
        """Release all resources. Safe to call twice."""

    def info(self) -> StoreInfo:
        """Describe the store: what and where it is, its durability, its health."""

    def now(self) -> float:
        """The store's time in seconds since 1970, by which jobs become due and leases end."""

    # --- producing and consuming ---

    def enqueue(
        self, queue: QueueKey, drafts: Sequence[Draft], keys: Sequence[KeyWrite] = ()
    ) -> list[Receipt]:
        """Insert the jobs that do not exist yet, all in one atomic step.

        Keys of the queue (`queue_key`) are written in the same step. If one of them does not have
        the expected version, it raises `KeysChanged` and nothing is stored.
        """

    def claim(
        self, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition] = ()
    ) -> ClaimResult:
        """Apply the transitions, promote due jobs, then lease the next jobs."""

    def apply(self, queue: QueueKey, transitions: Sequence[Transition]) -> list[Verdict]:
        """Apply the transitions whose guard holds; the others change nothing."""

    def heartbeat(
        self,
        queue: QueueKey,
        heartbeat: Heartbeat | None,
        extensions: Sequence[LeaseExtension],
    ) -> HeartbeatReply:
        """Record a worker's heartbeat and extend leases; without a heartbeat, only extend them.

        A lapsed lease is not revived, and no lease is shortened (`extended_deadline`).
        """

    def join(self, connection: object) -> JoinContext:
        """Take part in the transaction that the caller has open on its own connection.

        The store neither commits nor rolls back, and leaves the session as it was. Raises
        `CannotJoin` if the store does not support this, or not with this connection.
        """

    # --- maintenance ---

    def next_due(self, queues: Sequence[QueueKey]) -> list[NextDue]:
        """When the next job of each queue is due, and when its next lease ends; changes nothing."""

    def promote(self, queue: QueueKey, limit: int) -> int:
        """Queue jobs that are due, at most `limit`; returns how many."""

    def leases(
        self, queue: QueueKey, *, worker: str | None = None, limit: int = LEASES_LIMIT
    ) -> list[Record]:
        """The jobs whose lease has lapsed; with a worker, all jobs that it has leased.

        They come without payload, progress and result: they may be many and large, and expiring
        them needs none of that.
        """

    def prune(self, queue: QueueKey, limit: int, needed_after: str | None = None) -> int:
        """Drop terminal jobs and journal batches past their retention; returns how many jobs.

        Journal batches are trimmed as a whole, oldest first: those that are too old, but none with
        an entry after `needed_after`, the cursor of the slowest registered reader; and as many as
        it takes to keep at most `max_journal` events, with a warning if a reader needs them.
        """

    # --- reading ---

    def get(
        self, queue: QueueKey, ids: Sequence[str], max_bytes: int | None = None
    ) -> list[Record | None]:
        """The jobs with these ids, including their failed attempts; None where there is none.

        With `max_bytes`, possibly only those of the first ids, see `find_each_job`.
        """

    def page(
        self,
        queue: QueueKey,
        job_filter: Filter,
        cursor: str | None,
        limit: int,
        newest_first: bool = False,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> Page:
        """A page of jobs by state, then in the order of the state's list.

        A page that ends early because of `max_bytes` has a cursor, even if nothing comes after it.

        A job that keeps its position between two pages is listed once. One that changes its state
        may be missed or listed twice: for a queue in use, see
        `ackline.queue.transfer.snapshot.snapshot_jobs`.

        With `newest_first`, each list is read from its end: the last to be due, the last to finish.
        Of finished jobs with different retention, those kept longest come first.
        """

    def describe(
        self, tenant: str | None, name: str | None = None, *, include_dropped: bool = False
    ) -> list[QueueInfo]:
        """All queues of a tenant (None: of every tenant), or the one of this name.

        With `include_dropped`, also dropped queues whose journal is still kept.
        """

    def workers(self, queues: Sequence[QueueKey]) -> list[list[WorkerRecord]]:
        """The workers of each queue that have sent a heartbeat; dead ones until they are pruned."""

    def events(
        self,
        queue: QueueKey | None,
        after: str | None,
        limit: int,
        *,
        tenant: str | None = None,
    ) -> Sequence[Event]:
        """The journal after a cursor, in order and without gaps; None reads all queues.

        With a tenant, None reads all queues of that tenant; the events of others then cost nothing.
        Raises `EventsDropped` if entries after the cursor were trimmed in any of these queues.
        Without a cursor, reading starts at the oldest entry that is kept.
        """

    def listen(
        self, queues: Sequence[QueueKey], topic: Topic, kinds: frozenset[str] | None = None
    ) -> Listener:
        """Start to listen, then read: whatever happens from now on wakes the listener.

        A store may wake only one of the listeners for `ready` that have the same kinds, per job;
        listeners for other kinds are woken as well.
        """

    def subscribe(self) -> Subscription:
        """Wait for notifications about many queues and topics, and learn which they concern."""

    # --- operating ---

    def configure(
        self,
        queue: QueueKey,
        settings: QueueSettings,
        by: str = "",
        *,
        expected: QueueSettings | None = None,
    ) -> bool:
        """Replace a queue's settings if they are as expected; creates the queue if necessary."""

    def purge(self, queue: QueueKey, job_filter: Filter, limit: int, by: str = "") -> int:
        """Delete matching jobs, oldest first, whatever their state; call until it returns 0."""

    def drop(self, queue: QueueKey, by: str = "") -> bool:
        """Drop a queue with its settings and workers; False if it has jobs, and nothing changes.

        The journal records it, and is kept as long as before. The next enqueue creates the queue
        again: a job enqueued at the same moment is in the new queue.
        """

    # --- the key-value store (keys if undelivered, schedules, cursors) ---

    def read_keys(
        self,
        tenant: str,
        prefix: tuple[str, ...],
        limit: int,
        after: tuple[str, ...] | None = None,
        max_bytes: int | None = None,
    ) -> list[KeyValue]:
        """The keys that start with these parts, in order; with `after`, those after that key.

        With `max_bytes`, possibly fewer than the limit although there are more, see
        `read_each_key`.
        """

    def write_keys(self, tenant: str, writes: Sequence[KeyWrite]) -> bool:
        """Apply all writes, or none if a key does not have the expected version."""


def find_key(store: Store, tenant: str, key: tuple[str, ...]) -> KeyValue | None:
    """The entry with exactly this key, if it exists."""
    found = store.read_keys(tenant, key, 1)
    return next((entry for entry in found if entry.key == key), None)


def find_each_job(
    store: Store, queue: QueueKey, ids: Sequence[str], max_bytes: int = MAX_ANSWER_BYTES
) -> Iterator[Record | None]:
    """Iterate over the jobs with these ids; few large ones are in memory at the same time."""
    start = 0
    while start < len(ids):
        found = store.get(queue, ids[start : start + LOOKUP_BATCH], max_bytes)
        start += len(found)
        yield from found


def read_each_key(
    store: Store,
    tenant: str,
    prefix: tuple[str, ...],
    limit: int,
    after: tuple[str, ...] | None = None,
    max_bytes: int = MAX_ANSWER_BYTES,
) -> Iterator[KeyValue]:
    """Iterate over the keys with a prefix; few large values are in memory at the same time."""
    while limit > 0:
        requested = min(limit, LOOKUP_BATCH)
        found = store.read_keys(tenant, prefix, requested, after, max_bytes)
        limit -= len(found)
        if len(found) < requested and sum(len(key.value) for key in found) < max_bytes:
            limit = 0  # there are no more
        if found:
            after = found[-1].key
        yield from found


@runtime_checkable
class TenantBound(Protocol):
    """A store opened with credentials that give access to the queues of one tenant."""

    @property
    def tenant(self) -> str:
        """The only tenant whose queues are accessible."""
