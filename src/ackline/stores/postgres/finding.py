"""Find and lock the jobs that transitions are about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from psycopg import Cursor

from ackline.errors import StoreUnavailable
from ackline.lifecycle import Transition
from ackline.stores.postgres.arrays import Blobs, Ints
from ackline.stores.postgres.leases import Leases
from ackline.stores.postgres.queues import QueueEntry
from ackline.stores.postgres.standing import NOWHERE, Standing, leased, resting
from ackline.stores.postgres.transaction import Row, Transaction

LOOKS = 50
"""How often a job is looked for that is always just on its way."""


def send_for_leases(
    tx: Transaction, queue: int, transitions: Sequence[Transition]
) -> Cursor[Row] | None:
    """Ask for the leases that these transitions name."""
    tokens = {transition.token for transition in transitions if transition.token is not None}
    if not tokens:
        return None
    return tx.send("lock_leases", {"queue": queue, "tokens": Ints(sorted(tokens))})


class Finding:
    """The jobs of one batch, each locked in its home."""

    def __init__(self, tx: Transaction, entry: QueueEntry, locked: Cursor[Row] | None) -> None:
        self.leases = Leases(tx, entry)
        self._tx = tx
        self._entry = entry
        self._jobs: dict[str, Standing | None] = {}
        if locked is not None:
            self.leases.add_rows(locked.fetchall())

    def job(self, id: str) -> Standing | None:
        """A job that was looked for."""
        return self._jobs[id]

    def forget(self, id: str) -> None:
        """It is in this queue no longer."""
        self._jobs[id] = None

    def find(self, ids: Iterable[str]) -> None:
        """Look for jobs: among what is known of claimed ones, then in the tables."""
        missing = {id for id in ids if id not in self._jobs and not self._find_claimed(id)}
        for _ in range(LOOKS):
            if not missing:
                return
            missing = self._look(missing)
        raise StoreUnavailable("jobs were handed around faster than they could be found")

    def _find_claimed(self, id: str) -> bool:
        body = self._entry.bodies.get(id)
        lease = self.leases.find(body[0]) if body is not None else None
        if body is None or lease is None:
            return False
        self._jobs[id] = leased(Standing(id, body), lease)
        return True

    def _look(self, ids: set[str]) -> set[str]:
        """Look once; answers those that were just between two homes."""
        encoded = sorted(id.encode() for id in ids)
        rows = self._tx.rows("standings", {"queue": self._entry.num, "ids": Blobs(encoded)})
        found = {job.id: job for job in map(resting, rows)}
        homeless = [job for job in found.values() if job.home == NOWHERE]
        unlocked = [job.num for job in homeless if self.leases.find(job.num) is None]
        if unlocked:
            self.leases.lock_jobs(unlocked)
        for job in homeless:
            lease = self.leases.find(job.num)
            if lease is not None:
                leased(job, lease)
        if found:
            nums = Ints([job.num for job in found.values()])
            priorities: dict[int, int] = dict(self._tx.rows("priorities", {"jobs": nums}))
            for job in found.values():
                job.priority = priorities.get(job.num, job.priority)
        again = {job.id for job in homeless if job.home == NOWHERE}
        self._jobs.update({id: found.get(id) for id in ids - again})
        return again
