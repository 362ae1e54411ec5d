"""Find and lock the jobs that transitions are about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from ackline.errors import StoreUnavailable
from ackline.job import QueueKey, State
from ackline.lifecycle import Transition
from ackline.stores.postgres.arrays import Blobs, Ints
from ackline.stores.postgres.leases import Leases
from ackline.stores.postgres.queues import QueueEntry, Queues
from ackline.stores.postgres.standing import NOWHERE, Standing, leased, resting
from ackline.stores.postgres.transaction import Sent, Transaction

LOOKS = 50
"""How often a job is looked for that keeps moving between the tables."""


def send_for_leases(
    tx: Transaction, entry: QueueEntry, transitions: Sequence[Transition]
) -> list[Sent]:
    """Request the leases that these transitions name.

    Transitions that wait request only the rows of their own jobs: other rows of the same token may
    be locked for long by callers' transactions.
    """
    sent = []
    waiting = [step for step in transitions if step.token is not None and step.wait]
    if waiting:
        values = _tokens(entry, waiting) | {"jobs": _numbers(tx, entry, waiting)}
        sent.append(tx.send("lock_leases", values))
    hasty = [step for step in transitions if step.token is not None and not step.wait]
    if hasty:
        # A caller's transaction keeps its locks: again only the rows of these jobs.
        jobs = _numbers(tx, entry, hasty) if tx.callers else None
        sent.append(tx.send("try_leases", _tokens(entry, hasty) | {"jobs": jobs}))
    return sent


def _tokens(entry: QueueEntry, steps: Sequence[Transition]) -> dict[str, Any]:
    tokens = {step.token for step in steps if step.token is not None}
    return {"queue": entry.num, "tokens": Ints(sorted(tokens))}


def _numbers(tx: Transaction, entry: QueueEntry, steps: Sequence[Transition]) -> Ints:
    return Ints(list(numbers_of(tx, entry, [step.id for step in steps]).values()))


def numbers_of(tx: Transaction, entry: QueueEntry, ids: Sequence[str]) -> dict[str, int]:
    """The numbers of the jobs of these ids, as far as they exist."""
    bodies = entry.bodies
    known = {id: body[0] for id in ids if (body := bodies.get(id)) is not None}
    if len(known) == len(ids):
        return known
    missing = sorted({id.encode() for id in ids if id not in known})
    if missing:
        rows = tx.rows("job_numbers", {"queue": entry.num, "ids": Blobs(missing)})
        known |= {id.decode(): num for id, num in rows}
    return known


def forget_numbers(entry: QueueEntry, ids: Iterable[str]) -> None:
    """Look these up again next time: another process may have enqueued their ids anew."""
    for id in ids:
        entry.bodies.pop(id, None)


def received(tx: Transaction, entry: QueueEntry, sent: Iterable[Sent]) -> Leases:
    """The leases that were requested."""
    leases = Leases(tx, entry)
    for rows in sent:
        leases.add_rows(rows.fetchall())
    return leases


def locked_leases(tx: Transaction, entry: QueueEntry, steps: Sequence[Transition]) -> Leases:
    """The leases that these transitions name, even if an earlier job's number is remembered."""
    leases = received(tx, entry, send_for_leases(tx, entry, steps))
    missed = [step for step in steps if step.token is not None and _is_missed(entry, leases, step)]
    if missed:
        forget_numbers(entry, [step.id for step in missed])
        for sent in send_for_leases(tx, entry, missed):
            leases.add_rows(sent.fetchall())
    return leases


def _is_missed(entry: QueueEntry, leases: Leases, step: Transition) -> bool:
    body = entry.bodies.get(step.id)
    return body is not None and leases.find(body[0]) is None


def part_leases(
    tx: Transaction,
    queues: Queues,
    queue: QueueKey,
    transitions: Sequence[Transition],
    *,
    all_of_them: bool = False,
) -> frozenset[int]:
    """Give leased jobs lease rows of their own, so that locking them holds up no other job.

    Returns which of them are leased. With `all_of_them`, jobs that share a row with them get rows
    of their own, too.
    """
    entry = queues.begin(tx, queue)
    if entry is None:
        return frozenset()
    fenced = [step for step in transitions if step.token is not None]
    leases, parted = locked_leases(tx, entry, fenced), set[int]()
    numbers = numbers_of(tx, entry, [step.id for step in fenced])
    for step in fenced:
        num = numbers.get(step.id)
        lease = None if num is None else leases.find(num)
        if num is not None and lease is not None and lease.token == step.token:
            for job in list(lease.open) if all_of_them else [num]:
                leases.part(job)
            parted.add(num)
    leases.write()
    return frozenset(parted)


class Finding:
    """The jobs of one batch, each locked in its home."""

    def __init__(self, tx: Transaction, entry: QueueEntry, leases: Leases | None = None) -> None:
        self.leases = leases or Leases(tx, entry)
        self._tx = tx
        self._entry = entry
        self._jobs: dict[str, Standing | None] = {}

    def job(self, id: str) -> Standing | None:
        """A job that was looked for."""
        return self._jobs[id]

    def forget(self, id: str) -> None:
        """Note that a job is no longer in this queue."""
        self._jobs[id] = None

    def find_for(self, transitions: Iterable[Transition]) -> None:
        """Look for the jobs of these transitions.

        A transition with a token can change only a lease, and so waits for no other row. Hasty
        ones wait for nothing at all: a lease that is being changed counts as another worker's.
        """
        fenced, ids, hasty = set[str](), set[str](), set[str]()
        for step in transitions:
            (ids if step.token is None else fenced).add(step.id)
            if not step.wait:
                hasty.add(step.id)
        self.find(fenced - ids, "stands", hasty)
        self.find(ids)

    def find(
        self,
        ids: Iterable[str],
        statement: str = "standings",
        hasty: AbstractSet[str] = frozenset(),
    ) -> None:
        """Look for jobs: among the remembered claimed ones, then in the tables."""
        missing = {id for id in ids if id not in self._jobs and not self._find_claimed(id)}
        for _ in range(LOOKS):
            if not missing:
                return
            missing = self._look(missing, statement, hasty)
        raise StoreUnavailable(
            "the jobs kept changing state while they were looked up; nothing was changed, try again"
        )

    def _find_claimed(self, id: str) -> bool:
        body = self._entry.bodies.get(id)
        lease = self.leases.find(body[0]) if body is not None else None
        if body is None or lease is None:
            return False
        self._jobs[id] = leased(Standing(id, body), lease)
        return True

    def _look(self, ids: set[str], statement: str, hasty: AbstractSet[str]) -> set[str]:
        """Look once; returns the ids of jobs that were just between two homes."""
        encoded = sorted(id.encode() for id in ids)
        rows = self._tx.rows(statement, {"queue": self._entry.num, "ids": Blobs(encoded)})
        found = {job.id: job for job in map(resting, rows)}
        homeless = [job for job in found.values() if job.home == NOWHERE]
        self._look_in_leases(homeless, hasty)
        if found:
            nums = Ints([job.num for job in found.values()])
            priorities: dict[int, int] = dict(self._tx.rows("priorities", {"jobs": nums}))
            for job in found.values():
                job.priority = priorities.get(job.num, job.priority)
        again = {job.id for job in homeless if job.home == NOWHERE and job.id not in hasty}
        self._jobs.update({id: found.get(id) for id in ids - again})
        return again

    def _look_in_leases(self, homeless: list[Standing], hasty: AbstractSet[str]) -> None:
        for wait in (True, False):
            nums = [job.num for job in homeless if (job.id not in hasty) is wait]
            unlocked = [num for num in nums if self.leases.find(num) is None]
            if unlocked:
                self.leases.lock_jobs(unlocked, wait=wait)
        for job in homeless:
            lease = self.leases.find(job.num)
            if lease is not None:
                leased(job, lease)
            elif job.id in hasty:
                job.state = State.PROCESSING
