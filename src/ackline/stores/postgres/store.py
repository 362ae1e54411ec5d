"""The store: each method runs one or a few transactions on the engine."""

from __future__ import annotations

from collections.abc import Sequence

from ackline.core.clock import Clock
from ackline.core.config import QueueSettings, validated_settings
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
)
from ackline.stores.migrations import MigrationPlan
from ackline.stores.postgres import claim, enqueue, journal, key_values, operate, queries
from ackline.stores.postgres.apply import apply
from ackline.stores.postgres.claim import promote
from ackline.stores.postgres.engine import Engine
from ackline.stores.postgres.heartbeat import save_heartbeat
from ackline.stores.postgres.io.address import Address, read_address
from ackline.stores.postgres.io.transaction import Transaction
from ackline.stores.postgres.leases import JobLookup, lock_leases
from ackline.stores.postgres.notify import Notifier
from ackline.stores.postgres.server_info import ServerInfo
from ackline.stores.postgres.transactions.joined import PostgresJoinContext
from ackline.stores.shared.apply import NO_JOB
from ackline.stores.shared.retention import PruneResult, find_and_purge, prune_in_steps


class PostgresStore:
    """Keeps jobs in a schema of a PostgreSQL database.

    >>> store = PostgresStore(read_address("postgresql://localhost/app"))  # doctest: +SKIP
    """

    capabilities = Capabilities(
        name="postgresql",
        persistent=True,
        shared=True,
        batch_size=200,
        max_journal=10_000_000,
        joins_transactions=True,
    )

    def __init__(self, address: Address, clock: Clock | None = None) -> None:
        self._address = address
        self._engine = Engine(address, clock)
        self._queues = self._engine.queues
        self._notifier = Notifier(self._engine)
        self._engine.notify = self._notifier.notify
        self._server_info = ServerInfo(self._engine)
        self._engine.notify_at_commit = self._notifier.notify_at_commit

    def open(self) -> None:
        self._engine.open()

    def close(self) -> None:
        self._notifier.close()
        self._engine.close()

    def pending_migrations(self) -> MigrationPlan:
        with self._engine.migrator() as migrator:
            return migrator.pending()

    def migrate(self) -> MigrationPlan:
        with self._engine.migrator() as migrator:
            return migrator.migrate()

    def info(self) -> StoreInfo:
        return self._engine.read(self._server_info.info)

    def now(self) -> float:
        return self._engine.read(queries.now)

    # --- jobs ---

    def enqueue(
        self, queue: QueueKey, drafts: Sequence[Draft], keys: Sequence[KeyWrite] = ()
    ) -> list[Receipt]:
        return enqueue.enqueue(self._engine, queue, drafts, keys)

    def claim(
        self, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition] = ()
    ) -> ClaimResult:
        try:
            return claim.claim(self._engine, queue, request, transitions)
        except BaseException:
            # Other claims may have skipped the jobs that this one had locked.
            self._queues.reset_positions(queue)
            raise

    def apply(self, queue: QueueKey, transitions: Sequence[Transition]) -> list[Verdict]:
        def run(tx: Transaction) -> list[Verdict]:
            cached = self._queues.find(tx, queue)
            if cached is None:
                return [NO_JOB] * len(transitions)
            lookup = JobLookup(tx, cached, lock_leases(tx, cached, transitions))
            return apply(tx, self._queues, cached, transitions, lookup)

        return self._engine.write(run)

    def join(self, connection: object) -> JoinContext:
        return PostgresJoinContext(self._engine, connection)

    def heartbeat(
        self,
        queue: QueueKey,
        heartbeat: Heartbeat | None,
        extensions: Sequence[LeaseExtension],
    ) -> HeartbeatReply:
        return save_heartbeat(self._engine, queue, heartbeat, extensions)

    # --- maintenance ---

    def next_due(self, queues: Sequence[QueueKey]) -> list[NextDue]:
        return self._engine.read(lambda tx: queries.next_due(tx, queues))

    def promote(self, queue: QueueKey, limit: int) -> int:
        def run(tx: Transaction) -> int:
            cached = self._queues.find(tx, queue)
            return 0 if cached is None else promote(tx, cached, limit)

        return self._engine.write(run)

    def leases(
        self, queue: QueueKey, *, worker: str | None = None, limit: int = LEASES_LIMIT
    ) -> list[Record]:
        return self._engine.read(lambda tx: queries.leases(tx, self._queues, queue, worker, limit))

    def prune(self, queue: QueueKey, limit: int, needed_after: str | None = None) -> int:
        max_journal = self.capabilities.max_journal

        def prune(tx: Transaction, left: int) -> int:
            cached = self._queues.find(tx, queue)
            return 0 if cached is None else operate.prune(tx, cached, left)

        def trim(tx: Transaction) -> tuple[int, bool]:
            cached = self._queues.find(tx, queue)
            if cached is None:
                return 0, False
            tx.send("compact_counts", {"queue": cached.num})
            return journal.trim(tx, cached, max_journal, needed_after)

        def step(left: int) -> PruneResult:
            jobs = self._engine.write(lambda tx: prune(tx, left))
            return PruneResult(jobs, *self._engine.write(trim))

        return prune_in_steps(queue, limit, step)

    # --- reading ---

    def get(
        self, queue: QueueKey, ids: Sequence[str], max_bytes: int | None = None
    ) -> list[Record | None]:
        return self._engine.read(lambda tx: queries.get(tx, self._queues, queue, ids, max_bytes))

    def page(
        self,
        queue: QueueKey,
        job_filter: Filter,
        cursor: str | None,
        limit: int,
        newest_first: bool = False,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> Page:
        return self._engine.read(
            lambda tx: queries.page(
                tx, self._queues, queue, job_filter, cursor, limit, newest_first, max_bytes
            )
        )

    def describe(
        self, tenant: str | None, name: str | None = None, *, include_dropped: bool = False
    ) -> list[QueueInfo]:
        infos, to_compact = self._engine.read(
            lambda tx: queries.describe(tx, tenant, name, include_dropped)
        )
        for num in to_compact:
            self._engine.compact_counts(num)
        return infos

    def workers(self, queues: Sequence[QueueKey]) -> list[list[WorkerRecord]]:
        return self._engine.read(lambda tx: queries.workers(tx, queues))

    def events(
        self,
        queue: QueueKey | None,
        after: str | None,
        limit: int,
        *,
        tenant: str | None = None,
    ) -> Events:
        return self._engine.read(
            lambda tx: journal.events(tx, self._queues, queue, after, limit, tenant)
        )

    def listen(
        self, queues: Sequence[QueueKey], topic: Topic, kinds: frozenset[str] | None = None
    ) -> Listener:
        del kinds  # every listener is woken, and claims jobs of its kinds itself
        return self._notifier.listen(queues, topic)

    def subscribe(self) -> Subscription:
        return self._notifier.subscribe()

    # --- acts of operators ---

    def configure(
        self,
        queue: QueueKey,
        settings: QueueSettings,
        by: str = "",
        *,
        expected: QueueSettings | None = None,
    ) -> bool:
        changed = validated_settings(settings)
        return self._engine.write(
            lambda tx: operate.configure(tx, self._queues, queue, changed, expected, by)
        )

    def purge(self, queue: QueueKey, job_filter: Filter, limit: int, by: str = "") -> int:
        queues, engine = self._queues, self._engine
        return find_and_purge(
            lambda: engine.read(lambda tx: operate.find_ids(tx, queues, queue, job_filter, limit)),
            lambda ids: engine.write(
                lambda tx: operate.purge(tx, queues, queue, job_filter, ids, by)
            ),
        )

    def drop(self, queue: QueueKey, by: str = "") -> bool:
        return self._engine.write(lambda tx: operate.drop(tx, self._queues, queue, by))

    # --- key-value store ---

    def read_keys(
        self,
        tenant: str,
        prefix: tuple[str, ...],
        limit: int,
        after: tuple[str, ...] | None = None,
        max_bytes: int | None = None,
    ) -> list[KeyValue]:
        return self._engine.read(
            lambda tx: key_values.read_keys(tx, tenant, prefix, limit, after, max_bytes)
        )

    def write_keys(self, tenant: str, writes: Sequence[KeyWrite]) -> bool:
        return self._engine.write(lambda tx: key_values.write_keys(tx, tenant, writes))


def from_url(url: str, clock: Clock | None = None) -> PostgresStore:
    """Make a store from a URL: `postgresql://user@host/database?schema=ackline`."""
    return PostgresStore(read_address(url), clock)
