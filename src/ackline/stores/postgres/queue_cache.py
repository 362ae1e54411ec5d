"""A cache of queues and their kinds; every transaction checks that its version is current."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, Final

from ackline.core.config import DEFAULT_SETTINGS, QueueSettings
from ackline.core.job import QueueKey
from ackline.core.lifecycle import Transition
from ackline.stores.postgres.io.pipeline import ByteStrings
from ackline.stores.postgres.io.transaction import Transaction
from ackline.stores.postgres.scan_position import LeaseScan, Position, ScanPositions
from ackline.stores.shared.record_encoding import DROPPED_QUEUE, decode_settings, encode_settings


@functools.lru_cache(maxsize=4096)
def decode_name(data: bytes) -> str:
    """Decode a name that occurs often, such as a kind, group or worker."""
    return data.decode()


def decode_queue(tenant: bytes, name: bytes) -> QueueKey:
    """Decode the names of a queue."""
    return QueueKey(tenant.decode(), name.decode())


CachedJob = tuple[int, str, str | None, int]
"""The number, kind, group and priority of a job; a plain tuple, as each claim creates many."""

JOB_NUMBER: Final = 0
JOB_GROUP: Final = 2
"""Indexes of a `CachedJob`."""

LeaseKey = tuple[str, int | None]
"""A lease, by the job's id and the token."""

JOINED_CACHE_LIMIT = 10_000
"""The most leases of a queue in borrowed transactions that are cached."""

JOB_CACHE_LIMIT = 100_000
"""The most claimed jobs of a queue that are cached."""


class CachedQueue:
    """A queue as it was at one version."""

    __slots__ = (
        "dropped",
        "jobs",
        "key",
        "kind_ids",
        "lease_scan",
        "leases_in_transactions",
        "num",
        "positions",
        "settings",
        "single_lease_kinds",
        "version",
        "without_options",
    )  # fmt: skip

    def __init__(
        self,
        key: QueueKey,
        num: int,
        version: int,
        settings: QueueSettings,
        kind_ids: dict[str, int],
        jobs: dict[str, CachedJob],
        single_lease_kinds: set[str],
        leases_in_transactions: dict[LeaseKey, None],
    ) -> None:
        self.key = key
        self.num = num
        self.version = version
        self.settings = settings
        self.kind_ids = kind_ids
        self.jobs = jobs
        self.single_lease_kinds = single_lease_kinds
        """Kinds whose jobs are leased one by one."""
        self.leases_in_transactions = leases_in_transactions
        """Leases that borrowed transactions have changed, which may stay locked for long."""
        self.dropped = False
        """Whether the queue was dropped, so that only its journal is left."""
        self.without_options = True
        """Whether the jobs claimed last had no options."""
        self.positions = ScanPositions()
        self.lease_scan = LeaseScan()

    def cache_job(self, id: str, job: CachedJob) -> None:
        """Cache a claimed job, so that settling it needs no lookup."""
        if len(self.jobs) >= JOB_CACHE_LIMIT:
            self.jobs.clear()
        self.jobs[id] = job

    def may_be_in_transaction(self, id: str, token: int | None) -> bool:
        """Whether a lease may be locked by a borrowed transaction of this process."""
        return bool(self.leases_in_transactions) and (id, token) in self.leases_in_transactions

    def lease_one_by_one(self, ids: Iterable[str]) -> None:
        """From now on, lease jobs of the same kinds as these one by one.

        Their handlers settle them in transactions with older snapshots, for which a shared lease
        row can no longer be split.
        """
        jobs = [self.jobs.get(id) for id in ids]
        self.single_lease_kinds.update(job[1] for job in jobs if job is not None)


class QueueCache:
    """The queues that one store has used."""

    def __init__(self) -> None:
        self._queues: dict[QueueKey, CachedQueue] = {}
        self._single_lease_kinds: dict[QueueKey, set[str]] = {}
        self._leases_in_transactions: dict[QueueKey, dict[LeaseKey, None]] = {}

    def clear(self) -> None:
        """Remove all queues: the database may be another one."""
        self._queues = {}

    def cached(self, key: QueueKey) -> CachedQueue | None:
        """A queue as it was last read."""
        return self._queues.get(key)

    def record_joined(self, key: QueueKey, transitions: Iterable[Transition]) -> None:
        """Record which leases a borrowed transaction has changed; the oldest are dropped."""
        leases = self._leases_in_transactions.setdefault(key, {})
        leases.update(
            {
                (transition.id, transition.token): None
                for transition in transitions
                if transition.token is not None
            }
        )
        for oldest in list(leases)[:-JOINED_CACHE_LIMIT]:
            leases.pop(oldest, None)

    def reset_positions(self, key: QueueKey) -> None:
        """Let the next claim of a queue start at the beginning."""
        cached = self._queues.get(key)
        if cached is not None:
            cached.positions.reset()

    def step_back_to(self, kind_id: int, lane: int, position: Position) -> None:
        """Let claims start no later than at this position, where a job was added."""
        for cached in list(self._queues.values()):
            cached.positions.step_back_to(kind_id, lane, position)

    def confirm(self, tx: Transaction, key: QueueKey, row: tuple[Any, ...]) -> CachedQueue | None:
        """The queue from a row of `find_queue`; read again if it has changed."""
        num, version, settings = row[:3]
        if num is None:
            return None
        cached = self._queues.get(key)
        if cached is None or (cached.num, cached.version) != (num, version):
            rows = tx.rows("queue_kinds", {"queue": num})
            kind_ids = {decode_name(kind): kind_id for kind_id, kind in rows}
            jobs = cached.jobs if cached is not None and cached.num == num else {}
            cached = CachedQueue(
                key,
                num,
                version,
                decode_settings(settings),
                kind_ids,
                jobs,
                self._single_lease_kinds.setdefault(key, set()),
                self._leases_in_transactions.setdefault(key, {}),
            )
            cached.dropped = settings == DROPPED_QUEUE
            if not tx.created_queue:
                # A queue that this transaction created may be rolled back, so it is not cached.
                self._queues[key] = cached
        return cached

    def find(self, tx: Transaction, key: QueueKey) -> CachedQueue | None:
        """Find a queue, and set the time of the transaction."""
        [row] = tx.rows("find_queue", queue_parameters(tx, key))
        tx.now = row[3]
        return self.confirm(tx, key, row)

    def ensure(self, tx: Transaction, key: QueueKey, kinds: Iterable[str] = ()) -> CachedQueue:
        """Find a queue with these kinds; create what is missing."""
        cached = self.find(tx, key)
        if cached is None:
            tx.created_queue = True
            tx.send("add_queue", queue_parameters(tx, key) | {"settings": _DEFAULT})
            cached = self.find(tx, key)
            assert cached is not None
        if cached.dropped:
            tx.created_queue = True
            tx.send("set_settings", {"queue": cached.num, "settings": _DEFAULT})
            cached = self.find(tx, key)
            assert cached is not None
        missing = {kind for kind in kinds if kind not in cached.kind_ids}
        if missing:
            tx.created_queue = True
            values = {
                "queue": cached.num,
                "kinds": ByteStrings([kind.encode() for kind in missing]),
            }
            tx.send("add_kinds", values)
            cached = self.find(tx, key)
            assert cached is not None
        return cached


_DEFAULT = encode_settings(DEFAULT_SETTINGS)


def queue_parameters(tx: Transaction, key: QueueKey) -> dict[str, Any]:
    """The parameters of `find_queue`."""
    return {"now": tx.clock, "tenant": key.tenant.encode(), "name": key.name.encode()}
