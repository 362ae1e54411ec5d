"""What the asyncio classes of a queue share: the sync queue, and threads to call it from."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

from ackline.aio.coalescer import Coalescer
from ackline.aio.journal import AsyncWatcher
from ackline.aio.thread_pools import ThreadPools
from ackline.core.job import Draft
from ackline.core.lifecycle import Transition, Verdict
from ackline.queue import Job, Queue
from ackline.queue.base import P, R
from ackline.queue.drafts.batches import payload_size
from ackline.queue.settle import require_applied
from ackline.queue.transactions import run_joined
from ackline.stores.contract import JoinedTransaction, Receipt

T = TypeVar("T")
Q = ParamSpec("Q")

MakeTransition = Callable[[], Transition]
"""Makes a transition, in a thread: it may have to read the queue's settings."""


class AsyncQueueBase(Generic[P, R]):
    """One queue, for asyncio. `sync` is the same queue for blocking code."""

    def __init__(self, queue: Queue[P, R], threads: ThreadPools | None = None) -> None:
        self.sync = queue
        self._owns_threads = threads is None
        self._threads = threads or ThreadPools()
        self._watchers: weakref.WeakSet[AsyncWatcher] = weakref.WeakSet()
        batch = queue.store.capabilities.batch_size
        self._enqueues: Coalescer[Draft, Receipt] = Coalescer(
            self._threads.enqueues, self._insert, batch, payload_size
        )
        self._settles: Coalescer[MakeTransition, tuple[Transition, Verdict]] = Coalescer(
            self._threads.settles, self._apply, batch
        )

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.sync.name

    def __repr__(self) -> str:
        return f"<Async{repr(self.sync)[1:]}"

    def _insert(self, drafts: list[Draft]) -> list[Receipt]:
        return self.sync.store_drafts(drafts)

    def _apply(self, makers: list[MakeTransition]) -> list[tuple[Transition, Verdict]]:
        transitions = [make() for make in makers]
        return list(zip(transitions, self.sync.apply(transitions), strict=True))

    def _insert_joined(self, joined: JoinedTransaction, drafts: list[Draft]) -> list[Receipt]:
        return self.sync.store_drafts(drafts, joined)

    async def _settle(
        self, job: Job[Any], make: MakeTransition, connection: object | None = None
    ) -> None:
        if connection is not None:
            await self.sync.settle_async(job, make, connection)
        elif job.settled_in_transaction is not None:
            # Not in a batch: it may be retried for a moment, and others must not wait for it.
            await self._call(lambda: self.sync.settle(job, make()))
        else:
            require_applied(*await self._settles.submit(make))

    async def _in_transaction(
        self, connection: object, work: Callable[[JoinedTransaction], T]
    ) -> T:
        return await run_joined(self.sync.store, connection, work)

    async def _call(self, function: Callable[Q, T], /, *args: Q.args, **kwargs: Q.kwargs) -> T:
        return await self._threads.call(function, *args, **kwargs)

    def _close_threads(self) -> None:
        self.sync.close()
        self._enqueues.close()
        self._settles.close()
        if self._owns_threads:
            self._threads.close()
