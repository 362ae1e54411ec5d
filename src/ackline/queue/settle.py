"""Settling claimed jobs, also in a transaction of the caller."""

from __future__ import annotations

import time
import traceback as _traceback
from collections.abc import Callable
from typing import Any

from ackline.core import lifecycle
from ackline.core.errors import InvalidOption, LeaseLost, message_of
from ackline.core.events import Act
from ackline.core.job import Failure, Record, State
from ackline.core.lifecycle import Transition, Verdict
from ackline.core.limits import Seconds, optional_seconds, some_seconds
from ackline.queue.base import P, QueueBase, R
from ackline.queue.job import Job, record_of
from ackline.queue.transactions import AsyncTransaction, run_joined
from ackline.stores.contract import JoinedTransaction


class Settler(QueueBase[P, R]):
    """Settles claimed jobs; with a connection, in its open transaction."""

    def wrap(self, record: Record) -> Job[P]:
        """Wrap a record for users."""
        return Job(record, self, self.handlers.payload_type(record.kind))

    def complete(
        self, job: Job[P], result: R | None = None, *, connection: object | None = None
    ) -> None:
        """Complete a job. Raises `LeaseLost`, and changes nothing, if the lease is not yours."""
        self.settle(job, self._completion(job, self.serdes.encode_result(result)), connection)

    async def complete_async(
        self, job: Job[P], result: R | None, connection: AsyncTransaction
    ) -> None:
        """Like `complete`, in a transaction of an asyncio connection, for an async handler."""
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
        delay: Seconds | None = None,
        connection: object | None = None,
    ) -> None:
        """Fail the attempt: run again after the backoff, or after `delay` seconds."""
        seconds = optional_seconds("delay", delay)
        record = record_of(job)
        failure = failure_from(record, error)
        failed = lifecycle.fail(record, failure, self.policies.of(record), self.random, seconds)
        self.settle(job, failed, connection)

    def bury(
        self, job: Job[P], error: BaseException | str, *, connection: object | None = None
    ) -> None:
        """Send a job that can never succeed to the DLQ, whatever attempts remain."""
        record = record_of(job)
        buried = lifecycle.bury(record, failure_from(record, error), self.policies.of(record))
        self.settle(job, buried, connection)

    def snooze(self, job: Job[P], delay: Seconds, *, connection: object | None = None) -> None:
        """Run a job again after `delay` seconds; the attempt is given back."""
        seconds = some_seconds("delay", delay)
        record = record_of(job)
        snoozed = lifecycle.snooze(record, seconds, self.policies.of(record))
        self.settle(job, snoozed, connection)

    def release(self, job: Job[P], *, connection: object | None = None) -> None:
        """Return a job to its old position in the queue; the attempt is given back."""
        record = record_of(job)
        released = lifecycle.release(record, self.policies.of(record))
        self.settle(job, released, connection)

    def extend(self, job: Job[Any], seconds: Seconds) -> None:
        """Extend the lease to `seconds` from now."""
        lease = some_seconds("seconds", seconds, above_zero=True)
        self.settle(job, lifecycle.extend(record_of(job), lease))

    def report(self, job: Job[Any], progress: Any) -> None:
        """Store the progress of a job. Raises `LeaseLost` if the lease is not yours."""
        data = self.serdes.encode_progress(progress)
        self.settle(job, lifecycle.progress(record_of(job), data))

    def settle(
        self, job: Job[Any], transition: Transition, connection: object | None = None
    ) -> None:
        """Apply a transition of a claimed job, or raise `LeaseLost`."""

        def apply(transition: Transition) -> Verdict:
            return self.apply([transition], connection)[0]

        settle(job, transition, apply, joined=connection is not None)

    async def settle_async(
        self, job: Job[Any], make: Callable[[], Transition], connection: object
    ) -> None:
        """Settle in an asyncio transaction; `make` runs in a thread, as it may read the store."""

        def work(joined: JoinedTransaction) -> None:
            def apply(transition: Transition) -> Verdict:
                return joined.apply(self.key, [transition])[0]

            settle(job, make(), apply, joined=True)

        await run_joined(self.store, connection, work)


RETRY_DELAYS = (0.005, 0.01, 0.02, 0.05)
"""Seconds between tries while something else, such as a heartbeat, is changing the lease."""

Apply = Callable[[Transition], Verdict]


def settle(job: Job[Any], transition: Transition, apply: Apply, *, joined: bool) -> None:
    """Apply a transition of a claimed job, `joined` in a transaction, or raise `LeaseLost`."""
    earlier = job.settled_in_transaction
    if joined:
        # Before the step: a heartbeat sent meanwhile must not wait for the transaction's end.
        job.settled_in_transaction = transition.act
    try:
        if earlier is None:
            require_applied(transition, apply(transition))
        else:
            _settle_after_transaction(transition, apply, earlier)
    except BaseException:
        job.settled_in_transaction = earlier
        raise


def _settle_after_transaction(transition: Transition, apply: Apply, earlier: Act) -> None:
    """Apply a transition after one in a transaction; the error says if that is still open.

    Waiting for its end would be a deadlock: the caller itself has to end it.
    """
    verdict = apply(transition)
    for delay in RETRY_DELAYS:
        if verdict.applied or verdict.state is not State.PROCESSING:
            break
        time.sleep(delay)
        verdict = apply(transition)
    require_applied(transition, verdict, earlier)


def require_applied(transition: Transition, verdict: Verdict, earlier: Act | None = None) -> None:
    """Raise `LeaseLost` for a transition that was rejected."""
    if not verdict.applied:
        open_act = earlier if verdict.state is State.PROCESSING else None
        raise LeaseLost(transition.id, verdict.state, open_act)


def failure_from(job: Record, error: BaseException | str) -> Failure:
    """The failure record of an error."""
    if isinstance(error, str):
        return Failure(act=Act.FAIL, attempt=job.attempts, type="Error", message=error)
    if not isinstance(error, BaseException):
        raise InvalidOption(f"the error must be an exception or a str, not {error!r}")
    trace = "".join(_traceback.format_exception(error))
    return Failure(
        act=Act.FAIL,
        attempt=job.attempts,
        type=type(error).__qualname__,
        message=message_of(error),
        traceback=trace,
    )
