"""Jobs as users hold them, and how users settle those that they claimed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ackline.core import lifecycle
from ackline.core.job import Record
from ackline.core.lifecycle import Transition, Verdict
from ackline.core.limits import require_seconds, require_some_seconds
from ackline.queue import settling
from ackline.queue.base import P, QueueBase, R
from ackline.queue.failures import failure_from
from ackline.queue.job import Job, record_of
from ackline.queue.transactions import AsyncTransaction, run_joined
from ackline.stores.contract import JoinedTransaction


class Settler(QueueBase[P, R]):
    """Settles claimed jobs; with a connection, in the transaction open on it."""

    def wrap(self, record: Record) -> Job[P]:
        """A stored job as users hold it."""
        return Job(record, self, self.handlers.payload_type(record.kind))

    def complete(
        self, job: Job[P], result: R | None = None, *, connection: object | None = None
    ) -> None:
        """The work is done. Raises `LeaseLost`, and changes nothing, if the lease is not yours."""
        self.settle(job, self._completion(job, self.serdes.encode_result(result)), connection)

    async def complete_async(
        self, job: Job[P], result: R | None, connection: AsyncTransaction
    ) -> None:
        """The same in a transaction of an asyncio connection, for an async handler."""
        data = self.serdes.encode_result(result)
        await self.settle_async(job, lambda: self._completion(job, data), connection)

    def _completion(self, job: Job[P], result: bytes | None) -> Transition:
        record = record_of(job)
        return lifecycle.complete(record, result, self.policies.of(record))

    def fail(
        self,
        job: Job[P],
        error: BaseException | str,
        *,
        delay: float | None = None,
        connection: object | None = None,
    ) -> None:
        """The attempt failed: run again after the backoff, or after `delay` seconds."""
        require_seconds("delay", delay)
        record = record_of(job)
        failure = failure_from(record, error)
        failed = lifecycle.fail(record, failure, self.policies.of(record), self.random, delay)
        self.settle(job, failed, connection)

    def bury(
        self, job: Job[P], error: BaseException | str, *, connection: object | None = None
    ) -> None:
        """It can never succeed: to the DLQ, whatever attempts remain."""
        record = record_of(job)
        buried = lifecycle.bury(record, failure_from(record, error), self.policies.of(record))
        self.settle(job, buried, connection)

    def snooze(self, job: Job[P], delay: float, *, connection: object | None = None) -> None:
        """Run it again after `delay` seconds; the attempt is given back."""
        require_some_seconds("delay", delay)
        record = record_of(job)
        snoozed = lifecycle.snooze(record, delay, self.policies.of(record))
        self.settle(job, snoozed, connection)

    def release(self, job: Job[P], *, connection: object | None = None) -> None:
        """Give it back, to its old place in line; the attempt is given back."""
        record = record_of(job)
        released = lifecycle.release(record, self.policies.of(record))
        self.settle(job, released, connection)

    def extend(self, job: Job[Any], seconds: float) -> None:
        """Hold the lease until `seconds` from now."""
        require_some_seconds("seconds", seconds, above_zero=True)
        self.settle(job, lifecycle.extend(record_of(job), seconds))

    def progress(self, job: Job[Any], value: Any) -> None:
        """Note how far the work is."""
        self.settle(job, lifecycle.progress(record_of(job), self.serdes.encode_progress(value)))

    def settle(
        self, job: Job[Any], transition: Transition, connection: object | None = None
    ) -> None:
        """Take a decided step of a claimed job, or raise `LeaseLost`."""

        def take(step: Transition) -> Verdict:
            return self.apply([step], connection)[0]

        settling.settle(job, transition, take, joined=connection is not None)

    async def settle_async(
        self, job: Job[Any], make: Callable[[], Transition], connection: object
    ) -> None:
        """Settle in an asyncio transaction; `make` runs in a thread, as it may read the store."""

        def work(joined: JoinedTransaction) -> None:
            def take(step: Transition) -> Verdict:
                return joined.apply(self.key, [step])[0]

            settling.settle(job, make(), take, joined=True)

        await run_joined(self.store, connection, work)
