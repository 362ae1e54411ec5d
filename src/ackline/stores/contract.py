"""The contract of a store: twenty-five verbs, most of which take a batch.

A store knows no policy. It inserts drafts, hands out leases, and applies transitions that
the lifecycle decided, by compare-and-set, each batch in one atomic step together with its
journal entry and its counts. Every verb is safe to send again after an unknown outcome.
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

CLAIM_MAINTENANCE_LIMIT = 200
"""The most due jobs that one claim promotes, and the most lapsed ones that it reports."""

MAX_ANSWER_BYTES = 4 * 1024 * 1024
"""After how many bytes of jobs or keys an answer ends, so that large ones do not fill the memory
of whoever asks for many: ask again for the rest."""

LOOKUP_BATCH = 1000
"""How many jobs or keys `find_each_job` and `read_each_key` ask for at once: a store may have to
look at all of them to find where their bytes end."""

HISTORY_LIMIT = 100
"""How many ended attempts are remembered for one job."""

QUEUE_KEYS = "beside"
"""The second part of keys that stand beside a queue; the queue's name is the third."""

DEAD_WORKER_RETENTION = 3600.0
"""Seconds that a dead worker is still shown."""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """How a store differs from others, for callers that can make use of the difference."""

    name: str
    persistent: bool
    shared: bool
    """Whether several processes can open it at once."""
    one_machine: bool = False
    """Whether it is a file: on another machine, the same URL opens or makes another store."""
    batch_size: int
    """The batch size at which it is fast and still fair."""
    max_journal: int
    """How many events the journal of a queue keeps at most, unless its settings say otherwise."""
    joins_transactions: bool = False
    """Whether it can take part in a transaction of the caller's own."""


class HealthIssue(msgspec.Struct, frozen=True):
    """A problem with a store, and what to do about it; `what` names the sort of problem."""

    code: str
    message: str
    advice: str
    critical: bool = True
    """Whether somebody must act on it; if not, it is only good to know."""


class StoreInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What `ackline doctor` and `/readyz` report about a store."""

    name: str
    location: str
    durability: str
    """In words: what a job survives once its enqueue has been answered."""
    version: str
    schema: int
    now: float
    cursor: str
    """The end of the journal: what comes after it has not happened yet."""
    details: Mapping[str, str] = {}
    issues: tuple[HealthIssue, ...] = ()


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """The answer to one draft: accepted, or the state of the job that already has its id."""

    id: str
    accepted: bool
    state: State
    result: bytes | None = None


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Who wants how many jobs, of which kinds (None is all), and for how long."""

    worker: str
    limit: int
    lease: float
    kinds: frozenset[str] | None = None
    lease_of_kind: Mapping[str, float] = {}
    """Leases of the kinds that have their own."""
    max_bytes: int | None = None
    """No further job is leased after the one with which they have this many bytes together."""
    ignore_group_limit: bool = False
    """Whether any number of jobs of one group may be leased: they are not to run here."""

    def lease_of(self, kind: str, options: Options) -> float:
        """How long a job is leased: its own lease comes first, then its kind's."""
        return options.lease or self.lease_of_kind.get(kind, self.lease)


class ClaimResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a claim brought: jobs, and what the claiming worker has to take care of."""

    jobs: list[Record]
    verdicts: list[Verdict]
    """One for each transition that was handed in with the claim."""
    lapsed: list[Record] = []
    """Jobs whose lease has run out, without payload, progress and result: expire them."""
    next_at: float | None = None
    """When the next job becomes due or the next lease lapses, as far as is known now.

    Leases that have already lapsed do not count: it may be impossible to take them back.
    Nothing becomes due in a paused queue: there, only the leases count.
    """
    now: float
    may_have_more: bool = False
    """Whether there may be more although it brought fewer jobs than wanted: they have reached
    `max_bytes`, or the store has not looked at all jobs that it could have taken."""


class NextDue(msgspec.Struct, frozen=True, gc=False):
    """When a queue next needs somebody, in the store's time; either may be past already."""

    job_at: float | None
    """When the next scheduled or failing job is due, also in a paused queue; None without any."""
    lease_at: float | None
    """When the next lease ends; None if no job is leased."""


class LeaseExtension(msgspec.Struct, frozen=True, gc=False):
    """One lease that a worker says it still holds, and for how long it wants it."""

    id: str
    token: int
    seconds: float


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's sign of life. `ttl` is how long it counts as alive; 0 says goodbye."""

    id: str
    host: str
    pid: int
    started_at: float
    concurrency: int
    kinds: tuple[str, ...] | None
    ttl: float


class WorkerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as the store knows it."""

    heartbeat: Heartbeat
    last_heartbeat_at: float
    expires_at: float
    leases: int


class HeartbeatReply(msgspec.Struct, frozen=True):
    """Which of the holds are lost, and which jobs were asked to stop (indexes into holds)."""

    lost: list[int]
    cancelled: list[int]


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs of a queue; a field left at its default excludes none."""

    states: frozenset[State] = frozenset(State)
    kinds: frozenset[str] | None = None
    ids: frozenset[str] | None = None
    created_after: float | None = None
    created_before: float | None = None
    text: str | None = None
    """A piece of the payload, as bytes of UTF-8."""

    def matches(self, record: Record) -> bool:
        """Whether this filter selects a job."""
        return (
            record.state in self.states
            and (self.kinds is None or record.kind in self.kinds)
            and (self.ids is None or record.id in self.ids)
            and (self.created_after is None or record.created_at >= self.created_after)
            and (self.created_before is None or record.created_at < self.created_before)
            and (self.text is None or self.text.encode() in record.payload)
        )


class Page(msgspec.Struct, frozen=True):
    """A page of jobs; pass `cursor` back for the next one, None ends it."""

    jobs: list[Record]
    cursor: str | None


class QueueInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A queue with its settings and its counts by state, kept up to date and so O(1)."""

    key: QueueKey
    settings: QueueSettings
    counts: Mapping[State, int]
    """Over HTTP, a token that may not read queues gets none."""


class KeyValue(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a tenant's small key-value room."""

    key: tuple[str, ...]
    value: bytes
    version: int


class KeyWrite(msgspec.Struct, frozen=True, kw_only=True):
    """Set a key, or delete it (value None); with a version, only if the key still has it.

    Version 0 means: only if there is no such key.
    """

    key: tuple[str, ...]
    value: bytes | None
    version: int | None = None


def queue_key(queue: QueueKey, *parts: str) -> tuple[str, ...]:
    """A key of Ackline's own that stands beside a queue: an enqueue can write both at once.

    >>> queue_key(QueueKey("default", "email"), "relay")
    ('ackline', 'beside', 'email', 'relay')
    """
    return (RESERVED_KEY_PREFIX, QUEUE_KEYS, queue.name, *parts)


def are_internal_writes(writes: Sequence[KeyWrite]) -> bool:
    """Whether keys are written even if there is no room for more jobs.

    Ackline's own keys are small, and jobs cannot be settled without some of them.
    """
    return all(write.value is None or write.key[:1] == (RESERVED_KEY_PREFIX,) for write in writes)


def act_of_change(old: QueueSettings, new: QueueSettings) -> Act:
    """The act of a change of settings: a pause or resume only if nothing else has changed."""
    if old.paused == new.paused or msgspec.structs.replace(old, paused=new.paused) != new:
        return Act.CONFIGURE
    return Act.PAUSE if new.paused else Act.RESUME


def require_not_trimmed(
    queue: QueueKey | None, after: str | None, dropped: tuple[int, int]
) -> None:
    """Refuse to read on after a cursor if entries behind it were dropped.

    `dropped` is the last dropped batch and its size. A reader without a cursor begins with the
    oldest entry that is kept, and misses nothing.
    """
    if after and read_cursor(after) < dropped:
        journal = f"queue {str(queue)!r}" if queue is not None else "a queue"
        raise EventsDropped(journal, after, make_cursor(*dropped))


Topic = Literal["ready", "changes", "finished", "cancel_requests"]
"""What a listener waits for: claimable jobs, any transition, jobs that have ended or are gone,
or cancel requests."""

TOPICS: tuple[Topic, ...] = ("ready", "changes", "finished", "cancel_requests")
"""A topic's number, as stores write it."""


class Listener(Protocol):
    """Waits for news without polling; news may be missed now and then, so bound the wait."""

    def wait(self, timeout: float) -> bool:
        """Block until there may be news (True) or the time is up (False)."""

    def wake(self) -> None:
        """Make the wait under way, or the next one, return at once. Any thread may call it."""

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_error: object) -> None: ...


Subject = tuple[QueueKey, Topic]
"""What a subscription hears of."""


class Subscription(Protocol):
    """Hears of many subjects, which may change while it lives; one thread uses it.

    It takes one thread, file or connection at most, however many subjects there are. As with a
    listener, news may be missed now and then, so look at times without any.

    >>> subscription.add([(QueueKey("default", "email"), "ready")])  # doctest: +SKIP
    >>> subscription.wait(60.0)  # doctest: +SKIP
    {(QueueKey(tenant='default', name='email'), 'ready')}
    """

    def add(self, subjects: Iterable[Subject]) -> None:
        """Hear of these as well, from the next `wait` on, which reports each of them once.

        What had happened before is not news, so look then.
        """

    def remove(self, subjects: Iterable[Subject]) -> None:
        """Hear of these no more."""

    def wait(self, timeout: float) -> Collection[Subject] | None:
        """The subjects that may have news, none if the time is up or `wake` was called.

        None means that anything may have happened: the connection was lost, or too much came.
        While the store cannot be reached, it goes on trying.
        """

    def wake(self) -> None:
        """Make the wait under way, or the next one, return at once. Any thread may call it."""

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_error: object) -> None: ...


class Completion(msgspec.Struct, frozen=True, gc=False):
    """A completed job, as far as the news of it says."""

    id: str
    result: bytes | None
    state: Literal[State.COMPLETED] = State.COMPLETED
    failure: None = None


@runtime_checkable
class CompletionListener(Protocol):
    """What a listener to `ends` can do if the store's news has the results of jobs."""

    def completions(self) -> Sequence[Completion] | None:
        """All jobs that have ended since the last call; None if others may have ended, too."""


class DeliveredJobs(msgspec.Struct, frozen=True, gc=False):
    """Jobs that a store has leased to a worker unasked."""

    jobs: list[Record]
    leased_at: float
    """When the first of these leases began, by `time.monotonic`."""


@runtime_checkable
class DirectDelivery(Listener, Protocol):
    """A listener to `ready`, of a store that leases a new job directly to a waiting worker.

    Such a job wakes the listener, which then has it. A `DeliverableClaim` that gets fewer jobs
    than the worker could begin lets the store deliver one, and only one until the next claim.
    """

    def delivered(self, worker: str) -> DeliveredJobs:
        """The jobs that have come for this worker since the last call.

        Look after each claim, too: it also brings a job here that was lost on its way.
        """


class DeliverableClaim(ClaimRequest, frozen=True, kw_only=True):
    """A claim by a worker that takes a delivery if there are not enough jobs in line."""

    listener: DirectDelivery
    free_capacity: int
    """How many jobs the worker could begin at once; 0 ends the delivery."""


class JoinedTransaction(Protocol):
    """The store inside a caller's transaction: its effects come about when the caller commits.

    Each verb is done as a whole or, when it raises, not at all; and the transaction can go on.
    """

    def enqueue(self, queue: QueueKey, drafts: Sequence[Draft]) -> list[Receipt]:
        """As the store's; nobody sees the jobs before the commit, which wakes the listeners."""

    def claim(
        self, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition] = ()
    ) -> ClaimResult:
        """As the store's; nobody else gets the jobs, and a rollback puts them back at once."""

    def apply(self, queue: QueueKey, transitions: Sequence[Transition]) -> list[Verdict]:
        """As the store's; until the transaction ends, nobody else can settle these jobs."""


class JoinContext(Protocol):
    """A block during which only the store uses the caller's transaction.

    `with` is for blocking connections, `async with` for those of asyncio; each refuses the
    other sort. Inside, the verbs of `Joined` block: call them in a thread, not in the event loop.
    """

    def __enter__(self) -> JoinedTransaction: ...

    def __exit__(self, *error: object) -> None: ...

    async def __aenter__(self) -> JoinedTransaction: ...

    async def __aexit__(self, *error: object) -> None: ...


def refuse_to_join(store: str) -> JoinContext:
    """For stores that cannot take part in a caller's transaction."""
    raise CannotJoin(
        f"jobs in {store} cannot join your transaction; of the built-in stores, only postgresql "
        "supports that. Or enqueue after your commit, with an id derived from your data"
    )


class Store(Protocol):
    """What a backend provides. Thread-safe; constructors store, `open` does the I/O.

    Where a verb takes `max_bytes`, its answer ends with the job or key with which that is reached:
    it is never larger than that and one more, and always gets on. What counts is the payload,
    options, progress, result and ended attempts of a job as it is stored, and the value of a key.
    The store cuts its own answer, so that what is left out is never sent.
    """

    capabilities: Capabilities

    def open(self) -> None:
        """Connect, check and migrate."""

    def close(self) -> None:
        """Let go of everything. Safe to call twice."""

    def info(self) -> StoreInfo:
        """What this store is, where, and when it calls a job safe."""

    def now(self) -> float:
        """The store's time, in seconds since 1970: the one by which jobs are due and leases end."""

    # --- jobs in, out and through ---

    def enqueue(
        self, queue: QueueKey, drafts: Sequence[Draft], keys: Sequence[KeyWrite] = ()
    ) -> list[Receipt]:
        """Insert the jobs that are not there yet, all of them in one atomic step.

        Keys that stand beside the queue (`queue_key`) are written in the same step. If one of
        their versions is not as expected, it raises `KeysChanged` and nothing is stored.
        """

    def claim(
        self, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition] = ()
    ) -> ClaimResult:
        """Apply the transitions, promote due jobs, then lease the next jobs in line."""

    def apply(self, queue: QueueKey, transitions: Sequence[Transition]) -> list[Verdict]:
        """Apply each transition whose guard holds; the others change nothing."""

    def heartbeat(
        self, queue: QueueKey, heartbeat: Heartbeat, extensions: Sequence[LeaseExtension]
    ) -> HeartbeatReply:
        """Note that a worker is alive, and extend its leases.

        A lapsed lease is not revived, and no lease is shortened (`extended_deadline`).
        """

    def join(self, connection: object) -> JoinContext:
        """Take part in the transaction that a caller has open on its own connection.

        The store neither commits nor rolls back, and leaves the session as it was. Raises
        `CannotJoin` if the store cannot do this at all, or not with this connection.
        """

    # --- maintenance ---

    def next_due(self, queues: Sequence[QueueKey]) -> list[NextDue]:
        """For each queue, when its next job is due and its next lease ends; changes nothing."""

    def promote(self, queue: QueueKey, limit: int) -> int:
        """Queue the jobs that are due; returns how many."""

    def leases(
        self, queue: QueueKey, *, worker: str | None = None, limit: int = CLAIM_MAINTENANCE_LIMIT
    ) -> list[Record]:
        """The leased jobs that have lapsed; with a worker, all that it holds.

        They come without payload, progress and result: they may be many and large, and taking them
        back needs none of that.
        """

    def prune(self, queue: QueueKey, limit: int, needed_after: str | None = None) -> int:
        """Drop terminal jobs and journal batches past their time; returns how many jobs.

        Journal batches are dropped whole, the oldest first: those that are too old, but none with
        an entry after `keep_from`, which a registered reader still needs; and as many as it takes
        to keep at most `max_journal` events, even if a reader needs them, but then with a warning.
        """

    # --- looking ---

    def get(
        self, queue: QueueKey, ids: Sequence[str], max_bytes: int | None = None
    ) -> list[Record | None]:
        """The jobs of these ids, each with its ended attempts.

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
        """Jobs by state, then in the order of their line.

        A page that ends early because of `max_bytes` has a cursor, even if nothing comes after it.

        A job that keeps its place between two pages is listed once. One that changes its state may
        be missed or listed again: for a queue in use, see
        `ackline.queue.transfer.snapshot.snapshot_jobs`.

        With `newest_first`, each line is read from its end: the last to be due, the last to end.
        Of ended jobs with different retention times, those kept longest come first.
        """

    def describe(
        self, tenant: str | None, name: str | None = None, *, include_dropped: bool = False
    ) -> list[QueueInfo]:
        """All queues of a tenant (None: of every tenant), or the one of this name.

        With `dropped`, also dropped queues whose journal still has to be pruned.
        """

    def workers(self, queues: Sequence[QueueKey]) -> list[list[WorkerRecord]]:
        """For each queue, the workers that have sent a heartbeat, until the dead are pruned."""

    def events(
        self,
        queue: QueueKey | None,
        after: str | None,
        limit: int,
        *,
        tenant: str | None = None,
    ) -> Sequence[Event]:
        """The journal after a cursor, in order, nothing skipped; None reads all queues.

        With a tenant, None reads all of its queues; what others write then costs nothing.
        Raises `EventsDropped` if entries after the cursor are gone, in any of these queues.
        Without a cursor it begins with the oldest entry that is kept.
        """

    def listen(
        self, queues: Sequence[QueueKey], topic: Topic, kinds: frozenset[str] | None = None
    ) -> Listener:
        """Subscribe first, then look: what happens from now on wakes the listener.

        Among listeners to `ready` that want the same kinds, a store may wake only one per job;
        listeners that want other kinds are woken as well.
        """

    def subscribe(self) -> Subscription:
        """Hear of many queues and topics at once, and of which of them there is news."""

    # --- operating ---

    def configure(
        self,
        queue: QueueKey,
        settings: QueueSettings,
        by: str = "",
        *,
        expected: QueueSettings | None = None,
    ) -> bool:
        """Replace a queue's settings if they are still the expected ones; makes the queue."""

    def purge(self, queue: QueueKey, job_filter: Filter, limit: int, by: str = "") -> int:
        """Delete matching jobs, the oldest first, whatever their state; call until it returns 0."""

    def drop(self, queue: QueueKey, by: str = "") -> bool:
        """Forget a queue, with its settings and workers; False if it has jobs, and nothing is done.

        Its journal gets an entry of this, and is kept as long as before. Whatever makes a queue
        can make it again: a job that is enqueued at the same moment is in the new queue.
        """

    # --- the small key-value room (keys if undelivered, schedules, cursors) ---

    def read_keys(
        self,
        tenant: str,
        prefix: tuple[str, ...],
        limit: int,
        after: tuple[str, ...] | None = None,
        max_bytes: int | None = None,
    ) -> list[KeyValue]:
        """The keys that start with these parts, in order; with `after`, those behind that key.

        With `max_bytes`, possibly fewer than the limit though there are more, see `read_each_key`.
        """

    def write_keys(self, tenant: str, writes: Sequence[KeyWrite]) -> bool:
        """Apply all writes, or none if one of the versions is not as expected."""


def find_key(store: Store, tenant: str, key: tuple[str, ...]) -> KeyValue | None:
    """The entry of exactly this key, if there is one."""
    found = store.read_keys(tenant, key, 1)
    return next((entry for entry in found if entry.key == key), None)


def find_each_job(
    store: Store, queue: QueueKey, ids: Sequence[str], max_bytes: int = MAX_ANSWER_BYTES
) -> Iterator[Record | None]:
    """The jobs of these ids, one after the other; only a few large ones are read at once."""
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
    """The keys that start with these parts, in order; only a few large ones are read at once."""
    while limit > 0:
        asked = min(limit, LOOKUP_BATCH)
        found = store.read_keys(tenant, prefix, asked, after, max_bytes)
        limit -= len(found)
        if len(found) < asked and sum(len(key.value) for key in found) < max_bytes:
            limit = 0  # it ended because there are no more
        if found:
            after = found[-1].key
        yield from found


@runtime_checkable
class TenantBound(Protocol):
    """A store that was opened with credentials, which give access to one tenant's queues."""

    @property
    def tenant(self) -> str:
        """The only tenant whose queues can be reached."""
