"""Listeners and subscriptions: woken by news, or by the clock where no news arrives."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import Protocol, Self

from ackline.errors import StoreUnavailable
from ackline.job import QueueKey
from ackline.stores import base
from ackline.stores.base import Topic

POLL = 0.25
"""Seconds after which a listener looks for itself, where no news arrives."""

RETRY = 0.5
"""Seconds after which a subscription tries again to have itself notified."""

Subject = tuple[bytes, int]
"""A queue and a topic, as the table `waiting` has them."""


class Source(Protocol):
    """Where the news comes from."""

    @property
    def hears(self) -> bool: ...

    def arm(self, subjects: Collection[Subject]) -> None: ...

    def disarm(self, subjects: Collection[Subject]) -> None: ...

    def forget(self, waiter: Waiter) -> None: ...


class Waiter(Protocol):
    """A listener or a subscription, as the connection that receives the news knows it."""

    @property
    def armed(self) -> Collection[Subject]:
        """The subjects that processes that commit are to notify of."""

    def concerns(self, subject: Subject) -> bool:
        """Whether it hears of this."""

    def here(self, now: float, away: float) -> bool:
        """Whether a caller waits, or did so less than `away` seconds ago."""

    def disarmed(self) -> None:
        """No process notifies of its subjects any more."""

    def tell(self, subject: Subject | None) -> None:
        """There is news of a subject; without one, there may be news of all."""


class PostgresListener:
    """Waits for news of some queues on one topic."""

    def __init__(self, source: Source, subjects: frozenset[Subject]) -> None:
        self._subjects = subjects
        self._armed = False
        self._source = source
        self._news = threading.Event()
        self._waiting = 0
        self._left_at = time.monotonic()
        self._looked_at = time.monotonic()
        self._closed = False

    @property
    def armed(self) -> Collection[Subject]:
        return self._subjects if self._armed else ()

    def arm(self) -> None:
        """Be notified from now on."""
        self._armed = True  # first here: a caller that is disarmed meanwhile arms again
        self._source.arm(self._subjects)

    def disarmed(self) -> None:
        self._armed = False

    def concerns(self, subject: Subject) -> bool:
        return subject in self._subjects

    def tell(self, subject: Subject | None) -> None:
        del subject
        self._news.set()

    def here(self, now: float, away: float) -> bool:
        return self._waiting > 0 or now - self._left_at < away

    def wait(self, timeout: float) -> bool:
        self._waiting += 1
        try:
            return self._wait(timeout)
        finally:
            self._left_at = time.monotonic()
            self._waiting -= 1

    def _wait(self, timeout: float) -> bool:
        if not self._armed and not self._closed:
            self.arm()
            # While it was not armed, news was not sent: so the caller must look once.
            self._news.set()
        until = time.monotonic() + timeout
        while not self._closed:
            left = until - time.monotonic()
            pause = left if self._source.hears else min(left, self._looked_at + POLL - until + left)
            if self._news.wait(max(0.0, pause)):
                self._news.clear()
                break
            now = time.monotonic()
            if not self._source.hears and now - self._looked_at >= POLL:
                break
            if now >= until:
                return False
        self._looked_at = time.monotonic()
        return True

    def wake(self) -> None:
        self._news.set()

    def close(self) -> None:
        self._closed = True
        self._news.set()
        self._source.forget(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class PostgresSubscription:
    """Hears of many subjects."""

    def __init__(self, source: Source, subject_of: Callable[[QueueKey, Topic], Subject]) -> None:
        self._source = source
        self._subject_of = subject_of
        self._lock = threading.Lock()
        self._subjects: dict[Subject, base.Subject] = {}
        self._unarmed: set[Subject] = set()
        self._unwanted: set[Subject] = set()
        self._news: set[base.Subject] = set()
        self._missed = False
        self._looked_at = time.monotonic()
        """When everything was last looked at, because no news arrives."""
        self._woken = threading.Event()
        self._closed = False

    @property
    def armed(self) -> Collection[Subject]:
        with self._lock:
            return self._subjects.keys() - self._unarmed

    def disarmed(self) -> None:
        with self._lock:
            self._unarmed.update(self._subjects)

    def concerns(self, subject: Subject) -> bool:
        return subject in self._subjects

    def here(self, now: float, away: float) -> bool:
        del now, away
        return True  # its subjects are those that somebody waits for

    def tell(self, subject: Subject | None) -> None:
        with self._lock:
            if subject is None:
                self._missed = True
            elif subject in self._subjects:
                self._news.add(self._subjects[subject])
        self._woken.set()

    def add(self, subjects: Iterable[base.Subject]) -> None:
        with self._lock:
            added = {self._subject_of(*subject): subject for subject in subjects}
            self._subjects |= added
            self._unarmed |= added.keys()
            self._unwanted -= added.keys()

    def remove(self, subjects: Iterable[base.Subject]) -> None:
        with self._lock:
            removed = {self._subject_of(*subject) for subject in subjects}
            for subject in removed & self._subjects.keys():
                self._news.discard(self._subjects.pop(subject))
            self._unarmed -= removed
            self._unwanted |= removed

    def wait(self, timeout: float) -> Collection[base.Subject] | None:
        if self._closed:
            return ()
        try:
            self._arm()
        except StoreUnavailable:
            self._woken.wait(min(timeout, RETRY))
            return self._heard()
        until = time.monotonic() + timeout
        while True:
            left = max(0.0, until - time.monotonic())
            blind = not self._source.hears and bool(self._subjects)
            due_in = self._looked_at + POLL - time.monotonic()
            pause = min(left, max(0.0, due_in)) if blind else left
            woken = self._woken.wait(pause)
            news = self._heard()
            if news is None or (blind and time.monotonic() >= self._looked_at + POLL):
                self._looked_at = time.monotonic()
                return None
            if woken or left <= pause:
                return news

    def _heard(self) -> Collection[base.Subject] | None:
        self._woken.clear()
        with self._lock:
            news, self._news = self._news, set()
            missed, self._missed = self._missed, False
        return None if missed else news

    def _arm(self) -> None:
        with self._lock:
            unwanted, unarmed = self._unwanted, self._unarmed
            self._unwanted, self._unarmed = set(), set()
        try:
            if unwanted:
                self._source.disarm(unwanted)
            if unarmed:
                self._source.arm(unarmed)
        except BaseException:
            with self._lock:
                self._unwanted |= unwanted - self._subjects.keys()
                self._unarmed |= unarmed & self._subjects.keys()
            raise
        with self._lock:
            self._news.update(self._subjects[subject] for subject in unarmed)
        if unarmed:
            self._woken.set()

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self._closed = True
        self._woken.set()
        self._source.forget(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
