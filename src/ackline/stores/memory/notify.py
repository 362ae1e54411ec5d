"""Wake-ups between the threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Self

from ackline.core.job import QueueKey
from ackline.stores.contract import Subject, Topic


class MemoryListener:
    """Waits for notifications of some queues on one topic."""

    def __init__(
        self, queues: Sequence[QueueKey], topic: Topic, on_close: Callable[[MemoryListener], None]
    ) -> None:
        self.subjects: frozenset[Subject] = frozenset((queue, topic) for queue in queues)
        self._on_close = on_close
        self._woken = threading.Event()

    def wait(self, timeout: float) -> bool:
        woken = self._woken.wait(timeout)
        if woken:
            self._woken.clear()
        return woken

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self._on_close(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class MemorySubscription:
    """Waits for notifications about many subjects."""

    def __init__(self, on_close: Callable[[MemorySubscription], None]) -> None:
        self._on_close = on_close
        self._subjects: set[Subject] = set()
        self._pending: set[Subject] = set()
        self._lock = threading.Lock()
        self._woken = threading.Event()

    def add(self, subjects: Iterable[Subject]) -> None:
        with self._lock:
            added = set(subjects)
            self._subjects |= added
            self._pending |= added
        self._woken.set()

    def remove(self, subjects: Iterable[Subject]) -> None:
        with self._lock:
            self._subjects.difference_update(subjects)
            self._pending &= self._subjects

    def notify(self, subjects: Iterable[Subject]) -> None:
        """Notify the subscription about those of these subjects that it has."""
        with self._lock:
            notified = self._subjects.intersection(subjects)
            self._pending |= notified
        if notified:
            self._woken.set()

    def wait(self, timeout: float) -> Collection[Subject]:
        self._woken.wait(timeout)
        self._woken.clear()
        with self._lock:
            notified, self._pending = self._pending, set()
        return notified

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self._on_close(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class Listeners:
    """All listeners and subscriptions of one store."""

    def __init__(self) -> None:
        self._all: frozenset[MemoryListener] = frozenset()
        self._subscriptions: frozenset[MemorySubscription] = frozenset()
        self.any = False
        """Whether there are any listeners or subscriptions."""
        self._lock = threading.Lock()

    def add(self, queues: Sequence[QueueKey], topic: Topic) -> MemoryListener:
        listener = MemoryListener(queues, topic, self._remove)
        with self._lock:
            self._all |= {listener}
            self.any = True
        return listener

    def subscribe(self) -> MemorySubscription:
        subscription = MemorySubscription(self._unsubscribe)
        with self._lock:
            self._subscriptions |= {subscription}
            self.any = True
        return subscription

    def _remove(self, listener: MemoryListener) -> None:
        with self._lock:
            self._all -= {listener}
            self.any = bool(self._all or self._subscriptions)

    def _unsubscribe(self, subscription: MemorySubscription) -> None:
        with self._lock:
            self._subscriptions -= {subscription}
            self.any = bool(self._all or self._subscriptions)

    def notify(self, subjects: Collection[Subject]) -> None:
        """Wake everyone who listens to one of these subjects."""
        for listener in self._all:
            if not listener.subjects.isdisjoint(subjects):
                listener.wake()
        for subscription in self._subscriptions:
            subscription.notify(subjects)
