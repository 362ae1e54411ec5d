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

from ackline.errors import CannotJoin, StoreUnavailable
from ackline.job import Draft, QueueKey
from ackline.lifecycle import Transition, Verdict
from ackline.stores.base import REPAIR_LIMIT, Claimed, ClaimRequest, Receipt
from ackline.stores.postgres.apply import apply
from ackline.stores.postgres.borrowed_connection import (
    BorrowedConnection,
    async_connection,
    blocking_connection,
    notifications_kept,
    require_transaction,
)
from ackline.stores.postgres.claim import Answer, Taking, answered, claimed, promote
from ackline.stores.postgres.engine import TRIES, Engine
from ackline.stores.postgres.enqueue import insert_checked, made
from ackline.stores.postgres.leases import Finding, locked_leases, part_leases
from ackline.stores.postgres.queues import QueueEntry
from ackline.stores.postgres.transaction import Transaction
from ackline.stores.shared.apply import GONE

BUSY = 10.0
"""Seconds that others may use a caller's connection before it is refused."""

S = TypeVar("S")
T = TypeVar("T")

Leased = frozenset[int]
"""Numbers of jobs whose leases everyone can see."""


class _Together(Exception):
    """Raised if a lease row is shared by several jobs."""

    def __init__(self, entry: QueueEntry) -> None:
        self.entry = entry


class PostgresJoined:
    """The verbs that take part in a caller's transaction."""

    def __init__(self, engine: Engine, loan: BorrowedConnection) -> None:
        self._engine = engine
        self._queues = engine.queues
        self._loan = loan

    def enqueue(self, queue: QueueKey, drafts: Sequence[Draft]) -> list[Receipt]:
        made(self._engine, queue, {draft.kind for draft in drafts})
        if not drafts:
            return []
        return self._loan.run(lambda tx: insert_checked(self._engine, tx, queue, drafts))

    def apply(self, queue: QueueKey, transitions: Sequence[Transition]) -> list[Verdict]:
        verdicts = self._alone(
            queue, transitions, lambda tx, known: self._apply(tx, queue, transitions, known)
        )
        return self._note_joined(queue, transitions, verdicts)

    def _note_joined(
        self, queue: QueueKey, transitions: Sequence[Transition], verdicts: list[Verdict]
    ) -> list[Verdict]:
        steps = zip(transitions, verdicts, strict=True)
        self._queues.note_joined(queue, [step for step, verdict in steps if verdict.applied])
        return verdicts

    def _alone(
        self,
        queue: QueueKey,
        transitions: Sequence[Transition],
        work: Callable[[Transaction, Leased | None], T],
    ) -> T:
        """Take a step that locks no lease row which a job shares with others."""
        known: Leased | None = None
        for _ in range(TRIES):
            try:
                return self._loan.run(functools.partial(_call, work, known))
            except _Together as together:
                # Only once a shared row was met: a job's own may be locked by an earlier step.
                known = self._part(queue, transitions, together)
        raise StoreUnavailable(
            f"{self._engine.where}: a heartbeat kept putting leases together, {TRIES} times; "
            "nothing was done"
        )

    def _part(
        self, queue: QueueKey, transitions: Sequence[Transition], together: _Together
    ) -> Leased:
        old = not self._loan.looks_afresh
        known = self._engine.write(
            lambda tx: part_leases(tx, self._queues, queue, transitions, all_of_them=old)
        )
        if old:
            # This snapshot still has the shared row. The caller's next transaction shall find all
            # these jobs in rows of their own, also jobs of these kinds that are claimed later.
            together.entry.claim_apart([step.id for step in transitions])
            self._loan.require_fresh_look(together)
        return known

    def _apply(
        self,
        tx: Transaction,
        queue: QueueKey,
        transitions: Sequence[Transition],
        known: Leased | None,
    ) -> list[Verdict]:
        entry = self._queues.begin(tx, queue)
        if entry is None:
            return [GONE] * len(transitions)
        finding = Finding(tx, entry, locked_leases(tx, entry, transitions))
        # A lease that nobody else can see was made by this transaction, and holds up nobody.
        tokens = {step.token for step in transitions if step.token is not None}
        if finding.leases.shared(tokens, known):
            raise _Together(entry)
        return apply(tx, self._queues, entry, transitions, finding)

    def claim(
        self, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition] = ()
    ) -> Claimed:
        self._engine.write(lambda tx: self._promote(tx, queue))

        def work(tx: Transaction, known: Leased | None) -> Answer:
            verdicts = self._apply(tx, queue, transitions, known) if transitions else []
            return self._claim(tx, queue, request, verdicts)

        answer = self._alone(queue, transitions, work)
        self._note_joined(queue, transitions, answer.verdicts)
        return claimed(self._engine, queue, answer)

    def _promote(self, tx: Transaction, queue: QueueKey) -> None:
        entry = self._queues.begin(tx, queue)
        if entry is not None:
            promote(tx, entry, REPAIR_LIMIT)

    def _claim(
        self, tx: Transaction, queue: QueueKey, request: ClaimRequest, verdicts: list[Verdict]
    ) -> Answer:
        entry = self._queues.begin(tx, queue)
        if entry is None:
            return Answer(tx.now, verdicts, [], None, None)
        taking = Taking(tx, entry, request)
        jobs = [] if entry.settings.paused else taking.run()
        return answered(tx, entry, verdicts, jobs, request)._replace(end=taking.end)


class PostgresJoining:
    """A block during which only the store uses a caller's connection."""

    def __init__(self, engine: Engine, given: object) -> None:
        self._engine = engine
        self._given = given
        self._loan: BorrowedConnection | None = None
        self._held = contextlib.ExitStack()

    def __enter__(self) -> PostgresJoined:
        owner = blocking_connection(self._given)
        if not owner.lock.acquire(timeout=BUSY):
            raise _busy()
        with contextlib.ExitStack() as held:
            held.callback(owner.lock.release)
            require_transaction(owner)
            self._held = held.pop_all()
        return PostgresJoined(self._engine, BorrowedConnection(self._engine, owner))

    def __exit__(self, *error: object) -> None:
        self._held.close()

    async def __aenter__(self) -> PostgresJoined:
        owner = await async_connection(self._given)
        try:
            async with asyncio.timeout(BUSY):
                await owner.lock.acquire()
        except TimeoutError:
            raise _busy() from None
        with contextlib.ExitStack() as held:
            held.callback(owner.lock.release)
            require_transaction(owner)
            held.enter_context(notifications_kept(owner))
            self._loan = BorrowedConnection(self._engine, owner)
            self._held = held.pop_all()
        return PostgresJoined(self._engine, self._loan)

    async def __aexit__(self, *error: object) -> None:
        assert self._loan is not None
        with self._held:
            # A cancelled caller leaves while its step is still under way in a thread.
            if isinstance(error[1], asyncio.CancelledError):
                await _to_the_end(asyncio.to_thread(self._loan.stop))


def _call(work: Callable[[Transaction, S], T], known: S, tx: Transaction) -> T:
    return work(tx, known)


def _busy() -> CannotJoin:
    return CannotJoin(
        f"the connection was busy with something else for {BUSY:g} s: finish that first, be it a "
        "COPY or a stream of rows; nothing was done"
    )


async def _to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Await something that must be completed, however often this task is cancelled."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    task.result()
