"""Settling jobs for clients: by the token of their lease, or by their id alone."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from ackline.aio import AsyncQueue
from ackline.errors import JobNotFound, LeaseLost
from ackline.job import Record, State
from ackline.queue import Job
from ackline.service.auth.caller import Caller
from ackline.service.problems import Unfit
from ackline.service.runtime import Runtime

LARGEST_TOKEN = 2**63 - 1


class Lease:
    """The lease that a client's request is about."""

    def __init__(self, runtime: Runtime, queue: AsyncQueue[Any, Any], record: Record) -> None:
        self._runtime = runtime
        self._key = queue.sync.key
        self.record = record
        self.job: Job[Any] = queue.sync.wrap(record)

    @classmethod
    async def find(
        cls, caller: Caller, queue: AsyncQueue[Any, Any], id: str, receipt: str | None
    ) -> Lease:
        """Find a lease by its receipt; without one, the lease that the job has now.

        Without a receipt, deliveries cannot be told apart: whoever knows the id settles the job.
        """
        runtime, key = caller.runtime, queue.sync.key
        token = None if receipt is None else token_of(receipt, "receipt")
        record = None if token is None else runtime.held.find(key, id, token)
        if record is None:
            record = (await runtime.call(runtime.store.get, key, [id]))[0]
        if record is None or not caller.principal.sees(record):
            raise JobNotFound(key.name, id)
        if token is not None:
            record = as_leased(record, token)
        elif record.state is not State.PROCESSING:
            raise LeaseLost(id, record.state)
        return cls(runtime, queue, record)

    async def usual_span(self, queue: AsyncQueue[Any, Any]) -> float:
        """For how long this job is leased by default, in seconds."""
        policy = await self._runtime.call(queue.sync.policies.of, self.record)
        return policy.lease

    async def end(self, settling: Awaitable[None]) -> None:
        """Settle the job, which makes room in the window of the stream that sent it."""
        with self._forgotten_if_lost():
            await settling
        self._forget()

    async def extend(self, extending: Awaitable[None], seconds: float) -> None:
        """Extend the lease, to `seconds` from now."""
        with self._forgotten_if_lost():
            await extending
        self._runtime.held.extended(self._key, self.record.id, seconds)

    @contextmanager
    def _forgotten_if_lost(self) -> Iterator[None]:
        try:
            yield
        except LeaseLost:
            self._forget()
            raise

    def _forget(self) -> None:
        self._runtime.held.settled(self._key, self.record.id, self.record.token)


def as_leased(record: Record, token: int) -> Record:
    """A job as the holder of this token had it; it may settle again after losing the lease."""
    ended = (failure.attempt for failure in record.history if failure.token == token)
    attempt = next(ended, record.attempts)
    return msgspec.structs.replace(record, token=token, attempts=attempt)


def receipt_of(record: Record) -> str:
    """A lease's token for clients: a text, because it may be too large for their numbers."""
    return str(record.token)


def token_of(text: str, at: str) -> int:
    """The token that a client sends back, in the field that the last part of `at` names."""
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        name = at.rpartition(".")[2]
        raise Unfit(
            f"{text!r} is not a {name}: send back the one that came with the job. "
            "Nothing was changed",
            at=at,
        )
    return min(int(text), LARGEST_TOKEN)
