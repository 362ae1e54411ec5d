"""The base of producers, consumers and operators: one queue and its store."""

from __future__ import annotations

import random
import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ackline.core.cron import Schedule
from ackline.core.fork_safety import renew_locks_after_fork
from ackline.core.job import Draft, QueueKey
from ackline.core.lifecycle import Transition, Verdict
from ackline.queue.drafts.batches import fills_batch, in_batches, payload_size
from ackline.queue.drafts.builder import DraftBuilder
from ackline.queue.error_callbacks import ErrorCallbacks
from ackline.queue.handlers import Handlers
from ackline.queue.journal.follow import Watcher
from ackline.queue.metadata import callbacks
from ackline.queue.metadata.recovery_counts import RecoveryCounts
from ackline.queue.policies import Policies
from ackline.queue.serdes import Serdes
from ackline.queue.transactions import joined_store
from ackline.stores.contract import JoinedTransaction, Receipt, Store

if TYPE_CHECKING:
    # A bare `Queue` is a Queue[Any, Any]; Python 3.11 cannot say so at run time.
    from typing_extensions import TypeVar as TypeVarWithDefault

    P = TypeVarWithDefault("P", default=Any)
    R = TypeVarWithDefault("R", default=Any)
else:
    P = TypeVar("P")
    R = TypeVar("R")


class QueueBase(Generic[P, R]):
    """One queue of one tenant in one store."""

    def __init__(self, store: Store, key: QueueKey, serdes: Serdes[R]) -> None:
        self.store = store
        self.key = key
        self.serdes = serdes
        self.handlers = Handlers(serdes.payload_type)
        self.draft_builder = DraftBuilder(store, key, serdes, self.handlers)
        self.policies = Policies(store, key, self.handlers)
        self.schedules: list[Schedule] = []
        self.random = random.Random()
        self.watchers: weakref.WeakSet[Watcher] = weakref.WeakSet()
        """Watchers of this queue; a running one is kept alive by its thread."""
        self.error_callbacks = ErrorCallbacks()
        self.recoveries = RecoveryCounts(store, key)
        self._callbacks_recorded = False
        self._lock = threading.Lock()
        renew_locks_after_fork(self, "_lock")

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.key.name

    def __repr__(self) -> str:
        return f"<Queue {str(self.key)!r} in {self.store.capabilities.name}>"

    def close(self) -> None:
        """Close the watchers, and save the counts of recovered jobs."""
        for watcher in list(self.watchers):
            watcher.close()
        self.recoveries.save()

    # --- writing to the store ---

    def store_drafts(
        self, drafts: Sequence[Draft], store: JoinedTransaction | None = None
    ) -> list[Receipt]:
        """Store jobs, in the store itself or in a transaction that it has joined.

        They are stored in one step unless they are too large together (see `batches`).
        """
        self.record_callbacks(drafts)
        enqueue = (store or self.store).enqueue
        if not fills_batch(drafts):
            return enqueue(self.key, drafts)
        return [
            receipt
            for batch in in_batches(drafts, payload_size, len(drafts))
            for receipt in enqueue(self.key, batch)
        ]

    def record_callbacks(self, drafts: Sequence[Draft]) -> None:
        """Record that jobs have callbacks before they are stored: a service makes the calls."""
        if not self._callbacks_recorded and callbacks.any_callback(drafts):
            callbacks.record_callbacks(self.store, self.key)
            self._callbacks_recorded = True

    def apply(
        self, transitions: Sequence[Transition], connection: object | None = None
    ) -> list[Verdict]:
        """Apply transitions in the store."""
        with joined_store(self.store, connection) as store:
            return store.apply(self.key, transitions)
