"""Leases that a transaction has locked, and how it changes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from ackline.stores.postgres.arrays import Floats, Ints
from ackline.stores.postgres.codes import name_of
from ackline.stores.postgres.queues import QueueEntry
from ackline.stores.postgres.transaction import Transaction


class Lease:
    """One row: those jobs of one claim that are still open and share a deadline."""

    __slots__ = (
        "cancel_requested", "changed", "deadline", "num", "open", "started", "token", "worker"
    )  # fmt: skip

    def __init__(
        self, num: int | None, token: int, worker: str, started: float, deadline: float
    ) -> None:
        self.num = num
        self.token = token
        self.worker = worker
        self.started = started
        self.deadline = deadline
        self.open: dict[int, tuple[int, float]] = {}
        """Job → attempts and rank."""
        self.cancel_requested: set[int] = set()
        self.changed = False

    def values(self, queue: int) -> dict[str, Any]:
        """What `add_lease` and `set_lease` write."""
        return {
            "num": self.num,
            "token": self.token,
            "queue": queue,
            "worker": self.worker.encode(),
            "started": self.started,
            "deadline": self.deadline,
            "jobs": Ints(list(self.open)),
            "attempts": Ints([attempts for attempts, _ in self.open.values()]),
            "ranks": Floats([rank for _, rank in self.open.values()]),
            "asked": Ints(sorted(self.cancel_requested)),
        }


def lease_of(row: Sequence[Any]) -> Lease:
    """A lease, from a row of `lock_leases`."""
    num, token, worker, started, deadline, jobs, attempts, ranks, asked = row
    lease = Lease(num, token, name_of(worker), started, deadline)
    lease.open = dict(zip(jobs, zip(attempts, ranks, strict=True), strict=True))
    lease.cancel_requested = set(asked)
    return lease


class Leases:
    """The locked leases of one queue."""

    def __init__(self, tx: Transaction, entry: QueueEntry) -> None:
        self._tx = tx
        self._entry = entry
        self._rows: dict[int, Lease] = {}
        self._new: list[Lease] = []
        self._extended: dict[tuple[int, float], Lease] = {}
        """New leases, by the lease that their jobs come from and the new deadline."""
        self._by_job: dict[int, Lease] = {}

    def add_rows(self, rows: Iterable[Sequence[Any]]) -> None:
        """Take rows that were just locked."""
        for row in rows:
            if row[0] not in self._rows:
                lease = self._rows[row[0]] = lease_of(row)
                self._by_job.update(dict.fromkeys(lease.open, lease))

    def lock_jobs(self, nums: Sequence[int], *, wait: bool = True) -> None:
        """Lock the leases of these jobs; without `wait`, only those that nobody has locked."""
        values = {"queue": self._entry.num, "jobs": Ints(nums)}
        self.add_rows(self._tx.rows("lock_leases_of" if wait else "try_leases_of", values))

    def find(self, num: int) -> Lease | None:
        """The lease of a job."""
        return self._by_job.get(num)

    def leave(self, num: int) -> None:
        """End the lease of a job."""
        lease = self._by_job.pop(num)
        del lease.open[num]
        lease.cancel_requested.discard(num)
        lease.changed = True

    def request_cancel(self, num: int) -> None:
        """Ask a leased job to stop."""
        lease = self._by_job[num]
        lease.cancel_requested.add(num)
        lease.changed = True

    def extend(self, num: int, deadline: float) -> None:
        """Give a job another deadline; jobs that shared a row and get the same one still share one.

        No others join them: a job that was given a row of its own keeps it for itself.
        """
        old = self._by_job[num]
        if old.deadline == deadline:
            return
        # The new deadline may be earlier than the old one.
        self._entry.ahead.lower(deadline)
        new = self._extended.get((id(old), deadline))
        if new is None:
            new = Lease(None, old.token, old.worker, old.started, deadline)
            self._extended[id(old), deadline] = new
            self._new.append(new)
        self._hand_over(num, old, new)

    def part(self, num: int) -> None:
        """Give a job a row of its own."""
        old = self._by_job[num]
        if len(old.open) > 1:
            new = Lease(None, old.token, old.worker, old.started, old.deadline)
            self._new.append(new)
            self._hand_over(num, old, new)

    def shared(self, tokens: AbstractSet[int], known: AbstractSet[int] | None) -> bool:
        """Whether a lease of these tokens has several jobs, one of them `known` (None: any)."""
        return any(
            lease.token in tokens
            and len(lease.open) > 1
            and (known is None or not known.isdisjoint(lease.open))
            for lease in self._rows.values()
        )

    def _hand_over(self, num: int, old: Lease, new: Lease) -> None:
        new.open[num] = old.open.pop(num)
        if num in old.cancel_requested:
            old.cancel_requested.remove(num)
            new.cancel_requested.add(num)
        old.changed = new.changed = True
        self._by_job[num] = new

    def write(self) -> None:
        """Write the changes; a lease whose jobs all moved to a new one leaves its row to that."""
        queue, new = self._entry.num, [lease for lease in self._new if lease.open]
        gone = []
        for lease in self._rows.values():
            if lease.open:
                if lease.changed:
                    self._tx.send("set_lease", lease.values(queue))
            elif lease.changed:
                successor = next((other for other in new if other.token == lease.token), None)
                if successor is None:
                    gone.append(lease.num)
                else:
                    new.remove(successor)
                    successor.num = lease.num
                    self._tx.send("set_lease", successor.values(queue))
        if gone:
            self._tx.send("drop_leases", {"nums": Ints(gone)})  # type: ignore[arg-type]
        for lease in new:
            self._tx.send("add_lease", lease.values(queue))
