"""Settling jobs for clients: by the token of their lease, or by their id alone."""

from __future__ import annotations

from typing import Any

import msgspec

from ackline.aio import AsyncQueue
from ackline.errors import JobNotFound, LeaseLost
from ackline.job import Record, State
from ackline.queue import Job
from ackline.service.caller import Caller
from ackline.service.problems import Unfit
from ackline.service.runtime import Runtime

LARGEST_TOKEN = 2**63 - 1


class Lease:
    """The lease that a client speaks of."""

    def __init__(self, runtime: Runtime, queue: AsyncQueue[Any, Any], record: Record) -> None:
        self._runtime = runtime
        self._key = queue.sync.key
        self.record = record
        self.job: Job[Any] = queue.sync.wrap(record)

    @classmethod
    async def find(
        cls, caller: Caller, queue: AsyncQueue[Any, Any], id: str, receipt: str | None
    ) -> Lease:
        """By its receipt; without one, the lease that the job has now.

        Without a receipt nothing tells one delivery from another: whoever knows the id settles.
        """
        runtime, key = caller.runtime, queue.sync.key
        record = runtime.held.find(key, id)
        if record is None or (receipt is None and runtime.settings.processes > 1):
            record = (await runtime.call(runtime.store.get, key, [id]))[0]
        if record is None or not caller.may_touch(record.kind):
            raise JobNotFound(key.name, id)
        if receipt is not None:
            record = msgspec.structs.replace(record, token=token_of(receipt))
        elif record.state is not State.PROCESSING:
            raise LeaseLost(id, record.state)
        return cls(runtime, queue, record)

    async def usual_span(self, queue: AsyncQueue[Any, Any]) -> float:
        """For how long this job is leased when nobody says otherwise."""
        policy = await self._runtime.call(queue.sync.policy, self.record)
        return policy.lease

    def ended(self) -> None:
        """The lease is settled: there is room in the window of the stream that it came by."""
        self._runtime.held.settled(self._key, self.record.id, self.record.token)

    def extended(self, seconds: float) -> None:
        """The lease runs from now on."""
        self._runtime.held.extended(self._key, self.record.id, seconds)


def receipt_of(record: Record) -> str:
    """A lease's token as clients hold it: a text, for it may be beyond what their numbers keep."""
    return str(record.token)


def token_of(receipt: str) -> int:
    """The token of a receipt."""
    if not (receipt.isascii() and receipt.isdecimal() and len(receipt) < 20):
        raise Unfit(f"{receipt!r} is no receipt: send back what came with the job", at="receipt")
    return min(int(receipt), LARGEST_TOKEN)
