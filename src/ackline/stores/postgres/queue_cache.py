"""What a process remembers of queues; every transaction checks its version."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from ackline.core.config import DEFAULT_SETTINGS, QueueSettings
from ackline.core.job import QueueKey
from ackline.core.lifecycle import Transition
from ackline.stores.postgres.io.pipeline import ByteStrings
from ackline.stores.postgres.io.transaction import Transaction
from ackline.stores.postgres.scan_position import LeaseScan, Position, ScanPositions
from ackline.stores.shared.record_encoding import DROPPED_QUEUE, decode_settings, encode_settings


@functools.lru_cache(maxsize=4096)
def decode_name(data: bytes) -> str:
    """A name that occurs often, such as a kind, a group or a worker, from its bytes."""
    return data.decode()


def decode_queue(tenant: bytes, name: bytes) -> QueueKey:
    """A queue, from the bytes of its names."""
    return QueueKey(tenant.decode(), name.decode())


CachedJob = tuple[int, str, str | None, int]
"""The number, kind, group and priority of a job."""

LeaseKey = tuple[str, int | None]
"""A lease, by the job's id and the token."""

JOINED_CACHE_LIMIT = 10_000
"""How many leases of a queue in callers' transactions are remembered."""

JOB_CACHE_LIMIT = 100_000
"""How many claimed jobs of a queue are remembered."""


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
        lines: dict[str, int],
        bodies: dict[str, CachedJob],
        apart: set[str],
        joined: dict[LeaseKey, None],
    ) -> None:
        self.key = key
        self.num = num
        self.version = version
        self.settings = settings
        self.kind_ids = lines
        self.jobs = bodies
        self.single_lease_kinds = apart
        """Kinds whose jobs are leased one by one."""
        self.leases_in_transactions = joined
        """Leases that callers' transactions have changed, which may be locked for long."""
        self.dropped = False
        """Whether only its journal is left."""
        self.without_options = True
        """Whether the jobs claimed last were without options."""
        self.positions = ScanPositions()
        self.lease_scan = LeaseScan()

    def remember(self, id: str, body: CachedJob) -> None:
        """Keep what is known of a claimed job, so that settling it needs no search."""
        if len(self.jobs) >= JOB_CACHE_LIMIT:
            self.jobs.clear()
        self.jobs[id] = body

    def may_be_in_transaction(self, id: str, token: int | None) -> bool:
        """Whether a lease may be locked by a caller's transaction of this process."""
        return bool(self.leases_in_transactions) and (id, token) in self.leases_in_transactions

    def lease_one_by_one(self, ids: Iterable[str]) -> None:
        """Lease jobs of the same kinds as these claimed ones one by one from now on.

        Their handlers settle them in transactions with older snapshots: a shared lease row could
        then no longer be split for them.
        """
        bodies = [self.jobs.get(id) for id in ids]
        self.single_lease_kinds.update(body[1] for body in bodies if body is not None)


class QueueCache:
    """The queues that one store has used."""

    def __init__(self) -> None:
        self._entries: dict[QueueKey, CachedQueue] = {}
        self._single_lease_kinds: dict[QueueKey, set[str]] = {}
        self._joined: dict[QueueKey, dict[LeaseKey, None]] = {}

    def forget(self) -> None:
        """Forget everything: the database may be another one."""
        self._entries = {}

    def cached(self, key: QueueKey) -> CachedQueue | None:
        """A queue as it was when it was last read."""
        return self._entries.get(key)

    def record_joined(self, key: QueueKey, steps: Iterable[Transition]) -> None:
        """Note that a caller's transaction has taken these steps; the oldest are forgotten."""
        joined = self._joined.setdefault(key, {})
        joined.update({(step.id, step.token): None for step in steps if step.token is not None})
        for oldest in list(joined)[:-JOINED_CACHE_LIMIT]:
            joined.pop(oldest, None)

    def reset_positions(self, key: QueueKey) -> None:
        """Let the next claim of a queue begin at the heads of its lines."""
        cached = self._entries.get(key)
        if cached is not None:
            cached.positions.reset()

    def lower_positions(self, line: int, lane: int, place: Position) -> None:
        """Note that a job was put in this place, which claims may have looked past."""
        for cached in list(self._entries.values()):
            cached.positions.step_back_to(line, lane, place)

    def confirm(self, tx: Transaction, key: QueueKey, row: tuple[Any, ...]) -> CachedQueue | None:
        """The queue of a row of `begin`; read again if it has changed."""
        num, version, settings = row[:3]
        if num is None:
            return None
        cached = self._entries.get(key)
        if cached is None or (cached.num, cached.version) != (num, version):
            rows = tx.rows("queue_kinds", {"queue": num})
            lines = {decode_name(kind): line for line, kind in rows}
            bodies = cached.jobs if cached is not None and cached.num == num else {}
            apart, joined = (
                self._single_lease_kinds.setdefault(key, set()),
                self._joined.setdefault(key, {}),
            )
            cached = CachedQueue(
                key, num, version, decode_settings(settings), lines, bodies, apart, joined
            )
            cached.dropped = settings == DROPPED_QUEUE
            if not tx.created_queue:
                # A queue that this transaction made may be rolled back: it is not remembered.
                self._entries[key] = cached
        return cached

    def find(self, tx: Transaction, key: QueueKey) -> CachedQueue | None:
        """Find a queue, and read the time for the transaction."""
        [row] = tx.rows("find_queue", queue_parameters(tx, key))
        tx.now = row[3]
        return self.confirm(tx, key, row)

    def ensure(self, tx: Transaction, key: QueueKey, kinds: Iterable[str] = ()) -> CachedQueue:
        """Find a queue with lines for these kinds, made if need be."""
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
    """The values of `begin`."""
    return {"now": tx.clock, "tenant": key.tenant.encode(), "name": key.name.encode()}
