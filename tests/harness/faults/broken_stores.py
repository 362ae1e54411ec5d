"""Controls: stores that each break one promise, so that the checker must report them.

Three break no promise, but remove what would hide a fault: `DropsHeartbeatReplies`, `NoRepair`, and
`rarely_polling`.
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
    LEASES_LIMIT,
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
"""Seconds from the answer of `AnswersBeforeCommit` to its commit."""

RARE_POLL_SECONDS = 120.0
"""Seconds between two polls of a worker that is not notified of new jobs."""


class DropsHeartbeatReplies(WrappedStore):
    """Not broken, but a worker never learns that it has lost leases, and so settles too late."""

    def heartbeat(
        self,
        queue: QueueKey,
        heartbeat: Heartbeat | None,
        extensions: Sequence[LeaseExtension],
    ) -> HeartbeatReply:
        super().heartbeat(queue, heartbeat, extensions)
        return HeartbeatReply([], [])


class CompletesOnClaim(DropsHeartbeatReplies):
    """At most once: a job is completed when it is claimed, before it has run."""

    def claim(
        self, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition] = ()
    ) -> ClaimResult:
        claimed = super().claim(queue, request, transitions)
        completions = [lifecycle.complete(job, None, DEFAULTS) for job in claimed.jobs]
        if completions:
            super().apply(queue, completions)
        return claimed


class Unfenced(DropsHeartbeatReplies):
    """Settles by id alone: the token of the request is ignored."""

    def claim(
        self, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition] = ()
    ) -> ClaimResult:
        verdicts = self.apply(queue, transitions) if transitions else []
        return msgspec.structs.replace(super().claim(queue, request), verdicts=verdicts)

    def apply(self, queue: QueueKey, transitions: Sequence[Transition]) -> list[Verdict]:
        records = self.inner.get(queue, [transition.id for transition in transitions])
        with_current_tokens = [
            _with_current_token(*pair) for pair in zip(transitions, records, strict=True)
        ]
        return self.inner.apply(queue, with_current_tokens)


def _with_current_token(transition: Transition, record: Record | None) -> Transition:
    if record is None or record.state is not State.PROCESSING or transition.deadline is not None:
        return transition
    return msgspec.structs.replace(transition, token=record.token)


class NoRepair(WrappedStore):
    """A claim does not return expired leases, so that only the reaper finds them."""

    def claim(
        self, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition] = ()
    ) -> ClaimResult:
        claimed = super().claim(queue, request, transitions)
        return msgspec.structs.replace(claimed, lapsed=[])


class NeverExpires(NoRepair):
    """A lease never expires, even if its worker is gone."""

    def leases(
        self, queue: QueueKey, *, worker: str | None = None, limit: int = LEASES_LIMIT
    ) -> list[Record]:
        del queue, worker, limit
        return []


class AnswersBeforeCommit(WrappedStore):
    """An enqueue returns before its job is stored."""

    def enqueue(
        self, queue: QueueKey, drafts: Sequence[Draft], keys: Sequence[KeyWrite] = ()
    ) -> list[Receipt]:
        def enqueue_later() -> None:
            time.sleep(EARLY_ANSWER_SECONDS)
            self.inner.enqueue(queue, drafts, keys)

        threading.Thread(target=enqueue_later, daemon=True).start()
        return [Receipt(draft.id, True, State.QUEUED) for draft in drafts]


class ResendsWithNewId(WrappedStore):
    """A blind retry: a job that may have been stored is enqueued again under a new id."""

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
    """Make this worker process depend on notifications of new jobs."""
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
    """A listener that gets no notifications; only `wake` ends its wait."""

    def __init__(self) -> None:
        self._woken = threading.Event()

    def wait(self, timeout: float) -> bool:
        """Wait for a call of `wake`."""
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
    "resends with new id": ResendsWithNewId,
    "no notifications": NoNotifications,
    "rarely polling": rarely_polling,
}
"""By the name in the `variant` of `ProgramOptions`."""
