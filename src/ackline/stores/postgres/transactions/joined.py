"""Take part in a transaction of the caller's own.

What must not wait for the caller's commit is done on a connection of the store: queues are made,
due jobs are promoted, and a job that is settled gets a lease row of its own, so that the jobs that
were leased with it do not have to wait either.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from ackline.core.errors import CannotJoin, StoreUnavailable
from ackline.core.job import Draft, QueueKey
from ackline.core.lifecycle import Transition, Verdict
from ackline.stores.contract import CLAIM_MAINTENANCE_LIMIT, ClaimRequest, ClaimResult, Receipt
from ackline.stores.postgres.apply import apply
from ackline.stores.postgres.claim import ClaimAnswer, ClaimRun, claim_answer, claim_result, promote
from ackline.stores.postgres.engine import TRANSACTION_ATTEMPTS, Engine
from ackline.stores.postgres.enqueue import ensure_queue, insert_after_lookup
from ackline.stores.postgres.io.transaction import Transaction
from ackline.stores.postgres.leases import JobLookup, lock_leases, split_lease_rows
from ackline.stores.postgres.queue_cache import CachedQueue
from ackline.stores.postgres.transactions.borrowed_connection import (
    BorrowedConnection,
    async_connection,
    blocking_connection,
    defer_notifications,
    require_transaction,
)
from ackline.stores.shared.apply import NO_JOB

BUSY_TIMEOUT = 10.0
"""Seconds that others may use a caller's connection before it is refused."""

S = TypeVar("S")
T = TypeVar("T")

LeasedNumbers = frozenset[int]
"""Numbers of jobs whose leases everyone can see."""


class _SharedLeaseRow(Exception):
    """Raised if a lease row is shared by several jobs."""

    def __init__(self, cached: CachedQueue) -> None:
        self.cached = cached


class PostgresJoinedTransaction:
    """The verbs that take part in a caller's transaction."""

    def __init__(self, engine: Engine, borrowed: BorrowedConnection) -> None:
        self._engine = engine
        self._queues = engine.queues
        self._borrowed = borrowed

    def enqueue(self, queue: QueueKey, drafts: Sequence[Draft]) -> list[Receipt]:
        ensure_queue(self._engine, queue, {draft.kind for draft in drafts})
        if not drafts:
            return []
        return self._borrowed.run(lambda tx: insert_after_lookup(self._engine, tx, queue, drafts))

    def apply(self, queue: QueueKey, transitions: Sequence[Transition]) -> list[Verdict]:
        verdicts = self._with_own_lease_rows(
            queue, transitions, lambda tx, known: self._apply(tx, queue, transitions, known)
        )
        return self._note_joined(queue, transitions, verdicts)

    def _note_joined(
        self, queue: QueueKey, transitions: Sequence[Transition], verdicts: list[Verdict]
    ) -> list[Verdict]:
        steps = zip(transitions, verdicts, strict=True)
        self._queues.record_joined(queue, [step for step, verdict in steps if verdict.applied])
        return verdicts

    def _with_own_lease_rows(
        self,
        queue: QueueKey,
        transitions: Sequence[Transition],
        work: Callable[[Transaction, LeasedNumbers | None], T],
    ) -> T:
        """Take a step that locks no lease row which a job shares with others."""
        known: LeasedNumbers | None = None
        for _ in range(TRANSACTION_ATTEMPTS):
            try:
                return self._borrowed.run(functools.partial(_call, work, known))
            except _SharedLeaseRow as together:
                # Only once a shared row was met: a job's own may be locked by an earlier step.
                known = self._split_lease_rows(queue, transitions, together)
        raise StoreUnavailable(
            f"{self._engine.where}: a heartbeat kept putting leases together, "
            f"{TRANSACTION_ATTEMPTS} times; "
            "nothing was done"
        )

    def _split_lease_rows(
        self, queue: QueueKey, transitions: Sequence[Transition], together: _SharedLeaseRow
    ) -> LeasedNumbers:
        old = not self._borrowed.sees_new_commits
        known = self._engine.write(
            lambda tx: split_lease_rows(tx, self._queues, queue, transitions, all_of_them=old)
        )
        if old:
            # This snapshot still has the shared row. The caller's next transaction shall find all
            # these jobs in rows of their own, also jobs of these kinds that are claimed later.
            together.cached.lease_one_by_one([step.id for step in transitions])
            self._borrowed.require_sees_new_commits(together)
        return known

    def _apply(
        self,
        tx: Transaction,
        queue: QueueKey,
        transitions: Sequence[Transition],
        known: LeasedNumbers | None,
    ) -> list[Verdict]:
        cached = self._queues.find(tx, queue)
        if cached is None:
            return [NO_JOB] * len(transitions)
        finding = JobLookup(tx, cached, lock_leases(tx, cached, transitions))
        # A lease that nobody else can see was made by this transaction, and holds up nobody.
        tokens = {step.token for step in transitions if step.token is not None}
        if finding.leases.shared(tokens, known):
            raise _SharedLeaseRow(cached)
        return apply(tx, self._queues, cached, transitions, finding)

    def claim(
        self, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition] = ()
    ) -> ClaimResult:
        self._engine.write(lambda tx: self._promote(tx, queue))

        def work(tx: Transaction, known: LeasedNumbers | None) -> ClaimAnswer:
            verdicts = self._apply(tx, queue, transitions, known) if transitions else []
            return self._claim(tx, queue, request, verdicts)

        answer = self._with_own_lease_rows(queue, transitions, work)
        self._note_joined(queue, transitions, answer.verdicts)
        return claim_result(self._engine, queue, answer)

    def _promote(self, tx: Transaction, queue: QueueKey) -> None:
        cached = self._queues.find(tx, queue)
        if cached is not None:
            promote(tx, cached, CLAIM_MAINTENANCE_LIMIT)

    def _claim(
        self, tx: Transaction, queue: QueueKey, request: ClaimRequest, verdicts: list[Verdict]
    ) -> ClaimAnswer:
        cached = self._queues.find(tx, queue)
        if cached is None:
            return ClaimAnswer(tx.now, verdicts, [], None, None)
        taking = ClaimRun(tx, cached, request)
        jobs = [] if cached.settings.paused else taking.run()
        return claim_answer(tx, cached, verdicts, jobs, request)._replace(end=taking.end)


class PostgresJoinContext:
    """A block during which only the store uses a caller's connection."""

    def __init__(self, engine: Engine, given: object) -> None:
        self._engine = engine
        self._given = given
        self._loan: BorrowedConnection | None = None
        self._held = contextlib.ExitStack()

    def __enter__(self) -> PostgresJoinedTransaction:
        owner = blocking_connection(self._given)
        if not owner.lock.acquire(timeout=BUSY_TIMEOUT):
            raise _busy()
        with contextlib.ExitStack() as held:
            held.callback(owner.lock.release)
            require_transaction(owner)
            self._held = held.pop_all()
        return PostgresJoinedTransaction(self._engine, BorrowedConnection(self._engine, owner))

    def __exit__(self, *error: object) -> None:
        self._held.close()

    async def __aenter__(self) -> PostgresJoinedTransaction:
        owner = await async_connection(self._given)
        try:
            async with asyncio.timeout(BUSY_TIMEOUT):
                await owner.lock.acquire()
        except TimeoutError:
            raise _busy() from None
        with contextlib.ExitStack() as held:
            held.callback(owner.lock.release)
            require_transaction(owner)
            held.enter_context(defer_notifications(owner))
            self._loan = BorrowedConnection(self._engine, owner)
            self._held = held.pop_all()
        return PostgresJoinedTransaction(self._engine, self._loan)

    async def __aexit__(self, *error: object) -> None:
        assert self._loan is not None
        with self._held:
            # A cancelled caller leaves while its step is still under way in a thread.
            if isinstance(error[1], asyncio.CancelledError):
                await _run_uncancelled(asyncio.to_thread(self._loan.stop))


def _call(work: Callable[[Transaction, S], T], known: S, tx: Transaction) -> T:
    return work(tx, known)


def _busy() -> CannotJoin:
    return CannotJoin(
        f"the connection was busy with something else for {BUSY_TIMEOUT:g} s: finish that first, "
        f"be it a "
        "COPY or a stream of rows; nothing was done"
    )


async def _run_uncancelled(work: Coroutine[Any, Any, None]) -> None:
    """Await something that must be completed, however often this task is cancelled."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    task.result()
