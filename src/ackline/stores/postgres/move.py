"""Hand jobs to other queues."""

from __future__ import annotations

from ackline.events import Entry
from ackline.lifecycle import Transition, holds, may_move
from ackline.stores.base import move_entries
from ackline.stores.postgres.arrays import Blobs, Ints
from ackline.stores.postgres.codes import ODD
from ackline.stores.postgres.homes import Homes
from ackline.stores.postgres.queues import QueueEntry, Queues
from ackline.stores.postgres.standing import PARKED, READY, REST, Standing, resting
from ackline.stores.postgres.transaction import Again, Transaction


class Arrivals:
    """Moves the jobs of a batch to other queues, and keeps the entries for their journals."""

    def __init__(self, tx: Transaction, queues: Queues, source: QueueEntry) -> None:
        self._tx = tx
        self._queues = queues
        self._source = source
        self._arrived: list[tuple[QueueEntry, Entry]] = []

    def move(self, job: Standing, transition: Transition) -> Entry | None:
        """Move a job, unless it is leased or the other queue has a job of its id."""
        assert transition.target is not None
        now = self._tx.now
        if not may_move(self._source.key, transition.target) or not holds(
            transition, job.state, job.token, None, now
        ):
            return None
        there = self._queues.begin(self._tx, transition.target)
        self._tx.now = now
        if there is not None and not self._make_way(there, job.id):
            return None
        target = self._queues.make(self._tx, transition.target, [job.kind])
        self._tx.now = now
        self._hand_over(job, target)
        away, here = move_entries(
            self._source.key, transition, job.kind, job.state, job.attempts, job.priority
        )
        self._arrived.append((target, here))
        return away

    def _make_way(self, target: QueueEntry, id: str) -> bool:
        """Drop the target's job of this id if its retention is over; False if it has to stay."""
        values = {"queue": target.num, "ids": Blobs([id.encode()])}
        for old in map(resting, self._tx.rows("standings", values)):
            if old.home != REST or not old.over(self._tx.now):
                return False
            self._tx.send("drop_jobs", {"jobs": Ints([old.num])})
            self._tx.changes_of(target.key, target.num)
            self._tx.shift(target.num, old.state, None)
        return True

    def _hand_over(self, job: Standing, target: QueueEntry) -> None:
        values = {"queue": target.num, "job": job.num}
        if not self._tx.rows("move_body", values):
            raise Again
        if job.home == REST:
            self._tx.send("move_rest", values)
        else:
            leave = {READY: "leave_ready", PARKED: "leave_parked"}[job.home]
            self._tx.send(leave, {"jobs": Ints([job.num])})
            homes = Homes(self._tx, target)
            homes.ready(job.num, job.kind, ODD, job.rank, job.past())
            homes.write()
        self._tx.changes_of(target.key, target.num)
        self._tx.shift(self._source.num, job.state, None)
        self._tx.shift(target.num, None, job.state)

    def report(self) -> None:
        """Note the arrivals for the other queues' journals and listeners."""
        for target, entry in self._arrived:
            self._tx.changes_of(target.key, target.num).entries.append(entry)
            self._tx.news.add(("ready", target.key))
