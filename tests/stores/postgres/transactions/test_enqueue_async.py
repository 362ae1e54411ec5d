"""The same from asyncio, in transactions of psycopg's async connections."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from tests.stores.postgres.transactions.shop import Shop

from ackline import CannotJoin, LeaseLost, Queued
from ackline.aio import AsyncQueue, AsyncQueues
from ackline.core.job import State
from ackline.queues import Queues
from ackline.stores.postgres import PostgresStore
from ackline.stores.postgres.transactions import joined

Connection = psycopg.AsyncConnection[Any]
Body = Callable[[AsyncQueue[Any, Any], Connection], Coroutine[Any, Any, None]]


@pytest.fixture
def run_body(shop: Shop, store: PostgresStore) -> Callable[[Body], None]:
    """Runs a coroutine function with an async queue and an open connection."""

    @asynccontextmanager
    async def run_with() -> AsyncIterator[tuple[AsyncQueue[Any, Any], Connection]]:
        async with await shop.connect_async() as connection:
            queue = AsyncQueues(Queues(store))["work"]
            try:
                yield queue, connection
            finally:
                await queue.close()

    def run_body(body: Body) -> None:
        async def run() -> None:
            async with run_with() as (queue, connection):
                await body(queue, connection)

        asyncio.run(asyncio.wait_for(run(), 60))

    return run_body


RunBody = Callable[[Body], None]


def test_committed_and_rolled_back(run_body: RunBody, shop: Shop) -> None:
    async def body(queue: AsyncQueue[Any, Any], tx: Connection) -> None:
        await tx.execute(shop.insert("o-1"))
        assert await queue.enqueue({}, id="o-1", connection=tx) == Queued("o-1")
        assert shop.jobs() == set()
        await tx.commit()
        await queue.enqueue_many([{}, {}, {}], connection=tx)
        await tx.rollback()

    run_body(body)

    assert (shop.orders(), shop.jobs()) == ({"o-1"}, {"o-1"})


def test_claim_work_and_completion_in_one_transaction(run_body: RunBody, shop: Shop) -> None:
    shop.queue.enqueue({}, id="o-1")

    async def body(queue: AsyncQueue[Any, Any], tx: Connection) -> None:
        [job] = await queue.claim(connection=tx)
        await tx.execute(shop.insert(job.id))
        await queue.complete(job, "done", connection=tx)
        assert await queue.claim() == []
        await tx.rollback()
        [job] = await queue.claim(connection=tx, wait=5)
        assert job.attempt == 1
        await tx.execute(shop.insert(job.id))
        await queue.complete(job, "done", connection=tx)
        await tx.commit()

    run_body(body)

    assert shop.orders() == {"o-1"}
    assert shop.queue.result("o-1") == "done"


@pytest.mark.parametrize("act", ["fail", "bury", "release", "snooze"])
def test_every_way_to_settle(run_body: RunBody, shop: Shop, act: str) -> None:
    shop.queue.enqueue({}, id="o-1")
    more = {"fail": ("boom",), "bury": ("boom",), "release": (), "snooze": (60.0,)}[act]
    lands = {
        "fail": State.FAILING,
        "bury": State.FAILED,
        "release": State.QUEUED,
        "snooze": State.SCHEDULED,
    }[act]

    async def body(queue: AsyncQueue[Any, Any], tx: Connection) -> None:
        [job] = await queue.claim()
        settle = getattr(queue, act)
        await settle(job, *more, connection=tx)
        assert shop.state("o-1") is State.PROCESSING
        await tx.rollback()
        assert shop.state("o-1") is State.PROCESSING
        await settle(job, *more, connection=tx)
        await tx.commit()
        assert shop.state("o-1") is lands
        with pytest.raises(LeaseLost):
            await queue.complete(job, connection=tx)

    run_body(body)


def test_callers_of_one_connection_take_turns(run_body: RunBody, shop: Shop) -> None:
    async def body(queue: AsyncQueue[Any, Any], tx: Connection) -> None:
        async with asyncio.TaskGroup() as group:
            for n in range(8):
                group.create_task(queue.enqueue({}, id=str(n), connection=tx))
                group.create_task(tx.execute(shop.insert(str(n))))
        await tx.commit()

    run_body(body)

    assert shop.jobs() == shop.orders() == set("01234567")


def test_the_loop_goes_on_while_a_call_waits_for_a_lock(run_body: RunBody, shop: Shop) -> None:
    async def body(queue: AsyncQueue[Any, Any], tx: Connection) -> None:
        async with await shop.connect_async() as other:
            await queue.enqueue({}, id="o-1", connection=other)
            waits = asyncio.create_task(queue.enqueue({}, id="o-1", connection=tx))
            await asyncio.sleep(0.1)
            assert not waits.done()
            await other.rollback()
            assert await waits == Queued("o-1")
            await tx.commit()

    run_body(body)

    assert shop.jobs() == {"o-1"}


def test_many_waiting_calls_do_not_starve_the_one_they_wait_for(
    run_body: RunBody, shop: Shop
) -> None:
    """Each call has its own thread; otherwise the first could not reach its commit."""

    async def body(queue: AsyncQueue[Any, Any], tx: Connection) -> None:
        await queue.enqueue({}, id="o-1", connection=tx)
        others = [await shop.connect_async() for _ in range(40)]
        waiting = [
            asyncio.create_task(queue.enqueue({}, id="o-1", connection=other)) for other in others
        ]
        await asyncio.sleep(0.3)
        await queue.enqueue({}, id="o-2", connection=tx)
        await tx.commit()
        await asyncio.gather(*waiting)
        for other in others:
            await other.close()

    run_body(body)

    assert shop.jobs() == {"o-1", "o-2"}


def test_a_cancelled_call_leaves_nothing_and_the_connection_can_be_used(
    run_body: RunBody, shop: Shop
) -> None:
    async def body(queue: AsyncQueue[Any, Any], tx: Connection) -> None:
        await tx.execute(shop.insert("o-2"))
        async with await shop.connect_async() as other:
            await queue.enqueue({}, id="o-1", connection=other)
            waits = asyncio.create_task(queue.enqueue({}, id="o-1", connection=tx))
            await asyncio.sleep(0.1)
            waits.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waits
            await queue.enqueue({}, id="o-2", connection=tx)
            await other.rollback()
        await tx.commit()

    run_body(body)

    assert shop.jobs() == shop.orders() == {"o-2"}


def test_calls_cancelled_at_any_moment_are_done_as_a_whole_or_not_at_all(
    run_body: RunBody, shop: Shop
) -> None:
    kept: set[str] = set()

    async def body(queue: AsyncQueue[Any, Any], tx: Connection) -> None:
        await queue.enqueue({}, id="first", connection=tx)
        for n in range(60):
            call = asyncio.create_task(queue.enqueue({}, id=str(n), connection=tx))
            await asyncio.sleep(n * 0.0005)
            call.cancel()
            try:
                await call
            except asyncio.CancelledError:
                continue
            kept.add(str(n))
        await tx.commit()

    run_body(body)

    # A call that had already finished when it was cancelled is part of the transaction.
    assert kept | {"first"} <= shop.jobs()
    counted = shop.queue.counts()[State.QUEUED]
    assert counted == len(shop.jobs()) == len(list(shop.queue.events()))
    assert len(shop.queue.claim(100)) == counted


def test_notifications_are_delivered_in_the_event_loop(run_body: RunBody, shop: Shop) -> None:
    async def body(queue: AsyncQueue[Any, Any], tx: Connection) -> None:
        received: list[tuple[str, asyncio.AbstractEventLoop]] = []
        tx.add_notify_handler(lambda n: received.append((n.payload, asyncio.get_running_loop())))
        await tx.execute("LISTEN gossip")
        await tx.commit()
        with shop.connect(autocommit=True) as other:
            other.execute("NOTIFY gossip, 'hello'")
        await queue.enqueue({}, connection=tx)
        await tx.commit()
        await tx.execute("SELECT 1")

        assert received == [("hello", asyncio.get_running_loop())]

    run_body(body)


def test_blocking_and_async_queues_refuse_each_others_connections(
    run_body: RunBody, shop: Shop
) -> None:
    async def body(queue: AsyncQueue[Any, Any], tx: Connection) -> None:
        with pytest.raises(CannotJoin, match=r"ackline\.aio"):
            shop.queue.enqueue({}, connection=tx)
        with shop.connect() as blocking, pytest.raises(CannotJoin, match="block the event loop"):
            await queue.enqueue({}, connection=blocking)

    run_body(body)


def test_what_cannot_be_joined_is_refused(
    run_body: RunBody, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joined, "BUSY_TIMEOUT", 0.1)

    async def body(queue: AsyncQueue[Any, Any], tx: Connection) -> None:
        async with tx.lock:
            with pytest.raises(CannotJoin, match="busy"):
                await queue.enqueue({}, connection=tx)
        with pytest.raises(psycopg.errors.DivisionByZero):
            await tx.execute("SELECT 1/0")
        with pytest.raises(CannotJoin, match="roll it back"):
            await queue.enqueue({}, connection=tx)
        await tx.rollback()
        await tx.set_autocommit(True)
        with pytest.raises(CannotJoin, match="autocommit"):
            await queue.enqueue({}, connection=tx)
        async with tx.transaction():
            await queue.enqueue({}, id="o-1", connection=tx)
        await tx.close()
        with pytest.raises(CannotJoin, match="closed"):
            await queue.enqueue({}, connection=tx)

    run_body(body)

    assert shop.jobs() == {"o-1"}


def test_an_async_handler_that_waits_for_its_own_transaction_gets_an_error(
    run_body: RunBody,
) -> None:
    async def body(queue: AsyncQueue[Any, Any], tx: Connection) -> None:
        await queue.enqueue(1, id="a")
        [job] = await queue.claim()
        await queue.complete(job, "done", connection=tx)
        with pytest.raises(LeaseLost, match="open"):
            await asyncio.wait_for(queue.extend(job, 60), 10)
        await tx.rollback()
        await queue.extend(job, 60)
        await queue.complete(job, "again")

    run_body(body)
