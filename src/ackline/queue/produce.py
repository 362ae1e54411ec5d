"""Producing: enqueueing jobs, and waiting for their results."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Unpack

from ackline.core.errors import InvalidOption, InvalidPayload
from ackline.core.job import Draft, State
from ackline.core.limits import Seconds, require_text, some_seconds
from ackline.queue.base import P, QueueBase, R
from ackline.queue.drafts.batches import fills_batch, in_batches, payload_size
from ackline.queue.drafts.builder import CallOptions, EnqueueOptions, NewJob
from ackline.queue.results import ResultWaiter
from ackline.queue.transactions import joined_store
from ackline.stores.contract import JoinedTransaction, Receipt


# Dataclasses, because web frameworks serialize them; not frozen, which makes them slow to create.
@dataclass(slots=True, unsafe_hash=True)
class Queued:
    """Accepted: the job is stored and will run."""

    id: str
    state: State = State.QUEUED


@dataclass(slots=True, unsafe_hash=True)
class Duplicate:
    """A job with this id is live already; nothing was stored."""

    id: str
    state: State


@dataclass(slots=True, unsafe_hash=True)
class Completed:
    """A job with this id has completed already; this is its result.

    Reading a result that is not of the type that this queue declares raises `InvalidPayload`.
    """

    id: str
    result: Any
    state: State = State.COMPLETED


class CompletedUndecodable(Completed):
    """A completed job whose result cannot be decoded: reading `result` raises the reason.

    It is not raised earlier: the call may have stored other jobs, whose receipts it returns.
    """

    __slots__ = ("error",)

    def __init__(self, id: str, error: InvalidPayload) -> None:
        self.id = id
        self.error = error
        self.state = State.COMPLETED

    @property
    def result(self) -> Any:
        """Raises `InvalidPayload`."""
        raise self.error

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r}, error={self.error!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CompletedUndecodable) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)


Enqueued = Queued | Duplicate | Completed


class Producer(QueueBase[P, R]):
    """The producing side of a queue."""

    def enqueue(
        self, payload: P, *, connection: object | None = None, **options: Unpack[EnqueueOptions]
    ) -> Enqueued:
        """Enqueue a job; when this returns, it is as durable as the store makes it.

        With a `connection`, in the transaction that you have open on it: the job exists once you
        commit, and never did if you roll back.

        >>> queue.enqueue({"to": "a@example.com"}, id="email-123")  # doctest: +SKIP
        """
        draft = self.draft_builder.draft(payload, options)
        if connection is None:
            self.record_callbacks([draft])
            return self.from_receipt(self.store.enqueue(self.key, [draft])[0])
        with self.store.join(connection) as store:
            return self.from_receipt(self.store_drafts([draft], store)[0])

    def enqueue_many(
        self,
        jobs: Iterable[P | NewJob[P]],
        *,
        connection: object | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> list[Enqueued]:
        """Enqueue many jobs in batches of 1,000; options apply to all unless a job has its own.

        Batches of large payloads are about 8 MiB. An invalid payload or option raises before its
        batch is stored. With a `connection`, all are part of the transaction open on it.
        """
        with joined_store(self.store, connection) as store:
            return [
                self.from_receipt(receipt) for receipt in self.enqueue_batches(jobs, options, store)
            ]

    def enqueue_batches(
        self,
        jobs: Iterable[P | NewJob[P]],
        options: EnqueueOptions,
        store: JoinedTransaction | None = None,
    ) -> Iterator[Receipt]:
        """Enqueue batch by batch; each is built while the one before is stored."""
        store = store or self.store
        if "id" in options:
            raise InvalidOption("one id cannot be used for many jobs: give each its own by NewJob")
        if isinstance(jobs, (str, bytes, Mapping)) or not isinstance(jobs, Iterable):
            raise InvalidOption(f"enqueue_many takes a list of payloads, not {type(jobs).__name__}")
        drafts = (self.draft_builder.draft_many_item(job, options) for job in jobs)
        batches = in_batches(drafts, payload_size)
        if store is self.store:
            return store_in_background(self.store_drafts, batches)
        # In the caller's thread, because the transaction is the caller's.
        return itertools.chain.from_iterable(self.store_drafts(batch, store) for batch in batches)

    def enqueue_and_wait(
        self, payload: P, *, timeout: Seconds = 30.0, **options: Unpack[CallOptions]
    ) -> R:
        """Enqueue, then wait for the result, like a remote call.

        If a job of the same id is live, waits for that one; if it has completed, returns its
        result. `Timeout` does not cancel the job: it may still finish. The result has to be
        kept long enough to be read: a `result_ttl` below one second is rejected, and one that
        its kind or queue sets so low leads to `JobNotFound`.

        >>> queue.enqueue_and_wait({"url": "…"}, id="img-1", timeout=30)  # doctest: +SKIP
        """
        seconds = some_seconds("timeout", timeout)
        return self.enqueue_draft_and_wait(
            self.draft_builder.draft_awaited(payload, options), seconds
        )

    def enqueue_draft_and_wait(self, draft: Draft, timeout: float) -> R:
        """Enqueue a draft, then wait for its result."""
        waiter = self.waiter  # it listens before the job can finish
        wakeups = waiter.wakeups
        receipt = self.from_receipt(self.store_drafts([draft])[0])
        if isinstance(receipt, Completed):
            result: R = receipt.result
            return result
        # Only now: a look-up before would find the failed job of this id that the new one replaces.
        with waiter.expect(draft.id, wakeups, draft.assume_new) as expected:
            return self.serdes.outcome_of(expected.wait(timeout))

    def result(self, id: str, timeout: Seconds = 0.0) -> R:
        """The result of a job, waiting up to `timeout` seconds for it.

        Raises `JobNotFound`, `JobFailed`, `JobCancelled`, or `Timeout` if it is not finished.
        """
        require_text("id", id)
        seconds = some_seconds("timeout", timeout)
        with self.waiter.expect(id) as expected:
            return self.serdes.outcome_of(expected.wait(seconds, now=True))

    @property
    def waiter(self) -> ResultWaiter:
        """Waits for the results of this queue's jobs."""
        with self._lock:
            if self._waiter is None or not self._waiter.alive:
                self._waiter = ResultWaiter(self.store, self.key)
            return self._waiter

    _waiter: ResultWaiter | None = None

    def close(self) -> None:
        """Stop waiting for results, and close the watchers."""
        super().close()
        with self._lock:
            waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.close()

    def from_receipt(self, receipt: Receipt) -> Enqueued:
        """Convert a store's receipt for users."""
        if receipt.accepted:
            return Queued(receipt.id, receipt.state)
        if receipt.state is State.COMPLETED:
            return self._completed(receipt)
        return Duplicate(receipt.id, receipt.state)

    def _completed(self, receipt: Receipt) -> Completed:
        try:
            return Completed(receipt.id, self.serdes.decode_result(receipt.result))
        except InvalidPayload as error:
            return CompletedUndecodable(receipt.id, error)


def store_in_background(
    store: Callable[[list[Draft]], list[Receipt]], batches: Iterator[list[Draft]]
) -> Iterator[Receipt]:
    """Store each batch in another thread while the next one is built; one after the other."""
    with ThreadPoolExecutor(1, thread_name_prefix="ackline-bulk") as thread:
        pending: Future[list[Receipt]] | None = None
        for batch in batches:
            if pending is not None:
                yield from pending.result()
            elif not fills_batch(batch):
                # This batch is the last, so there is nothing to build in the meantime.
                yield from store(batch)
                return
            pending = thread.submit(store, batch)
        if pending is not None:
            yield from pending.result()
