from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import ackline.aio
from ackline import InvalidPayload, LeaseLost, Queued, State, StoreFull, StoreUnavailable
from ackline.aio import AsyncQueue, AsyncQueues
from ackline.testing import memory_queues

MIB = 1_048_576 - len('""')
"""As long a text as the default limit allows, without its quotes."""


class BlockedVerb:
    """Notes the batches that reach a verb of the store, and can hold them up or fail them."""

    def __init__(self, queue: AsyncQueue[Any, Any], verb: str) -> None:
        self.batches: list[int] = []
        self.open = threading.Event()
        self.open.set()
        self.reached = threading.Event()
        self.error: Exception | None = None
        self._inner: Callable[..., Any] = getattr(queue.sync.store, verb)
        setattr(queue.sync.store, verb, self)

    def __call__(self, key: Any, items: Sequence[Any]) -> Any:
        self.batches.append(len(items))
        self.reached.set()
        assert self.open.wait(5)
        if self.error is not None:
            raise self.error
        return self._inner(key, items)


def queues() -> AsyncQueues:
    return AsyncQueues(memory_queues())


async def test_concurrent_enqueues_share_a_write() -> None:
    async with queues() as opened:
        queue = opened["email"]
        gate = BlockedVerb(queue, "enqueue")
        receipts = await asyncio.gather(*(queue.enqueue(n, id=str(n)) for n in range(100)))
        assert gate.batches == [100]
        assert receipts == [Queued(str(n)) for n in range(100)]


async def test_a_settle_does_not_wait_for_enqueues_of_any_queue() -> None:
    """They may wait long, for an open transaction that has a job of the same id."""
    async with queues() as opened:
        busy = [opened[f"busy {n}"] for n in range(100)]
        await busy[0].enqueue(1)
        [job] = await busy[0].claim()
        gate = BlockedVerb(busy[0], "enqueue")
        gate.open.clear()
        waiting = [asyncio.create_task(queue.enqueue(1)) for queue in busy]
        await asyncio.to_thread(gate.reached.wait, 5)
        await asyncio.wait_for(busy[0].complete(job), 2)
        assert not any(task.done() for task in waiting)
        gate.open.set()
        await asyncio.gather(*waiting)


async def test_a_batch_grows_while_another_is_on_its_way() -> None:
    async with queues() as opened:
        queue = opened["email"]
        gate = BlockedVerb(queue, "enqueue")
        gate.open.clear()
        first = asyncio.create_task(queue.enqueue(0))
        await asyncio.to_thread(gate.reached.wait, 5)
        later = []
        for n in range(10):
            later.append(asyncio.create_task(queue.enqueue(n)))
            await asyncio.sleep(0)
        await asyncio.sleep(0)  # the last one is handed over at the end of its tick
        gate.open.set()
        await asyncio.gather(first, *later)
        assert gate.batches == [1, 10]


async def test_batches_are_no_larger_than_the_store_s_batch_size() -> None:
    async with queues() as opened:
        queue = opened["email"]
        gate = BlockedVerb(queue, "enqueue")
        await asyncio.gather(*(queue.enqueue(n) for n in range(1200)))
        assert gate.batches == [500, 500, 200]


async def test_batches_of_large_payloads_are_cut_by_their_bytes() -> None:
    async with queues() as opened:
        queue = opened["email"]
        gate = BlockedVerb(queue, "enqueue")
        receipts = await asyncio.gather(*(queue.enqueue("x" * MIB, id=str(n)) for n in range(20)))
        assert gate.batches == [8, 8, 4]
        assert receipts == [Queued(str(n)) for n in range(20)]


async def test_order_is_kept() -> None:
    async with queues() as opened:
        queue = opened["email"]
        await asyncio.gather(*(queue.enqueue(n) for n in range(1200)))
        jobs = await queue.claim(1200)
        assert [job.payload for job in jobs] == list(range(1200))


async def test_one_bad_payload_fails_its_own_caller_only() -> None:
    async with queues() as opened:
        queue = opened["email"]
        receipts = await asyncio.gather(
            *(queue.enqueue(object() if n == 5 else n) for n in range(10)), return_exceptions=True
        )
        assert isinstance(receipts[5], InvalidPayload)
        assert sum(isinstance(receipt, Queued) for receipt in receipts) == 9
        assert (await queue.counts())[State.QUEUED] == 9


async def test_a_store_that_fails_fails_every_caller_of_the_batch_and_no_later_one() -> None:
    async with queues() as opened:
        queue = opened["email"]
        gate = BlockedVerb(queue, "enqueue")
        gate.error = StoreUnavailable("busy")
        receipts = await asyncio.gather(
            *(queue.enqueue(n) for n in range(10)), return_exceptions=True
        )
        assert receipts == [gate.error] * 10
        gate.error = None
        assert isinstance(await queue.enqueue(1), Queued)


async def test_a_queue_that_is_nearly_full_takes_what_fits() -> None:
    async with queues() as opened:
        queue = opened["email"]
        await queue.configure(max_jobs=7)
        receipts = await asyncio.gather(
            *(queue.enqueue(n) for n in range(10)), return_exceptions=True
        )
        assert [isinstance(receipt, Queued) for receipt in receipts] == [True] * 7 + [False] * 3
        assert isinstance(receipts[-1], StoreFull)


class TestCancellation:
    async def test_a_cancelled_caller_does_not_affect_the_others(self) -> None:
        async with queues() as opened:
            queue = opened["email"]
            gate = BlockedVerb(queue, "enqueue")
            gate.open.clear()
            tasks = [asyncio.create_task(queue.enqueue(n, id=str(n))) for n in range(10)]
            await asyncio.to_thread(gate.reached.wait, 5)
            tasks[3].cancel()
            gate.open.set()
            receipts = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(receipts[3], asyncio.CancelledError)
            assert [receipt.id for receipt in receipts if isinstance(receipt, Queued)] == [
                str(n) for n in range(10) if n != 3
            ]

    async def test_an_item_cancelled_before_it_was_sent_is_not_sent(self) -> None:
        async with queues() as opened:
            queue = opened["email"]
            gate = BlockedVerb(queue, "enqueue")
            gate.open.clear()
            first = asyncio.create_task(queue.enqueue(0, id="first"))
            await asyncio.to_thread(gate.reached.wait, 5)
            left = asyncio.create_task(queue.enqueue(0, id="left"))
            stays = asyncio.create_task(queue.enqueue(0, id="stays"))
            await asyncio.sleep(0)
            left.cancel()
            gate.open.set()
            await asyncio.gather(first, stays)
            assert await queue.status("left") is None
            assert await queue.status("stays") is not None

    async def test_a_closed_event_loop_does_not_affect_the_next(self) -> None:
        sync = memory_queues()
        queue: AsyncQueue[Any, Any] = AsyncQueue(sync["email"])
        gate = BlockedVerb(queue, "enqueue")
        gate.open.clear()

        async def leave() -> None:
            task = asyncio.create_task(queue.enqueue(1))
            await asyncio.to_thread(gate.reached.wait, 5)
            task.cancel()

        await asyncio.to_thread(asyncio.run, leave())
        gate.open.set()
        assert isinstance(await queue.enqueue(2), Queued)
        await queue.close()


class TestSettling:
    async def test_concurrent_completions_share_a_write(self) -> None:
        async with queues() as opened:
            queue = opened["email"]
            await queue.enqueue_many(range(50))
            jobs = await queue.claim(50)
            gate = BlockedVerb(queue, "apply")
            await asyncio.gather(*(queue.complete(job, job.payload) for job in jobs))
            assert gate.batches == [50]
            assert await queue.result(jobs[7].id) == jobs[7].payload

    async def test_a_lost_lease_is_raised_only_for_its_own_caller(self) -> None:
        async with queues() as opened:
            queue = opened["email"]
            await queue.enqueue_many(range(3))
            jobs = await queue.claim(3)
            await queue.release(jobs[1])
            receipts = await asyncio.gather(
                queue.complete(jobs[0]),
                queue.fail(jobs[1], "late"),
                queue.bury(jobs[2], ValueError("bad")),
                return_exceptions=True,
            )
            assert [type(receipt) for receipt in receipts] == [type(None), LeaseLost, type(None)]

    async def test_different_acts_share_a_call(self) -> None:
        async with queues() as opened:
            queue = opened["email"]
            await queue.enqueue_many(range(6))
            jobs = await queue.claim(6)
            gate = BlockedVerb(queue, "apply")
            await asyncio.gather(
                queue.complete(jobs[0]),
                queue.fail(jobs[1], "no", delay=5),
                queue.snooze(jobs[2], 5),
                queue.release(jobs[3]),
                queue.extend(jobs[4], 60),
                queue.report(jobs[5], {"done": 0.5}),
            )
            assert gate.batches == [6]
            counts = await queue.counts()
            assert counts[State.PROCESSING] == 2
            assert counts[State.FAILING] == counts[State.SCHEDULED] == counts[State.QUEUED] == 1


def test_one_loop_after_another() -> None:
    queue: AsyncQueue[Any, Any] = AsyncQueue(memory_queues()["email"])

    async def use() -> None:
        await asyncio.gather(*(queue.enqueue(n) for n in range(10)))
        job = (await queue.claim())[0]
        await queue.complete(job, "done")
        assert await queue.result(job.id, timeout=5) == "done"

    for _ in range(3):
        asyncio.run(use())
    asyncio.run(queue.close())


def test_two_loops_at_once() -> None:
    queue: AsyncQueue[Any, Any] = AsyncQueue(memory_queues()["email"])

    async def use() -> None:
        for _ in range(20):
            receipts = await asyncio.gather(*(queue.enqueue(n) for n in range(10)))
            assert len(receipts) == 10

    threads = [threading.Thread(target=asyncio.run, args=[use()]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert queue.sync.counts()[State.QUEUED] == 600
    asyncio.run(queue.close())


async def test_opened_by_await_or_in_a_block(url: str) -> None:
    opened = await ackline.aio.open(url)
    await opened["email"].enqueue(1)
    await opened.close()
    async with ackline.aio.open(url, tenant="acme") as others:
        assert await others["email"].status("x") is None
        assert (await others.info()).name in url


async def test_an_unknown_url_is_refused() -> None:
    with pytest.raises(ackline.UnknownStore):
        await ackline.aio.open("carrier-pigeon://loft")


async def test_a_closed_queue_can_be_used_again() -> None:
    async with queues() as opened:
        await opened["email"].enqueue(1)
        await opened["email"].close()
        await opened["email"].enqueue(2)


async def test_only_the_caller_of_the_invalid_item_gets_the_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An item that cannot be sent to the store fails alone; the other jobs are enqueued."""
    async with queues() as opened:
        queue = opened["email"]
        insert = queue.sync.store.enqueue

        def refuse(key: Any, drafts: Sequence[Any]) -> Any:
            if any(draft.id == "3" for draft in drafts):
                raise TypeError("not to be encoded")
            return insert(key, drafts)

        monkeypatch.setattr(queue.sync.store, "enqueue", refuse)
        receipts = await asyncio.gather(
            *(queue.enqueue(n, id=str(n)) for n in range(5)), return_exceptions=True
        )
        assert [type(receipt) for receipt in receipts] == [Queued] * 3 + [TypeError, Queued]


async def test_a_claim_listens_for_its_kinds_only(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ackline.aio.open(url) as opened:
        queue = opened["email"]
        listen, wanted = queue.sync.store.listen, []

        def note(keys: Any, topic: Any, kinds: Any = None) -> Any:
            wanted.append(kinds)
            return listen(keys, topic, kinds)

        monkeypatch.setattr(queue.sync.store, "listen", note)
        assert await queue.claim(kinds=["mail"], wait=0.01) == []
        assert wanted == [frozenset({"mail"})]
