"""Wake-ups between the threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Self

from ackline.job import QueueKey
from ackline.stores.base import Topic


class MemoryListener:
    """Waits for news of some queues on one topic."""

    def __init__(
        self, queues: Sequence[QueueKey], topic: Topic, forget: Callable[[MemoryListener], None]
    ) -> None:
        self.queues = frozenset(queues)
        self.topic = topic
        self._forget = forget
        self._news = threading.Event()

    def wait(self, timeout: float) -> bool:
        woken = self._news.wait(timeout)
        if woken:
            self._news.clear()
        return woken

    def wake(self) -> None:
        self._news.set()

    def close(self) -> None:
        self._forget(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class Listeners:
    """All listeners of one store."""

    def __init__(self) -> None:
        self._all: frozenset[MemoryListener] = frozenset()
        self._lock = threading.Lock()

    def add(self, queues: Sequence[QueueKey], topic: Topic) -> MemoryListener:
        listener = MemoryListener(queues, topic, self._remove)
        with self._lock:
            self._all |= {listener}
        return listener

    def _remove(self, listener: MemoryListener) -> None:
        with self._lock:
            self._all -= {listener}

    def tell(self, queue: QueueKey, *topics: Topic) -> None:
        """Wake everyone who listens to this queue on one of these topics."""
        for listener in self._all:
            if listener.topic in topics and queue in listener.queues:
                listener.wake()
