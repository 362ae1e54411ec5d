"""Stores that take part in transactions of their callers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from ackline.core.errors import CannotJoin
from ackline.core.job import Record, State
from ackline.core.lifecycle import Transition, Verdict, complete, release
from ackline.stores.contract import ClaimRequest, ClaimResult, Receipt, Store
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import LEASE, QueueDriver, draft, policy_of


class ClientConnection(Protocol):
    """A caller's connection, on which a transaction begins with the first use."""

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def close(self) -> None: ...


class Caller:
    """A caller with its own transaction, and short methods for what it does in it."""

    def __init__(self, bench: QueueDriver, connection: Any) -> None:
        self.bench = bench
        self.connection = connection

    def put(self, *ids: str) -> list[Receipt]:
        with self.bench.store.join(self.connection) as joined:
            return joined.enqueue(self.bench.queue, [draft(id) for id in ids])

    def claim(self, limit: int = 1) -> ClaimResult:
        request = ClaimRequest(worker="caller", limit=limit, lease=LEASE)
        with self.bench.store.join(self.connection) as joined:
            return joined.claim(self.bench.queue, request)

    def apply(self, *transitions: Transition) -> list[Verdict]:
        with self.bench.store.join(self.connection) as joined:
            return joined.apply(self.bench.queue, transitions)

    def complete(self, job: Record) -> Verdict:
        return self.apply(complete(job, b"1", policy_of(job)))[0]

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()


class JoinRules(StoreCase):
    """For stores with the capability `joins`: a step commits or rolls back with its caller."""

    def make_connection(self, place: Path) -> ClientConnection:
        """A connection as your users have it, to the database of the store at this place."""
        raise NotImplementedError(f"{type(self).__name__} must say how callers connect")

    @pytest.fixture
    def caller(self, bench: QueueDriver, tmp_path: Path) -> Iterator[Callable[[], Caller]]:
        if not bench.store.capabilities.joins_transactions:
            pytest.skip(f"{bench.store.capabilities.name} cannot join")
        callers: list[Caller] = []

        def call() -> Caller:
            callers.append(Caller(bench, self.make_connection(tmp_path)))
            return callers[-1]

        yield call
        for opened in callers:
            opened.connection.close()

    def test_a_store_that_cannot_says_so(self, store: Store) -> None:
        if store.capabilities.joins_transactions:
            pytest.skip(f"{store.capabilities.name} can")
        with pytest.raises(CannotJoin):
            store.join(object())

    def test_a_job_is_there_with_the_commit(
        self, bench: QueueDriver, caller: Callable[[], Caller]
    ) -> None:
        tx = caller()
        [receipt] = tx.put("a")
        assert (receipt.accepted, receipt.state) == (True, State.QUEUED)
        assert (bench.find("a"), bench.take(), bench.journal()) == (None, [], [])

        tx.commit()

        assert bench.counts() == {State.QUEUED: 1}
        assert [event.id for event in bench.journal()] == ["a"]
        assert bench.take_one().id == "a"

    def test_a_rolled_back_job_never_was(
        self, bench: QueueDriver, caller: Callable[[], Caller]
    ) -> None:
        tx = caller()
        tx.put("a")
        tx.rollback()

        assert (bench.find("a"), bench.take(), bench.journal()) == (None, [], [])
        assert bench.put("a").accepted

    def test_a_transaction_sees_its_own_steps(
        self, bench: QueueDriver, caller: Callable[[], Caller]
    ) -> None:
        tx = caller()
        assert [receipt.accepted for receipt in tx.put("a", "a")] == [True, False]
        assert not tx.put("a")[0].accepted
        [job] = tx.claim(2).jobs
        assert tx.complete(job) == Verdict(True, State.COMPLETED)
        assert tx.put("a")[0].state is State.COMPLETED

        tx.commit()

        assert bench.counts() == {State.COMPLETED: 1}

    def test_a_rolled_back_claim_is_undone_at_once(
        self, bench: QueueDriver, caller: Callable[[], Caller]
    ) -> None:
        bench.put("a")
        tx = caller()
        [job] = tx.claim().jobs
        assert (bench.state("a"), bench.take()) == (State.QUEUED, [])

        tx.rollback()

        again = bench.take_one()
        assert (again.id, again.attempts) == ("a", 1)
        assert again.token > job.token

    def test_a_rolled_back_settling_is_undone(
        self, bench: QueueDriver, caller: Callable[[], Caller]
    ) -> None:
        job = bench.taken("a")
        tx = caller()
        assert tx.complete(job).applied
        tx.rollback()

        assert bench.state("a") is State.PROCESSING
        assert bench.complete(job) == Verdict(True, State.COMPLETED)

    def test_a_stale_token_is_refused_and_changes_nothing(
        self, bench: QueueDriver, caller: Callable[[], Caller]
    ) -> None:
        """Rule 2."""
        job = bench.taken("a")
        bench.apply_one(release(job, policy_of(job)))
        bench.take_one()
        tx = caller()

        assert tx.complete(job) == Verdict(False, State.PROCESSING)
        tx.commit()

        assert bench.state("a") is State.PROCESSING

    def test_no_sweep_takes_away_what_a_transaction_is_settling(
        self, bench: QueueDriver, caller: Callable[[], Caller]
    ) -> None:
        """Rule 4: one outcome, and the sweeper does not wait for it."""
        job = bench.taken("a")
        tx = caller()
        tx.complete(job)
        bench.clock.advance(LEASE)

        [verdict] = bench.sweep()
        tx.commit()

        assert not verdict.applied
        assert bench.state("a") is State.COMPLETED

    @pytest.mark.parametrize("first", [0, 1])
    def test_no_reader_skips_the_later_of_two_open_transactions(
        self, bench: QueueDriver, caller: Callable[[], Caller], first: int
    ) -> None:
        """Rule 14: whichever of the two commits first."""
        bench.put("before")
        cursor = bench.journal()[-1].cursor
        transactions = [caller(), caller()]
        transactions[0].put("a")
        transactions[1].put("b")
        seen: list[str] = []

        def read() -> None:
            nonlocal cursor
            while batch := bench.store.events(bench.queue, cursor, 10):
                seen.extend(event.id for event in batch)
                cursor = batch[-1].cursor

        read()
        transactions[first].commit()
        read()
        bench.put("between")
        read()
        transactions[1 - first].commit()
        read()

        assert sorted(seen) == ["a", "b", "between"]
        assert seen == [event.id for event in bench.journal()][1:]
