"""Stores that can join transactions of their callers."""

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
    """A caller with its own transaction, and short methods for the calls in it."""

    def __init__(self, driver: QueueDriver, connection: Any) -> None:
        self.driver = driver
        self.connection = connection

    def enqueue(self, *ids: str) -> list[Receipt]:
        with self.driver.store.join(self.connection) as joined:
            return joined.enqueue(self.driver.queue, [draft(id) for id in ids])

    def claim(self, limit: int = 1) -> ClaimResult:
        request = ClaimRequest(worker="caller", limit=limit, lease=LEASE)
        with self.driver.store.join(self.connection) as joined:
            return joined.claim(self.driver.queue, request)

    def apply(self, *transitions: Transition) -> list[Verdict]:
        with self.driver.store.join(self.connection) as joined:
            return joined.apply(self.driver.queue, transitions)

    def complete(self, job: Record) -> Verdict:
        return self.apply(complete(job, b"1", policy_of(job)))[0]

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()


class JoinRules(StoreCase):
    """For stores with `joins_transactions`: a step commits or rolls back with its caller."""

    def make_connection(self, path: Path) -> ClientConnection:
        """Return a connection such as your users have, to the database of the store at `path`."""
        raise NotImplementedError(f"{type(self).__name__} must say how callers connect")

    @pytest.fixture
    def caller(self, driver: QueueDriver, tmp_path: Path) -> Iterator[Callable[[], Caller]]:
        if not driver.store.capabilities.joins_transactions:
            pytest.skip(f"{driver.store.capabilities.name} cannot join")
        callers: list[Caller] = []

        def call() -> Caller:
            callers.append(Caller(driver, self.make_connection(tmp_path)))
            return callers[-1]

        yield call
        for opened in callers:
            opened.connection.close()

    def test_a_store_without_transactions_says_so(self, store: Store) -> None:
        if store.capabilities.joins_transactions:
            pytest.skip(f"{store.capabilities.name} can")
        with pytest.raises(CannotJoin):
            store.join(object())

    def test_a_job_is_stored_by_the_commit(
        self, driver: QueueDriver, caller: Callable[[], Caller]
    ) -> None:
        tx = caller()
        [receipt] = tx.enqueue("a")
        assert (receipt.accepted, receipt.state) == (True, State.QUEUED)
        assert (driver.find("a"), driver.claim_jobs(), driver.journal()) == (None, [], [])

        tx.commit()

        assert driver.counts() == {State.QUEUED: 1}
        assert [event.id for event in driver.journal()] == ["a"]
        assert driver.claim_one().id == "a"

    def test_a_rolled_back_job_is_not_stored(
        self, driver: QueueDriver, caller: Callable[[], Caller]
    ) -> None:
        tx = caller()
        tx.enqueue("a")
        tx.rollback()

        assert (driver.find("a"), driver.claim_jobs(), driver.journal()) == (None, [], [])
        assert driver.enqueue("a").accepted

    def test_a_transaction_sees_its_own_steps(
        self, driver: QueueDriver, caller: Callable[[], Caller]
    ) -> None:
        tx = caller()
        assert [receipt.accepted for receipt in tx.enqueue("a", "a")] == [True, False]
        assert not tx.enqueue("a")[0].accepted
        [job] = tx.claim(2).jobs
        assert tx.complete(job) == Verdict(True, State.COMPLETED)
        assert tx.enqueue("a")[0].state is State.COMPLETED

        tx.commit()

        assert driver.counts() == {State.COMPLETED: 1}

    def test_a_rolled_back_claim_is_undone_at_once(
        self, driver: QueueDriver, caller: Callable[[], Caller]
    ) -> None:
        driver.enqueue("a")
        tx = caller()
        [job] = tx.claim().jobs
        assert (driver.state("a"), driver.claim_jobs()) == (State.QUEUED, [])

        tx.rollback()

        again = driver.claim_one()
        assert (again.id, again.attempts) == ("a", 1)
        assert again.token > job.token

    def test_a_rolled_back_settling_is_undone(
        self, driver: QueueDriver, caller: Callable[[], Caller]
    ) -> None:
        job = driver.enqueue_and_claim("a")
        tx = caller()
        assert tx.complete(job).applied
        tx.rollback()

        assert driver.state("a") is State.PROCESSING
        assert driver.complete(job) == Verdict(True, State.COMPLETED)

    def test_a_stale_token_is_refused_and_changes_nothing(
        self, driver: QueueDriver, caller: Callable[[], Caller]
    ) -> None:
        """Rule 2."""
        job = driver.enqueue_and_claim("a")
        driver.apply_one(release(job, policy_of(job)))
        driver.claim_one()
        tx = caller()

        assert tx.complete(job) == Verdict(False, State.PROCESSING)
        tx.commit()

        assert driver.state("a") is State.PROCESSING

    def test_a_job_that_a_transaction_is_settling_is_not_expired(
        self, driver: QueueDriver, caller: Callable[[], Caller]
    ) -> None:
        """Rule 4: one outcome, and the maintenance does not wait for it."""
        job = driver.enqueue_and_claim("a")
        tx = caller()
        tx.complete(job)
        driver.clock.advance(LEASE)

        [verdict] = driver.sweep()
        tx.commit()

        assert not verdict.applied
        assert driver.state("a") is State.COMPLETED

    @pytest.mark.parametrize("first", [0, 1])
    def test_no_reader_skips_the_later_of_two_open_transactions(
        self, driver: QueueDriver, caller: Callable[[], Caller], first: int
    ) -> None:
        """Rule 14: whichever of the two commits first."""
        driver.enqueue("before")
        cursor = driver.journal()[-1].cursor
        transactions = [caller(), caller()]
        transactions[0].enqueue("a")
        transactions[1].enqueue("b")
        seen: list[str] = []

        def read() -> None:
            nonlocal cursor
            while batch := driver.store.events(driver.queue, cursor, 10):
                seen.extend(event.id for event in batch)
                cursor = batch[-1].cursor

        read()
        transactions[first].commit()
        read()
        driver.enqueue("between")
        read()
        transactions[1 - first].commit()
        read()

        assert sorted(seen) == ["a", "b", "between"]
        assert seen == [event.id for event in driver.journal()][1:]
