"""Handlers that complete their jobs in transactions of their own."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from tests.stores.postgres.transactions.shop import Shop
from tests.waiting import until

from ackline import Job, LeaseLost, NewJob, Snooze, Worker
from ackline.core.config import DEFAULTS
from ackline.core.events import Act
from ackline.core.job import State
from ackline.core.lifecycle import release

Start = Callable[..., Worker]


def wait_for(shop: Shop, id: str, *states: State, seconds: float = 15.0) -> State:
    def reached() -> State | None:
        return state if (state := shop.state(id)) in states else None

    state = until(reached, seconds, f"{id} is none of {states}")
    assert state is not None
    return state


def wait_until_idle(shop: Shop, seconds: float = 15.0) -> None:
    """Wait until the worker has sent everything."""
    until(lambda: not any(worker.leases for worker in shop.queue.workers()), seconds)
    time.sleep(0.2)


def errors_of(shop: Shop, id: str) -> list[str]:
    [record] = shop.queue.store.get(shop.queue.key, [id])
    assert record is not None
    return [failure.type for failure in record.history]


def test_the_commit_is_the_completion(
    shop: Shop, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    @shop.queue.handler
    def pay(job: Job[Any]) -> str:
        with shop.connect() as tx:
            tx.execute(shop.insert(job.id))
            job.complete({"paid": job.payload}, connection=tx)
        return "what it returns does not matter"

    for n in range(30):
        shop.queue.enqueue(n, id=f"o-{n}")
    with caplog.at_level(logging.INFO, "ackline"):
        start(shop.queue, concurrency=8, maintenance=False)
        results = [shop.queue.result(f"o-{n}", timeout=30) for n in range(30)]
        wait_until_idle(shop)

    assert results == [{"paid": n} for n in range(30)]
    assert len(shop.orders()) == 30
    assert [event.act for event in shop.queue.events()].count(Act.COMPLETE) == 30
    # The worker's own outcome is refused each time, as it should be: no lost lease is reported.
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("level", ["REPEATABLE_READ", "SERIALIZABLE"])
def test_at_higher_isolation_levels_a_few_jobs_need_another_attempt(
    shop: Shop, start: Start, level: str
) -> None:
    """Their leases are split too late at first; the next attempt finds them in own rows."""

    @shop.queue.handler(max_attempts=4, backoff=[0.05])
    def pay(job: Job[Any]) -> None:
        with shop.connect() as tx:
            tx.isolation_level = psycopg.IsolationLevel[level]
            tx.execute(shop.insert(job.id))
            job.complete(job.attempt, connection=tx)

    ids = [f"o-{n}" for n in range(60)]
    shop.queue.enqueue_many(NewJob({}, id=id) for id in ids)
    start(shop.queue, concurrency=4)

    attempts = [shop.queue.result(id, timeout=30) for id in ids]
    assert shop.orders() == set(ids)
    assert attempts.count(1) >= 30


def test_async_handlers_await_it(shop: Shop, start: Start) -> None:
    @shop.queue.handler
    async def pay(job: Job[Any]) -> None:
        async with await shop.connect_async() as tx:
            await tx.execute(shop.insert(job.id))
            await job.complete({"paid": job.payload}, connection=tx)

    for n in range(10):
        shop.queue.enqueue(n, id=f"o-{n}")
    start(shop.queue, concurrency=4)

    assert [shop.queue.result(f"o-{n}", timeout=30) for n in range(10)] == [
        {"paid": n} for n in range(10)
    ]
    assert len(shop.orders()) == 10


def test_a_rolled_back_completion_is_a_failed_attempt(
    shop: Shop, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    @shop.queue.handler(backoff=[0.01])
    def pay(job: Job[Any]) -> None:
        with shop.connect() as tx:
            tx.execute(shop.insert(job.id))
            job.complete("paid", connection=tx)
            if job.attempt == 1:
                tx.rollback()

    shop.queue.enqueue({}, id="o-1")
    start(shop.queue)

    assert shop.queue.result("o-1", timeout=30) == "paid"
    assert shop.orders() == {"o-1"}
    assert errors_of(shop, "o-1") == ["NotCommitted"]
    assert "rolled back" in caplog.text


def test_a_committed_failure_is_not_called_rolled_back(
    shop: Shop, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    @shop.queue.handler(backoff=[0.01])
    def pay(job: Job[Any]) -> str | None:
        if job.attempt > 1:
            return "paid"
        with shop.connect() as tx:
            tx.execute(shop.insert("reason"))
            shop.queue.fail(job, "no money", connection=tx)
        return None

    shop.queue.enqueue({}, id="o-1")
    start(shop.queue)

    assert shop.queue.result("o-1", timeout=30) == "paid"
    assert shop.orders() == {"reason"}
    assert "its transaction was rolled back" not in caplog.text


def test_attempts_that_are_never_committed_end_in_the_dlq(shop: Shop, start: Start) -> None:
    @shop.queue.handler(backoff=[0.01], max_attempts=3)
    def pay(job: Job[Any]) -> None:
        with shop.connect() as tx:
            job.complete("paid", connection=tx)
            tx.rollback()

    shop.queue.enqueue({}, id="o-1")
    start(shop.queue)
    wait_for(shop, "o-1", State.FAILED)

    assert errors_of(shop, "o-1") == ["NotCommitted"] * 3


def test_a_handler_that_raises_fails_with_its_own_error(shop: Shop, start: Start) -> None:
    @shop.queue.handler(max_attempts=1)
    def pay(job: Job[Any]) -> None:
        with shop.connect() as tx:
            tx.execute(shop.insert(job.id))
            job.complete("paid", connection=tx)
            raise RuntimeError("the card was declined")

    shop.queue.enqueue({}, id="o-1")
    start(shop.queue)
    wait_for(shop, "o-1", State.FAILED)

    assert shop.orders() == set()
    assert errors_of(shop, "o-1") == ["RuntimeError"]


def test_a_handler_that_raises_after_its_commit_has_completed(
    shop: Shop, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    @shop.queue.handler
    def pay(job: Job[Any]) -> None:
        with shop.connect() as tx:
            job.complete("paid", connection=tx)
        raise RuntimeError("the printer is on fire")

    shop.queue.enqueue({}, id="o-1")
    start(shop.queue)

    assert shop.queue.result("o-1", timeout=30) == "paid"
    wait_until_idle(shop)
    assert shop.state("o-1") is State.COMPLETED
    assert "failed after it was settled (RuntimeError: the printer is on fire)" in caplog.text


def test_the_outcome_counts_if_the_transaction_was_rolled_back(shop: Shop, start: Start) -> None:
    @shop.queue.handler
    def pay(job: Job[Any]) -> Any:
        with shop.connect() as tx:
            job.complete("paid", connection=tx)
            tx.rollback()
        return Snooze(3600)

    shop.queue.enqueue({}, id="o-1")
    start(shop.queue)

    assert wait_for(shop, "o-1", State.SCHEDULED, State.FAILING) is State.SCHEDULED


def test_a_stale_handler_writes_nothing(shop: Shop, start: Start) -> None:
    lost: list[LeaseLost] = []

    @shop.queue.handler(max_attempts=5, backoff=[0.01])
    def pay(job: Job[Any]) -> None:
        with shop.connect() as tx:
            tx.execute(shop.insert(f"{job.id} {job.attempt}"))
            if not lost:
                # Another worker gets the job.
                shop.queue.apply([release(job.record, DEFAULTS)])
            try:
                job.complete("paid", connection=tx)
            except LeaseLost as error:
                lost.append(error)
                raise

    shop.queue.enqueue({}, id="o-1")
    start(shop.queue)

    assert shop.queue.result("o-1", timeout=30) == "paid"
    assert len(lost) == 1
    assert len(shop.orders()) == 1


def test_a_handler_may_retry_its_transaction(shop: Shop, start: Start) -> None:
    @shop.queue.handler(max_attempts=1)
    def pay(job: Job[Any]) -> None:
        for turn in range(3):
            with shop.connect() as tx:
                tx.execute(shop.insert(job.id))
                job.complete(turn, connection=tx)
                if turn < 2:
                    tx.rollback()
                    continue

    shop.queue.enqueue({}, id="o-1")
    start(shop.queue)

    assert shop.queue.result("o-1", timeout=30) == 2
    assert shop.orders() == {"o-1"}


def test_the_lease_is_extended_while_it_retries(shop: Shop, start: Start) -> None:
    """A rolled back completion leaves the job to its handler, and its heartbeat goes on."""

    @shop.queue.handler(lease=1.5, max_attempts=1)
    def pay(job: Job[Any]) -> None:
        with shop.connect() as tx:
            job.complete("first", connection=tx)
            tx.rollback()
        time.sleep(3.0)
        with shop.connect() as tx:
            job.complete("second", connection=tx)

    shop.queue.enqueue({}, id="o-1")
    start(shop.queue)

    assert shop.queue.result("o-1", timeout=30) == "second"


def test_a_commit_that_takes_longer_than_the_lease_counts(shop: Shop, start: Start) -> None:
    """Expiring skips a job that a transaction is completing."""

    @shop.queue.handler(lease=0.3, max_attempts=3)
    def pay(job: Job[Any]) -> None:
        with shop.connect() as tx:
            job.complete(job.attempt, connection=tx)
            time.sleep(2.0)

    shop.queue.enqueue({}, id="o-1")
    start(shop.queue, concurrency=2)

    assert shop.queue.result("o-1", timeout=30) == 1
    assert errors_of(shop, "o-1") == []


def test_a_transaction_left_open_blocks_no_other_job(
    shop: Shop, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """Its handler has returned without a commit or rollback, so the job keeps its lease."""
    left_open: list[Any] = []

    @shop.queue.handler("forgetful", lease=1.0, max_attempts=9)
    def leave_open(job: Job[Any]) -> None:
        tx = shop.connect()
        left_open.append(tx)
        job.complete("first", connection=tx)

    @shop.queue.handler("brisk")
    def work(job: Job[Any]) -> str:
        return "done"

    shop.queue.enqueue({}, id="open", kind="forgetful")
    for n in range(20):
        shop.queue.enqueue({}, id=str(n), kind="brisk")
    start(shop.queue, concurrency=4)
    try:
        assert [shop.queue.result(str(n), timeout=20) for n in range(20)] == ["done"] * 20
        time.sleep(2.0)
        assert len(left_open) == 1, "it ran again, while its first transaction could still commit"
        left_open[0].commit()
        assert shop.queue.result("open", timeout=10) == "first"
    finally:
        for tx in left_open:
            tx.close()
    assert "still open" in caplog.text


def test_a_transaction_left_open_and_rolled_back_is_run_again(shop: Shop, start: Start) -> None:
    left_open: list[Any] = []

    @shop.queue.handler(lease=0.5, max_attempts=9)
    def leave_open(job: Job[Any]) -> None:
        tx = shop.connect()
        left_open.append(tx)
        job.complete(job.attempt, connection=tx)
        if job.attempt > 1:
            tx.commit()

    shop.queue.enqueue({}, id="o-1")
    start(shop.queue)
    until(lambda: left_open)
    time.sleep(1.0)
    left_open[0].close()
    try:
        assert shop.queue.result("o-1", timeout=20) == 2
        assert errors_of(shop, "o-1") == ["LeaseExpired"]
    finally:
        for tx in left_open:
            tx.close()


def test_workers_that_stop_lose_no_transaction(shop: Shop) -> None:
    """Stopped at any moment: each job is completed with its order, or neither is."""

    @shop.queue.handler(max_attempts=50, backoff=[0.01])
    def pay(job: Job[Any]) -> None:
        with shop.connect() as tx:
            tx.execute(shop.insert(job.id))
            job.complete("paid", connection=tx)

    shop.queue.enqueue_many({} for _ in range(200))
    for _ in range(50):
        worker = Worker(shop.queue, concurrency=6, grace=0.0)
        worker.start()
        time.sleep(0.15)
        worker.stop()
        completed, orders = set[str](), {""}
        while completed != orders:
            # A handler that was left running may commit between the two reads.
            orders = shop.orders()
            completed = {job.id for job in shop.queue.jobs(states="completed", limit=999).jobs}
            assert orders <= completed
        if len(completed) == 200:
            return
    raise AssertionError(f"only {len(completed)} of 200 were completed")


def test_an_async_handler_that_is_cancelled_in_its_transaction(shop: Shop, start: Start) -> None:
    tried = threading.Event()

    @shop.queue.handler(max_attempts=2, backoff=[0.01], timeout=0.5)
    async def pay(job: Job[Any]) -> None:
        async with await shop.connect_async() as tx:
            await tx.execute(shop.insert(job.id))
            await job.complete("paid", connection=tx)
            if not tried.is_set():
                tried.set()
                await asyncio.sleep(30)

    shop.queue.enqueue({}, id="o-1")
    start(shop.queue)

    assert shop.queue.result("o-1", timeout=30) == "paid"
    assert errors_of(shop, "o-1") == ["HandlerTimeout"]
    assert shop.orders() == {"o-1"}
