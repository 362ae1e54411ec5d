"""Enqueueing jobs and awaiting their results, from asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Unpack

from ackline.aio.base import AsyncQueueBase
from ackline.core.job import Draft
from ackline.core.limits import Seconds, require_text, some_seconds
from ackline.queue import Completed, Enqueued, EnqueueOptions, NewJob
from ackline.queue.base import P, R
from ackline.queue.drafts.builder import CallOptions
from ackline.queue.results import PendingResult, ResultWaiter


class AsyncProducer(AsyncQueueBase[P, R]):
    """The producing side of a queue."""

    _waiter: ResultWaiter | None = None

    async def enqueue(
        self, payload: P, *, connection: object | None = None, **options: Unpack[EnqueueOptions]
    ) -> Enqueued:
        """Store a job; concurrent callers share one write.

        A caller that is cancelled while it awaits cannot know whether its job was stored: if it
        chose the id, it can enqueue it again. With a `connection` the job is part of the
        transaction that you have open on it; roll that back if you are cancelled.
        """
        draft = self.sync.draft_builder.draft(payload, options)
        if connection is not None:
            [receipt] = await self._in_transaction(
                connection, lambda joined: self._insert_joined(joined, [draft])
            )
            return self.sync.from_receipt(receipt)
        return self.sync.from_receipt(await self._enqueues.submit(draft))

    async def enqueue_many(
        self,
        jobs: Iterable[P | NewJob[P]],
        *,
        connection: object | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> list[Enqueued]:
        """Store many jobs, up to a thousand or about 8 MiB in one step.

        The iterable is read in another thread.
        """
        if connection is None:
            return await self._call(self.sync.enqueue_many, jobs, **options)
        receipts = await self._in_transaction(
            connection, lambda joined: list(self.sync.enqueue_batches(jobs, options, joined))
        )
        return [self.sync.from_receipt(receipt) for receipt in receipts]

    async def enqueue_and_wait(
        self, payload: P, *, timeout: Seconds = 30.0, **options: Unpack[CallOptions]
    ) -> R:
        """Enqueue, then await the result; no thread waits for it.

        >>> await queue.enqueue_and_wait({"url": "…"}, id="img-1")  # doctest: +SKIP
        """
        seconds = some_seconds("timeout", timeout)
        draft = self.sync.draft_builder.draft_awaited(payload, options)
        return await self.enqueue_draft_and_wait(draft, seconds)

    async def enqueue_draft_and_wait(self, draft: Draft, timeout: float) -> R:
        """Enqueue a draft, then await its result."""
        waiter = await self._result_waiter()
        wakeups = waiter.wakeups
        receipt = self.sync.from_receipt(await self._enqueues.submit(draft))
        if isinstance(receipt, Completed):
            result: R = receipt.result
            return result
        with waiter.expect(draft.id, wakeups, draft.assume_new) as expected:
            return await self._wait_for_result(expected, timeout)

    async def result(self, id: str, timeout: Seconds = 0.0) -> R:
        """The result of a job, awaited for up to `timeout` seconds."""
        require_text("id", id)
        seconds = some_seconds("timeout", timeout)
        waiter = await self._result_waiter()
        with waiter.expect(id) as expected:
            await self._call(waiter.check_now, expected)
            return await self._wait_for_result(expected, seconds)

    async def close(self) -> None:
        """End the threads and callbacks; callers that still await a result get a `Timeout`."""
        for watcher in list(self._watchers):
            await watcher.close()
        await asyncio.to_thread(self._close_threads)

    async def _result_waiter(self) -> ResultWaiter:
        waiter = self._waiter
        if waiter is None or not waiter.alive:
            # Subscribing to the store may take a moment.
            waiter = self._waiter = await self._call(lambda: self.sync.waiter)
        return waiter

    async def _wait_for_result(self, expected: PendingResult, timeout: float) -> R:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def set_done() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(done.set)

        expected.on_done(set_done)
        if not expected.done:
            try:
                async with asyncio.timeout(timeout):
                    await done.wait()
            except TimeoutError:
                error = expected.timeout(timeout)
                raise error from error.__cause__
        return self.sync.serdes.outcome_of(expected.record())
