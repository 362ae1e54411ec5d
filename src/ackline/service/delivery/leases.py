"""Settling jobs for clients: by the token of their lease, or by their id alone."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from ackline.aio import AsyncQueue
from ackline.core.errors import JobNotFound, LeaseLost
from ackline.core.job import Record, State
from ackline.queue import Job
from ackline.service.auth.caller import Caller
from ackline.service.http.problems import Unprocessable
from ackline.service.runtime import Runtime

MAX_TOKEN = 2**63 - 1


class LeaseHandle:
    """The lease that a client's request is about."""

    def __init__(self, runtime: Runtime, queue: AsyncQueue[Any, Any], record: Record) -> None:
        self._runtime = runtime
        self._key = queue.sync.key
        self.record = record
        self.job: Job[Any] = queue.sync.wrap(record)

    @classmethod
    async def find(
        cls, caller: Caller, queue: AsyncQueue[Any, Any], id: str, receipt: str | None
    ) -> LeaseHandle:
        """Find a lease by its receipt; without one, the lease that the job has now.

        Without a receipt, deliveries cannot be told apart: whoever knows the id settles the job.
        """
        runtime, key = caller.runtime, queue.sync.key
        token = None if receipt is None else token_from_client(receipt, "receipt")
        record = None if token is None else runtime.in_flight.find(key, id, token)
        if record is None:
            record = (await runtime.call(runtime.store.get, key, [id]))[0]
        if record is None or not caller.principal.can_see(record):
            raise JobNotFound(key.name, id)
        if token is not None:
            record = with_token(record, token)
        elif record.state is not State.PROCESSING:
            raise LeaseLost(id, record.state)
        return cls(runtime, queue, record)

    async def default_lease(self, queue: AsyncQueue[Any, Any]) -> float:
        """For how long this job is leased by default, in seconds."""
        policy = await self._runtime.call(queue.sync.policies.of, self.record)
        return policy.lease

    async def settle(self, settling: Awaitable[None]) -> None:
        """Settle the job, which makes room in the window of the stream that sent it."""
        with self._forgotten_if_lost():
            await settling
        self._forget()

    async def extend(self, extending: Awaitable[None], seconds: float) -> None:
        """Extend the lease, to `seconds` from now."""
        with self._forgotten_if_lost():
            await extending
        self._runtime.in_flight.extended(self._key, self.record.id, seconds)

    @contextmanager
    def _forgotten_if_lost(self) -> Iterator[None]:
        try:
            yield
        except LeaseLost:
            self._forget()
            raise

    def _forget(self) -> None:
        self._runtime.in_flight.settled(self._key, self.record.id, self.record.token)


def with_token(record: Record, token: int) -> Record:
    """A job as the holder of this token had it; it may settle again after losing the lease."""
    ended = (failure.attempt for failure in record.history if failure.token == token)
    attempt = next(ended, record.attempts)
    return msgspec.structs.replace(record, token=token, attempts=attempt)


def token_for_client(record: Record) -> str:
    """A lease's token for clients: a text, because it may be too large for their numbers."""
    return str(record.token)


def token_from_client(text: str, at: str) -> int:
    """The token that a client sends back, in the field that the last part of `at` names."""
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        name = at.rpartition(".")[2]
        raise Unprocessable(
            f"{text!r} is not a {name}: send back the one that came with the job. "
            "Nothing was changed",
            at=at,
        )
    return min(int(text), MAX_TOKEN)
