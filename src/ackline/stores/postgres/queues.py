"""What a process remembers of queues; every transaction checks its version."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from ackline.config import DEFAULT_SETTINGS, QueueSettings
from ackline.job import QueueKey
from ackline.lifecycle import Transition
from ackline.stores.postgres.pipeline import Blobs
from ackline.stores.postgres.scan_position import LeaseScan, Place, ScanPositions
from ackline.stores.postgres.transaction import Transaction
from ackline.stores.shared.records import DROPPED, decode_settings, encode_settings


@functools.lru_cache(maxsize=4096)
def name_of(data: bytes) -> str:
    """A name that occurs often, such as a kind, a group or a worker, from its bytes."""
    return data.decode()


def queue_of(tenant: bytes, name: bytes) -> QueueKey:
    """A queue, from the bytes of its names."""
    return QueueKey(tenant.decode(), name.decode())


Body = tuple[int, str, str | None, int]
"""The number, kind, group and priority of a job."""

Leased = tuple[str, int | None]
"""A lease, by the job's id and the token."""

MOST_JOINED = 10_000
"""How many leases of a queue in callers' transactions are remembered."""

MOST_BODIES = 100_000
"""How many claimed jobs of a queue are remembered."""


class QueueEntry:
    """A queue as it was at one version."""

    __slots__ = (
        "apart",
        "bodies",
        "dropped",
        "joined",
        "key",
        "lease_scan",
        "lines",
        "num",
        "plain",
        "positions",
        "settings",
        "version",
    )  # fmt: skip

    def __init__(
        self,
        key: QueueKey,
        num: int,
        version: int,
        settings: QueueSettings,
        lines: dict[str, int],
        bodies: dict[str, Body],
        apart: set[str],
        joined: dict[Leased, None],
    ) -> None:
        self.key = key
        self.num = num
        self.version = version
        self.settings = settings
        self.lines = lines
        self.bodies = bodies
        self.apart = apart
        """Kinds whose jobs are leased one by one."""
        self.joined = joined
        """Leases that callers' transactions have changed, which may be locked for long."""
        self.dropped = False
        """Whether only its journal is left."""
        self.plain = True
        """Whether the jobs claimed last were without options."""
        self.positions = ScanPositions()
        self.lease_scan = LeaseScan()

    def remember(self, id: str, body: Body) -> None:
        """Keep what is known of a claimed job, so that settling it needs no search."""
        if len(self.bodies) >= MOST_BODIES:
            self.bodies.clear()
        self.bodies[id] = body

    def is_joined(self, id: str, token: int | None) -> bool:
        """Whether a lease may be locked by a caller's transaction of this process."""
        return bool(self.joined) and (id, token) in self.joined

    def claim_apart(self, ids: Iterable[str]) -> None:
        """Lease jobs of the same kinds as these claimed ones one by one from now on.

        Their handlers settle them in transactions with older snapshots: a shared lease row could
        then no longer be split for them.
        """
        bodies = [self.bodies.get(id) for id in ids]
        self.apart.update(body[1] for body in bodies if body is not None)


class Queues:
    """The queues that one store has used."""

    def __init__(self) -> None:
        self._entries: dict[QueueKey, QueueEntry] = {}
        self._apart: dict[QueueKey, set[str]] = {}
        self._joined: dict[QueueKey, dict[Leased, None]] = {}

    def forget(self) -> None:
        """Forget everything: the database may be another one."""
        self._entries = {}

    def remembered(self, key: QueueKey) -> QueueEntry | None:
        """A queue as it was when it was last read."""
        return self._entries.get(key)

    def note_joined(self, key: QueueKey, steps: Iterable[Transition]) -> None:
        """Note that a caller's transaction has taken these steps; the oldest are forgotten."""
        joined = self._joined.setdefault(key, {})
        joined.update({(step.id, step.token): None for step in steps if step.token is not None})
        for oldest in list(joined)[:-MOST_JOINED]:
            joined.pop(oldest, None)

    def reset_positions(self, key: QueueKey) -> None:
        """Let the next claim of a queue begin at the heads of its lines."""
        entry = self._entries.get(key)
        if entry is not None:
            entry.positions.reset()

    def lower_positions(self, line: int, lane: int, place: Place) -> None:
        """Note that a job was put in this place, which claims may have looked past."""
        for entry in list(self._entries.values()):
            entry.positions.lower(line, lane, place)

    def confirm(self, tx: Transaction, key: QueueKey, row: tuple[Any, ...]) -> QueueEntry | None:
        """The queue of a row of `begin`; read again if it has changed."""
        num, version, settings = row[:3]
        if num is None:
            return None
        entry = self._entries.get(key)
        if entry is None or (entry.num, entry.version) != (num, version):
            rows = tx.rows("lines", {"queue": num})
            lines = {name_of(kind): line for line, kind in rows}
            bodies = entry.bodies if entry is not None and entry.num == num else {}
            apart, joined = self._apart.setdefault(key, set()), self._joined.setdefault(key, {})
            entry = QueueEntry(
                key, num, version, decode_settings(settings), lines, bodies, apart, joined
            )
            entry.dropped = settings == DROPPED
            if not tx.made:
                # A queue that this transaction made may be rolled back: it is not remembered.
                self._entries[key] = entry
        return entry

    def begin(self, tx: Transaction, key: QueueKey) -> QueueEntry | None:
        """Find a queue, and read the time for the transaction."""
        [row] = tx.rows("begin", names_of(tx, key))
        tx.now = row[3]
        return self.confirm(tx, key, row)

    def make(self, tx: Transaction, key: QueueKey, kinds: Iterable[str] = ()) -> QueueEntry:
        """Find a queue with lines for these kinds, made if need be."""
        entry = self.begin(tx, key)
        if entry is None:
            tx.made = True
            tx.send("add_queue", names_of(tx, key) | {"settings": _DEFAULT})
            entry = self.begin(tx, key)
            assert entry is not None
        if entry.dropped:
            tx.made = True
            tx.send("set_settings", {"queue": entry.num, "settings": _DEFAULT})
            entry = self.begin(tx, key)
            assert entry is not None
        missing = {kind for kind in kinds if kind not in entry.lines}
        if missing:
            tx.made = True
            values = {"queue": entry.num, "kinds": Blobs([kind.encode() for kind in missing])}
            tx.send("add_lines", values)
            entry = self.begin(tx, key)
            assert entry is not None
        return entry


_DEFAULT = encode_settings(DEFAULT_SETTINGS)


def names_of(tx: Transaction, key: QueueKey) -> dict[str, Any]:
    """The values of `begin`."""
    return {"now": tx.clock, "tenant": key.tenant.encode(), "name": key.name.encode()}
