"""The SQLite store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import cast
from urllib.parse import parse_qsl, unquote, urlsplit

import apsw
import msgspec

from ackline.core.clock import Clock, SystemClock
from ackline.core.config import QueueSettings, validated_settings
from ackline.core.errors import ConfigError
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
from ackline.stores.migrations import MigrationPlan
from ackline.stores.shared.retention import PruneResult, find_and_purge, prune_in_steps
from ackline.stores.shared.url_options import OptionParser, parse_choice, parse_options
from ackline.stores.sqlite import claim, enqueue, key_values, operate, queries
from ackline.stores.sqlite.apply import apply
from ackline.stores.sqlite.disk_space import DiskSpace
from ackline.stores.sqlite.io.connection import Durability
from ackline.stores.sqlite.io.engine import Engine
from ackline.stores.sqlite.io.group_commit import MergeableOperation
from ackline.stores.sqlite.io.migrate import first_connection, missing_migrations, schema_of
from ackline.stores.sqlite.io.transaction import Transaction
from ackline.stores.sqlite.notify import FifoNotifier
from ackline.stores.sqlite.queue_writer import find_queue

_DURABILITY_TEXT = {
    "full": "full: an accepted job survives a crash and a power failure",
    "normal": "normal: an accepted job survives a crash of the process; "
    "a power failure may lose the most recent changes",
}


class SqliteStore:
    """Keeps jobs in a file that many processes can share.

    >>> store = SqliteStore("jobs.db")
    """

    capabilities = Capabilities(
        name="sqlite",
        persistent=True,
        shared=True,
        one_machine=True,
        batch_size=100,
        max_journal=10_000_000,
    )

    def __init__(
        self, path: str, durability: Durability = "full", clock: Clock | None = None
    ) -> None:
        self._path = os.path.abspath(path)
        self._durability: Durability = durability
        self._clock = clock or SystemClock()
        self._disk = DiskSpace(self._path)
        self._notifier = FifoNotifier(self._path)
        self._engine = Engine(self._path, durability, self._notifier.notify)

    def open(self) -> None:
        if self._engine.inherited:
            self._notifier.close_in_child()
        self._engine.open()

    def close(self) -> None:
        if not self._engine.inherited:
            self._notifier.close()
            self._engine.close()

    def pending_migrations(self) -> MigrationPlan:
        with self._engine.translate_errors():
            return missing_migrations(self._path)

    def migrate(self) -> MigrationPlan:
        missing = self.pending_migrations()
        with self._engine.translate_errors():
            # The first connection always migrates the file.
            first_connection(self._path, self._durability).close()
        return missing

    def info(self) -> StoreInfo:
        with self._engine.read() as execute:
            schema, cursor = schema_of(execute), queries.journal_end(execute)
            issues = self._disk.health_issues(execute)
        return StoreInfo(
            name="sqlite",
            location=self._path,
            durability=_DURABILITY_TEXT[self._durability],
            durable=True,
            version=apsw.sqlite_lib_version(),
            schema=schema,
            now=self._clock.now(),
            cursor=cursor,
            details={"apsw": apsw.apsw_version(), "bytes": str(os.path.getsize(self._path))},
            issues=issues,
        )

    def now(self) -> float:
        self._engine.require_open()
        return self._clock.now()

    # --- producing and consuming ---

    def enqueue(
        self, queue: QueueKey, drafts: Sequence[Draft], keys: Sequence[KeyWrite] = ()
    ) -> list[Receipt]:
        def run(tx: Transaction, drafts: Sequence[Draft]) -> list[Receipt]:
            self._disk.require_free_space(tx.execute)
            return enqueue.enqueue(tx, queue, drafts, self._clock.now(), keys)

        if keys:
            # Not merged with other calls: if its keys have changed, only this one must fail.
            return self._engine.write(lambda tx: run(tx, drafts))
        return self._engine.write(MergeableOperation(("enqueue", queue), drafts, run))

    def claim(
        self, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition] = ()
    ) -> ClaimResult:
        result, again = self._engine.write(
            lambda tx: claim.claim(tx, queue, request, transitions, self._clock.now())
        )
        while again:
            # One transaction for each step, so that others can write while many jobs are parked.
            next_result, again = self._engine.write(
                lambda tx: claim.claim(tx, queue, request, (), self._clock.now())
            )
            result = msgspec.structs.replace(next_result, verdicts=result.verdicts)
        return result

    def apply(self, queue: QueueKey, transitions: Sequence[Transition]) -> list[Verdict]:
        def run(tx: Transaction, transitions: Sequence[Transition]) -> list[Verdict]:
            writer = find_queue(tx, queue)
            if writer is None:
                return [Verdict(False, None)] * len(transitions)
            return apply(writer, transitions, self._clock.now())

        return self._engine.write(MergeableOperation(("apply", queue), transitions, run))

    def join(self, connection: object) -> JoinContext:
        del connection
        return refuse_to_join("SQLite")

    def heartbeat(
        self,
        queue: QueueKey,
        heartbeat: Heartbeat | None,
        extensions: Sequence[LeaseExtension],
    ) -> HeartbeatReply:
        return self._engine.write(
            lambda tx: claim.heartbeat(tx, queue, heartbeat, extensions, self._clock.now())
        )

    # --- maintenance ---

    def next_due(self, queues: Sequence[QueueKey]) -> list[NextDue]:
        with self._engine.read() as execute:
            return [queries.next_due(execute, queue) for queue in queues]

    def promote(self, queue: QueueKey, limit: int) -> int:
        def run(tx: Transaction) -> int:
            writer = find_queue(tx, queue)
            return 0 if writer is None else claim.promote(writer, self._clock.now(), limit)

        return self._engine.write(run)

    def leases(
        self, queue: QueueKey, *, worker: str | None = None, limit: int = LEASES_LIMIT
    ) -> list[Record]:
        with self._engine.read() as execute:
            return queries.leases(execute, queue, worker, limit, self._clock.now())

    def prune(self, queue: QueueKey, limit: int, needed_after: str | None = None) -> int:
        max_events = self.capabilities.max_journal

        def run(tx: Transaction, left: int) -> PruneResult:
            now = self._clock.now()
            jobs = operate.prune(tx, queue, left, now)
            return PruneResult(jobs, *operate.trim(tx, queue, max_events, needed_after, now))

        return prune_in_steps(
            queue, limit, lambda left: self._engine.write(lambda tx: run(tx, left))
        )

    # --- reading ---

    def get(
        self, queue: QueueKey, ids: Sequence[str], max_bytes: int | None = None
    ) -> list[Record | None]:
        with self._engine.read() as execute:
            return queries.get(execute, queue, ids, max_bytes, self._clock.now())

    def page(
        self,
        queue: QueueKey,
        job_filter: Filter,
        cursor: str | None,
        limit: int,
        newest_first: bool = False,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> Page:
        with self._engine.read() as execute:
            now = self._clock.now()
            return queries.page(
                execute, queue, job_filter, cursor, limit, newest_first, max_bytes, now
            )

    def describe(
        self, tenant: str | None, name: str | None = None, *, include_dropped: bool = False
    ) -> list[QueueInfo]:
        with self._engine.read() as execute:
            return queries.describe(execute, tenant, name, include_dropped)

    def workers(self, queues: Sequence[QueueKey]) -> list[list[WorkerRecord]]:
        with self._engine.read() as execute:
            return [queries.workers(execute, queue) for queue in queues]

    def events(
        self,
        queue: QueueKey | None,
        after: str | None,
        limit: int,
        *,
        tenant: str | None = None,
    ) -> Events:
        with self._engine.read() as execute:
            return queries.events(execute, queue, after, limit, tenant)

    def listen(
        self, queues: Sequence[QueueKey], topic: Topic, kinds: frozenset[str] | None = None
    ) -> Listener:
        with self._engine.translate_errors():
            return self._notifier.listen(queues, topic, kinds, self._engine.version)

    def subscribe(self) -> Subscription:
        with self._engine.translate_errors():
            self._engine.version()  # raises unless the store is open
            return self._notifier.subscribe(self._engine.version)

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
        return self._engine.write(
            lambda tx: operate.configure(tx, queue, changed, expected, by, self._clock.now())
        )

    def purge(self, queue: QueueKey, job_filter: Filter, limit: int, by: str = "") -> int:
        def find() -> frozenset[str]:
            with self._engine.read() as execute:
                return queries.find_ids(execute, queue, job_filter, limit)

        def delete(ids: frozenset[str]) -> int:
            by_ids = msgspec.structs.replace(job_filter, ids=ids)
            return self._engine.write(
                lambda tx: operate.purge(tx, queue, by_ids, by, self._clock.now())
            )

        return find_and_purge(find, delete)

    def drop(self, queue: QueueKey, by: str = "") -> bool:
        dropped = self._engine.write(lambda tx: operate.drop(tx, queue, by, self._clock.now()))
        if dropped:
            self._notifier.remove_queue(queue)
        return dropped

    # --- the key-value store ---

    def read_keys(
        self,
        tenant: str,
        prefix: tuple[str, ...],
        limit: int,
        after: tuple[str, ...] | None = None,
        max_bytes: int | None = None,
    ) -> list[KeyValue]:
        with self._engine.read() as execute:
            return key_values.read_keys(execute, tenant, prefix, limit, after, max_bytes)

    def write_keys(self, tenant: str, writes: Sequence[KeyWrite]) -> bool:
        def run(tx: Transaction) -> bool:
            self._disk.require_free_space_for_keys(tx.execute, writes)
            return key_values.write_keys(tx, tenant, writes)

        return self._engine.write(run)


_OPTIONS: dict[str, OptionParser] = {"durability": parse_choice("full", "normal")}


def from_url(url: str, clock: Clock | None = None) -> SqliteStore:
    """The store of a URL, such as `sqlite:///relative.db` or `sqlite:////absolute.db`."""
    parts = urlsplit(url)
    path = unquote(parts.path).removeprefix("/")
    if parts.netloc or not path or "\0" in path or parts.fragment:
        raise ConfigError(
            f"{url!r} names no file: write sqlite:///jobs.db for a file in the working directory, "
            "or sqlite:////var/lib/jobs.db with four slashes for an absolute path"
        )
    if path == ":memory:":
        raise ConfigError(f"{url!r} names no file: write memory:// for a store in memory")
    if path.endswith("/"):
        raise ConfigError(
            f"{url!r} names a directory: add the name of a file in it, such as {path}jobs.db"
        )
    options = parse_options("sqlite", _OPTIONS, parse_qsl(parts.query, keep_blank_values=True))
    durability = cast(Durability, options.get("durability", "full"))
    return SqliteStore(path, durability, clock)
