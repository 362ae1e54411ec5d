"""Wakes those who wait for one subject: one after the other, or all of them."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ackline.stores.contract import Subject, Topic

POLL_EVERY = 1.0
"""Seconds after which a waiter polls without a notification, which can be lost."""

POLLS_PER_SECOND = 50
"""Maximum rate of polls per process: the more waiters there are, the less often each polls."""

POLLS_PER_SECOND_AFTER_LOSS = 200
"""The same after notifications were surely lost, because a connection broke."""

POLL_BURST = 50
"""How many waiters may poll at the same time after a while without polls."""

POLL_TICK = 0.05
"""Seconds between polls while there are more waiters than may poll."""


class Waiter:
    """One that waits for a wakeup; it is woken once, and then has to wait again."""

    __slots__ = ("event", "since", "wakeup")

    def __init__(self, wakeup: Wakeup, event: asyncio.Event) -> None:
        self.wakeup = wakeup
        self.event = event
        self.since = time.monotonic()


class Wakeup:
    """Wakes those who wait for the same notifications: one after the other, or all of them.

    A job is for one client, so `ready` wakes one waiter, which wakes the next if it got all that it
    asked for. All other topics wake everyone. A watcher does not wait in turn and gets every
    notification: it cannot be relied on to wake the next waiter.
    """

    def __init__(self, topic: Topic, poll_timer: PollTimer, on_wait: Callable[[], None]) -> None:
        self.version = 0
        """Incremented by every notification: whoever read before it has to read again."""
        self.users = 0
        self._one_at_a_time = topic == "ready"
        self._poll_timer = poll_timer
        self._on_wait = on_wait
        self._waiters: OrderedDict[Waiter, None] = OrderedDict()
        self._watching: set[asyncio.Event] = set()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def has_waiters(self) -> bool:
        """Whether a notification would wake anyone."""
        return bool(self._waiters or self._watching)

    def wait(self, event: asyncio.Event, version: int) -> Waiter:
        """Wait in turn; woken immediately if there were notifications after `version`."""
        waiter = Waiter(self, event)
        if version != self.version:
            event.set()
            return waiter
        self._waiters[waiter] = None
        self._poll_timer.add(waiter)
        self._on_wait()
        return waiter

    def cancel(self, waiter: Waiter) -> bool:
        """Stop waiting; False if the waiter was already woken."""
        waiting = waiter in self._waiters
        if waiting:
            del self._waiters[waiter]
            self._poll_timer.remove(waiter)
        return waiting

    @contextmanager
    def watching(self, event: asyncio.Event) -> Iterator[None]:
        """Get every notification inside the block, without waiting in turn."""
        self._watching.add(event)
        self._on_wait()
        try:
            yield
        finally:
            self._watching.discard(event)

    def notify_watchers(self) -> None:
        """Notify watchers only; waiters are about to poll, one by one."""
        if not self._waiters:
            self.version += 1
        for event in self._watching:
            event.set()

    def notify(self) -> None:
        """Something happened: wake watchers, and one or all waiters."""
        self.version += 1
        for event in self._watching:
            event.set()
        self.notify_next()
        while self._waiters and not self._one_at_a_time:
            self.notify_next()

    def notify_next(self) -> None:
        """Wake the first waiter: there may be something for it."""
        if self._waiters:
            self.wake(next(iter(self._waiters)))

    def wake(self, waiter: Waiter) -> None:
        """Wake a waiter, which then reads."""
        if self.cancel(waiter):
            waiter.event.set()

    def notify_after(self, seconds: float) -> None:
        """Wake one waiter in at most `seconds`, when a job becomes due."""
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        if self._timer is None or at < self._timer.when():
            self.cancel_timer()
            self._timer = loop.call_at(at, self._is_due)

    def cancel_timer(self) -> None:
        """Cancel the timer of `notify_after`."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _is_due(self) -> None:
        self._timer = None
        self.notify_next()


class PollTimer:
    """Wakes waiters now and then without a notification, at a bounded rate per process."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[Waiter, None] = OrderedDict()
        """Waiters, the longest waiting first."""
        self._timer: asyncio.TimerHandle | None = None
        self._all_since = float("-inf")
        self._next_at = 0.0
        """When the next poll may be; up to a burst in the past, after a while without polls."""

    def add(self, waiter: Waiter) -> None:
        """Wake this waiter once it has waited long enough."""
        self._waiting[waiter] = None
        if self._timer is None:
            self._start(POLL_EVERY)

    def remove(self, waiter: Waiter) -> None:
        """Remove a waiter that was woken, or stopped waiting."""
        self._waiting.pop(waiter, None)

    def poll_all(self) -> None:
        """Wake everyone who is waiting now, as soon as the rate allows."""
        self._all_since = time.monotonic()
        if self._timer is not None:
            self._timer.cancel()
            self._start(0.0)

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _start(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._run)

    def _run(self) -> None:
        self._timer = None
        now = time.monotonic()
        waiter = self._first()
        while waiter is not None:
            lost = waiter.since <= self._all_since
            rate = POLLS_PER_SECOND_AFTER_LOSS if lost else POLLS_PER_SECOND
            at = waiter.since if lost else waiter.since + POLL_EVERY
            self._next_at = max(self._next_at, now - POLL_BURST / rate)
            if max(at, self._next_at) > now:
                self._start(max(at - now, POLL_TICK))
                return
            self._next_at += 1 / rate
            waiter.wakeup.wake(waiter)
            waiter = self._first()

    def _first(self) -> Waiter | None:
        return next(iter(self._waiting), None)


class TenantWakeup(Wakeup):
    """Wakes those who wait for notifications of any queue of a tenant."""

    def __init__(self, topic: Topic, poll_timer: PollTimer) -> None:
        super().__init__(topic, poll_timer, lambda: None)
        self.subjects: set[Subject] = set()
        self.used_at = time.monotonic()
