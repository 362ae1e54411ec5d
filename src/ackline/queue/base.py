"""What producing, consuming and operating have in common: one queue and its store."""

from __future__ import annotations

import random
import threading
import weakref
from collections.abc import Sequence
from typing import Generic, TypeVar

from ackline.cron import Schedule
from ackline.forks import renew_in_child
from ackline.job import Draft, QueueKey
from ackline.lifecycle import Transition, Verdict
from ackline.queue import callbacks
from ackline.queue.chunks import in_chunks, is_full, payload_size
from ackline.queue.drafting import Drafter
from ackline.queue.handlers import Handlers
from ackline.queue.joining import within
from ackline.queue.policies import Policies
from ackline.queue.recovery import RecoveryCounts
from ackline.queue.serdes import Serdes
from ackline.queue.watching import Watcher
from ackline.stores.base import Joined, Receipt, Store

P = TypeVar("P")
R = TypeVar("R")


class QueueBase(Generic[P, R]):
    """One queue of one tenant in one store."""

    def __init__(self, store: Store, key: QueueKey, serdes: Serdes[R]) -> None:
        self.store = store
        self.key = key
        self.serdes = serdes
        self.handlers = Handlers(serdes.payload_type)
        self.drafter = Drafter(store, key, serdes, self.handlers)
        self.policies = Policies(store, key, self.handlers)
        self.schedules: list[Schedule] = []
        self.random = random.Random()
        self.watchers: weakref.WeakSet[Watcher] = weakref.WeakSet()
        """They call back for events of this queue; the thread of a running one keeps it alive."""
        self.recoveries = RecoveryCounts(store, key)
        self._callbacks_noted = False
        self._lock = threading.Lock()
        renew_in_child(self, "_lock")

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.key.name

    def __repr__(self) -> str:
        return f"<Queue {str(self.key)!r} in {self.store.capabilities.name}>"

    def close(self) -> None:
        """Stop calling back for events, and count what was recovered last."""
        for watcher in list(self.watchers):
            watcher.close()
        self.recoveries.save()

    # --- handing to the store ---

    def put(self, drafts: Sequence[Draft], store: Joined | None = None) -> list[Receipt]:
        """Store jobs, in the store itself or in a transaction that it has joined.

        They are stored in one step unless they are too large together (see `chunks`).
        """
        self.announce(drafts)
        enqueue = (store or self.store).enqueue
        if not is_full(drafts):
            return enqueue(self.key, drafts)
        return [
            receipt
            for chunk in in_chunks(drafts, payload_size, len(drafts))
            for receipt in enqueue(self.key, chunk)
        ]

    def announce(self, drafts: Sequence[Draft]) -> None:
        """Note the first job that wants a callback before it is stored: services make the calls."""
        if not self._callbacks_noted and callbacks.wanted_by(drafts):
            callbacks.note(self.store, self.key)
            self._callbacks_noted = True

    def apply(
        self, transitions: Sequence[Transition], connection: object | None = None
    ) -> list[Verdict]:
        """Hand decided transitions to the store."""
        with within(self.store, connection) as store:
            return store.apply(self.key, transitions)
