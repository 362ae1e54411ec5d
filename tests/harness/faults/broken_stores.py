"""The controls: stores that each break one promise. A checker that passes one is worthless.

Three break none, but show what others would cover up: `DropsHeartbeatReplies`, `NoRepair`, and a
worker that claims only when it is notified.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Self

import msgspec

from ackline.core import lifecycle
from ackline.core.config import DEFAULTS
from ackline.core.errors import StoreUnavailable
from ackline.core.ids import new_id
from ackline.core.job import Draft, QueueKey, Record, State
from ackline.core.lifecycle import Transition, Verdict
from ackline.queue import consume
from ackline.stores.contract import (
    CLAIM_MAINTENANCE_LIMIT,
    ClaimRequest,
    ClaimResult,
    Heartbeat,
    HeartbeatReply,
    KeyWrite,
    LeaseExtension,
    Listener,
    Receipt,
    Store,
    Topic,
)
from tests.harness.faults.wrapped_store import WrappedStore

EARLY_ANSWER_SECONDS = 0.3
"""Seconds by which the answer of `AnswersBeforeCommit` precedes its commit."""

RARE_POLL_SECONDS = 120.0
"""Seconds between two polls of a worker that is not notified of new jobs."""


class DropsHeartbeatReplies(WrappedStore):
    """Not broken, but a worker never learns of its lost leases, and so settles too late."""

    def heartbeat(
        self, queue: QueueKey, heartbeat: Heartbeat, extensions: Sequence[LeaseExtension]
    ) -> HeartbeatReply:
        super().heartbeat(queue, heartbeat, extensions)
        return HeartbeatReply([], [])


class CompletesOnClaim(DropsHeartbeatReplies):
    """At most once: a job is completed as it is handed out, before any work is done."""

    def claim(
        self, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition] = ()
    ) -> ClaimResult:
        claimed = super().claim(queue, request, transitions)
        early = [lifecycle.complete(job, None, DEFAULTS) for job in claimed.jobs]
        if early:
            super().apply(queue, early)
        return claimed


class Unfenced(DropsHeartbeatReplies):
    """Settles by id alone, as most queues do: the token is made to fit."""

    def claim(
        self, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition] = ()
    ) -> ClaimResult:
        verdicts = self.apply(queue, transitions) if transitions else []
        return msgspec.structs.replace(super().claim(queue, request), verdicts=verdicts)

    def apply(self, queue: QueueKey, transitions: Sequence[Transition]) -> list[Verdict]:
        records = self.inner.get(queue, [transition.id for transition in transitions])
        forged = [_with_current_token(*pair) for pair in zip(transitions, records, strict=True)]
        return self.inner.apply(queue, forged)


def _with_current_token(transition: Transition, record: Record | None) -> Transition:
    if record is None or record.state is not State.PROCESSING or transition.deadline is not None:
        return transition
    return msgspec.structs.replace(transition, token=record.token)


class NoRepair(WrappedStore):
    """A claim does not return lapsed leases, so that only a sweep can find them."""

    def claim(
        self, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition] = ()
    ) -> ClaimResult:
        claimed = super().claim(queue, request, transitions)
        return msgspec.structs.replace(claimed, lapsed=[])


class NeverExpires(NoRepair):
    """A lease lasts forever, whatever happened to its worker."""

    def leases(
        self, queue: QueueKey, *, worker: str | None = None, limit: int = CLAIM_MAINTENANCE_LIMIT
    ) -> list[Record]:
        del queue, worker, limit
        return []


class AnswersBeforeCommit(WrappedStore):
    """An enqueue returns while its job is still only in memory."""

    def enqueue(
        self, queue: QueueKey, drafts: Sequence[Draft], keys: Sequence[KeyWrite] = ()
    ) -> list[Receipt]:
        def later() -> None:
            time.sleep(EARLY_ANSWER_SECONDS)
            self.inner.enqueue(queue, drafts, keys)

        threading.Thread(target=later, daemon=True).start()
        return [Receipt(draft.id, True, State.QUEUED) for draft in drafts]


class ResendsAsNew(WrappedStore):
    """A blind retry: what may have been stored is sent again as another job."""

    def enqueue(
        self, queue: QueueKey, drafts: Sequence[Draft], keys: Sequence[KeyWrite] = ()
    ) -> list[Receipt]:
        try:
            return self.inner.enqueue(queue, drafts, keys)
        except StoreUnavailable:
            renamed = [msgspec.structs.replace(draft, id=new_id()) for draft in drafts]
            receipts = self.inner.enqueue(queue, renamed, keys)
            pairs = zip(receipts, drafts, strict=True)
            return [msgspec.structs.replace(receipt, id=draft.id) for receipt, draft in pairs]


def rarely_polling(store: Store) -> Store:
    """Let the worker of this process poll so rarely that it has to be notified of new jobs."""
    consume.MAX_POLL_INTERVAL = RARE_POLL_SECONDS
    return store


class NoNotifications(WrappedStore):
    """A worker that is never notified of new jobs, and finds them only when it polls."""

    def __init__(self, inner: Store) -> None:
        super().__init__(rarely_polling(inner))

    def listen(
        self, queues: Sequence[QueueKey], topic: Topic, kinds: frozenset[str] | None = None
    ) -> Listener:
        del queues, topic, kinds
        return SilentListener()


class SilentListener:
    """A listener without notifications, which only `wake` ends."""

    def __init__(self) -> None:
        self._woken = threading.Event()

    def wait(self, timeout: float) -> bool:
        """Wait for the waker."""
        woken = self._woken.wait(timeout)
        self._woken.clear()
        return woken

    def wake(self) -> None:
        """End the wait."""
        self._woken.set()

    def close(self) -> None:
        """There is nothing to close."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


VARIANTS: Mapping[str, Callable[[Store], Store]] = {
    "completes on claim": CompletesOnClaim,
    "drops heartbeat replies": DropsHeartbeatReplies,
    "unfenced": Unfenced,
    "no repair": NoRepair,
    "never expires": NeverExpires,
    "answers before commit": AnswersBeforeCommit,
    "resends as new": ResendsAsNew,
    "no notifications": NoNotifications,
    "rarely polling": rarely_polling,
}
"""By the name in the `variant` of `ProgramOptions`."""
