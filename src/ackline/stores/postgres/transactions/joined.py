"""Enqueue, claim and settle jobs in a user's transaction.

What other processes must not wait for is done on a connection of the store, before the user's
commit: queues are created, due jobs are promoted, and a job to settle gets a lease row of its own,
so that the jobs that were leased with it stay unlocked.
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
from ackline.stores.contract import ClaimRequest, ClaimResult, Receipt
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
"""Seconds to wait for a connection that another thread or task is using."""

S = TypeVar("S")
T = TypeVar("T")

LeasedNumbers = frozenset[int]
"""The numbers of jobs whose leases are committed."""


class _SharedLeaseRow(Exception):
    """Raised if a job shares its lease row with others."""

    def __init__(self, cached: CachedQueue) -> None:
        self.cached = cached


class PostgresJoinedTransaction:
    """The calls that take part in a user's transaction."""

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
            queue, transitions, lambda tx, committed: self._apply(tx, queue, transitions, committed)
        )
        return self._record_joined(queue, transitions, verdicts)

    def _record_joined(
        self, queue: QueueKey, transitions: Sequence[Transition], verdicts: list[Verdict]
    ) -> list[Verdict]:
        steps = zip(transitions, verdicts, strict=True)
        self._queues.record_joined(
            queue, [transition for transition, verdict in steps if verdict.applied]
        )
        return verdicts

    def _with_own_lease_rows(
        self,
        queue: QueueKey,
        transitions: Sequence[Transition],
        work: Callable[[Transaction, LeasedNumbers | None], T],
    ) -> T:
        """Run work that must not lock a lease row of other jobs."""
        committed: LeasedNumbers | None = None
        for _ in range(TRANSACTION_ATTEMPTS):
            try:
                return self._borrowed.run(functools.partial(_call, work, committed))
            except _SharedLeaseRow as shared:
                # Not before a shared row was found: an earlier call may have locked a job's own.
                committed = self._split_lease_rows(queue, transitions, shared)
        raise StoreUnavailable(
            f"{self._engine.where}: heartbeats merged the leases of these jobs again "
            f"{TRANSACTION_ATTEMPTS} times; nothing was changed"
        )

    def _split_lease_rows(
        self, queue: QueueKey, transitions: Sequence[Transition], shared: _SharedLeaseRow
    ) -> LeasedNumbers:
        old = not self._borrowed.sees_new_commits
        committed = self._engine.write(
            lambda tx: split_lease_rows(tx, self._queues, queue, transitions, with_shared=old)
        )
        if old:
            # This snapshot still has the shared row. The user's next transaction must find these
            # jobs, and those of their kinds that are claimed later, in rows of their own.
            shared.cached.lease_one_by_one([transition.id for transition in transitions])
            self._borrowed.require_sees_new_commits(shared)
        return committed

    def _apply(
        self,
        tx: Transaction,
        queue: QueueKey,
        transitions: Sequence[Transition],
        committed: LeasedNumbers | None,
    ) -> list[Verdict]:
        cached = self._queues.find(tx, queue)
        if cached is None:
            return [NO_JOB] * len(transitions)
        lookup = JobLookup(tx, cached, lock_leases(tx, cached, transitions))
        # A lease that is not committed was created by this transaction, and blocks no other.
        tokens = {transition.token for transition in transitions if transition.token is not None}
        if lookup.leases.shared(tokens, committed):
            raise _SharedLeaseRow(cached)
        return apply(tx, self._queues, cached, transitions, lookup)

    def claim(
        self, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition] = ()
    ) -> ClaimResult:
        self._engine.write(lambda tx: self._promote(tx, queue))

        def work(tx: Transaction, committed: LeasedNumbers | None) -> ClaimAnswer:
            verdicts = self._apply(tx, queue, transitions, committed) if transitions else []
            return self._claim(tx, queue, request, verdicts)

        answer = self._with_own_lease_rows(queue, transitions, work)
        self._record_joined(queue, transitions, answer.verdicts)
        return claim_result(self._engine, queue, answer)

    def _promote(self, tx: Transaction, queue: QueueKey) -> None:
        cached = self._queues.find(tx, queue)
        if cached is not None:
            promote(tx, cached, cached.settings.repair_limit)

    def _claim(
        self, tx: Transaction, queue: QueueKey, request: ClaimRequest, verdicts: list[Verdict]
    ) -> ClaimAnswer:
        cached = self._queues.find(tx, queue)
        if cached is None:
            return ClaimAnswer(tx.now, verdicts, [], None, None)
        run = ClaimRun(tx, cached, request)
        jobs = [] if cached.settings.paused else run.run()
        return claim_answer(tx, cached, verdicts, jobs, request)._replace(end=run.end)


class PostgresJoinContext:
    """A context during which only the store uses a user's connection."""

    def __init__(self, engine: Engine, given: object) -> None:
        self._engine = engine
        self._given = given
        self._borrowed: BorrowedConnection | None = None
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> PostgresJoinedTransaction:
        owner = blocking_connection(self._given)
        if not owner.lock.acquire(timeout=BUSY_TIMEOUT):
            raise _busy()
        with contextlib.ExitStack() as stack:
            stack.callback(owner.lock.release)
            require_transaction(owner)
            self._stack = stack.pop_all()
        return PostgresJoinedTransaction(self._engine, BorrowedConnection(self._engine, owner))

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    async def __aenter__(self) -> PostgresJoinedTransaction:
        owner = await async_connection(self._given)
        try:
            async with asyncio.timeout(BUSY_TIMEOUT):
                await owner.lock.acquire()
        except TimeoutError:
            raise _busy() from None
        with contextlib.ExitStack() as stack:
            stack.callback(owner.lock.release)
            require_transaction(owner)
            stack.enter_context(defer_notifications(owner))
            self._borrowed = BorrowedConnection(self._engine, owner)
            self._stack = stack.pop_all()
        return PostgresJoinedTransaction(self._engine, self._borrowed)

    async def __aexit__(self, *error: object) -> None:
        assert self._borrowed is not None
        with self._stack:
            # A cancelled caller leaves while its call is still running in a thread.
            if isinstance(error[1], asyncio.CancelledError):
                await _run_uncancelled(asyncio.to_thread(self._borrowed.stop))


def _call(work: Callable[[Transaction, S], T], committed: S, tx: Transaction) -> T:
    return work(tx, committed)


def _busy() -> CannotJoin:
    return CannotJoin(
        f"the connection was busy for {BUSY_TIMEOUT:g} s: finish what is running on it first, such "
        "as a COPY or a stream of rows; nothing was changed"
    )


async def _run_uncancelled(work: Coroutine[Any, Any, None]) -> None:
    """Await something that must complete, even if this task is cancelled."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    task.result()
