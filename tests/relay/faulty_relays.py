"""Relays that are killed or delayed, and one without a ledger."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

from ackline import Queue, Queues, Relay
from ackline.core.errors import StoreError, StoreUnavailable
from ackline.core.events import Act
from ackline.core.job import Draft, QueueKey
from ackline.core.lifecycle import Transition, Verdict
from ackline.relay.ledger import Ledger
from ackline.stores.contract import ClaimRequest, ClaimResult, KeyWrite, Receipt, Store
from tests.harness.faults.programs.relay import NoLedger
from tests.harness.faults.wrapped_store import WrappedStore

LEASE = 10.0


class RelayKilled(BaseException):
    """The process is gone: nothing more is written."""


class StoreKilledBeforeSettling(WrappedStore):
    """The source of a relay that is killed when the target has its jobs."""

    def claim(
        self, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition] = ()
    ) -> ClaimResult:
        self._die(transitions)
        return super().claim(queue, request, transitions)

    def apply(self, queue: QueueKey, transitions: Sequence[Transition]) -> list[Verdict]:
        self._die(transitions)
        return super().apply(queue, transitions)

    def _die(self, transitions: Sequence[Transition]) -> None:
        if any(transition.act is Act.COMPLETE for transition in transitions):
            raise RelayKilled


class DelayedStore(WrappedStore):
    """The store of a relay that is stopped when it has claimed, or before it enqueues."""

    def __init__(self, inner: Store, meanwhile: Callable[[], None]) -> None:
        super().__init__(inner)
        self._meanwhile: Callable[[], None] | None = meanwhile

    def claim(
        self, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition] = ()
    ) -> ClaimResult:
        claimed = super().claim(queue, request, transitions)
        self._stop()
        return claimed

    def enqueue(
        self, queue: QueueKey, drafts: Sequence[Draft], keys: Sequence[KeyWrite] = ()
    ) -> list[Receipt]:
        self._stop()
        return super().enqueue(queue, drafts, keys)

    def _stop(self) -> None:
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            meanwhile()


class SuspendedStore(WrappedStore):
    """The source of a relay that is suspended after its first jobs, until it is resumed."""

    def __init__(self, inner: Store, go_on: threading.Event) -> None:
        super().__init__(inner)
        self._go_on = go_on
        self._stopped = False

    def claim(
        self, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition] = ()
    ) -> ClaimResult:
        if self._stopped:
            assert self._go_on.wait(30)
        claimed = super().claim(queue, request, transitions)
        self._stopped = bool(claimed.jobs)
        return claimed


class LosesReplies(WrappedStore):
    """A store that does what is requested, while its first replies are lost."""

    def __init__(self, inner: Store, times: int = 1) -> None:
        super().__init__(inner)
        self.times = times

    def enqueue(
        self, queue: QueueKey, drafts: Sequence[Draft], keys: Sequence[KeyWrite] = ()
    ) -> list[Receipt]:
        receipts = super().enqueue(queue, drafts, keys)
        self._cut()
        return receipts

    def claim(
        self, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition] = ()
    ) -> ClaimResult:
        claimed = super().claim(queue, request, transitions)
        if transitions:
            self._cut()
        return claimed

    def _cut(self) -> None:
        if self.times:
            self.times -= 1
            raise StoreUnavailable("the connection was cut")


def make_relay(
    source: Queue[Any, Any], target: Queue[Any, Any], *, naive: bool = False, batch: int = 500
) -> Relay:
    """A relay without loops of its own; the clock is the test's."""
    with patch("ackline.relay.pump.Ledger", NoLedger if naive else Ledger):
        return Relay(source, target, batch=batch, lease=LEASE, maintenance=False)


def run_until_empty(relay: Relay) -> None:
    """Have it move all ready jobs, whatever errors the stores raise."""
    while True:
        try:
            relay.drain()
        except StoreError:
            continue
        return


def unsettled(source: Queue[Any, Any], target: Queue[Any, Any]) -> list[str]:
    """The jobs that the target has and that may not be settled in the source yet."""
    return list(Ledger(source, target).read().jobs)


def wrap_store(
    queues: Queues, wrap: Callable[[Store], Store], name: str = "email"
) -> Queue[Any, Any]:
    """A queue as one sees it through a store that misbehaves."""
    return Queues(wrap(queues.store), queues.tenant)[name]
