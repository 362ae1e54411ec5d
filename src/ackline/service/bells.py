"""Waking requests that wait for news of a store: one thread for all that wait for the same.

A listener costs a thread, and files or a connection, so a process has a limited number of them.
Whoever waits beyond that is served by polling, at a limited rate for all of them together.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from ackline.job import QueueKey
from ackline.stores.base import Listener, Store, Topic

logger = logging.getLogger("ackline.service")

LONGEST_WAIT = 1.0
"""Seconds after which to look again, because news can be lost."""

TROUBLED_WAIT = 1.0
"""Seconds to wait after an error, so as not to spin on a store that is down."""

LINGER = 10.0
"""Seconds that a bell outlives its last user: a client that polls comes back."""

MAX_LISTENERS = 256
"""The most listeners, and so threads, of a process."""

MAX_LISTENED_QUEUES = 1024
"""The most queue names of all listeners together: each may cost an open file."""

POLLS_PER_SECOND = 200
"""The most wake-ups per second for all that wait without a listener."""

Place = tuple[tuple[QueueKey, ...], Topic, frozenset[str] | None]


class Bell:
    """Rings when a queue may have news: for one waiter after the other, or for all.

    A job is for one consumer, so `ready` wakes one, which wakes the next if it got all that it
    asked for. All other news wakes everyone. A watcher is outside this line and hears all news:
    what it does with the news is unknown, so it cannot be relied on to wake the next waiter.
    """

    def __init__(
        self, store: Store, place: Place, loop: asyncio.AbstractEventLoop, *, polled: bool
    ) -> None:
        self.polled = polled
        self._store = store
        self._place = place
        self._loop = loop
        self._one_at_a_time = place[1] == "ready"
        self._waiting: deque[asyncio.Event] = deque()
        self._watching: set[asyncio.Event] = set()
        self._rung = True
        self._someone_waits = threading.Event()
        self._listener: Listener | None = None
        self._due = float("inf")
        self._closed = False
        self.users = 0
        if not polled:
            name = f"ackline bell {place[0][0] if place[0] else ''}"
            threading.Thread(target=self._run, name=name, daemon=True).start()

    # --- on the event loop ---

    def join(self, waiter: asyncio.Event) -> None:
        """Wait in line; if it rang while nobody waited, the waiter is woken at once."""
        self._waiting.append(waiter)
        if self._rung:
            self.ring()
        else:
            self._someone_waits.set()

    def leave(self, waiter: asyncio.Event) -> bool:
        """Stop waiting; False if the waiter had been woken."""
        try:
            self._waiting.remove(waiter)
        except ValueError:
            return False
        return True

    def watch(self, waiter: asyncio.Event) -> None:
        """Hear all news from now on, without waiting in line."""
        self._watching.add(waiter)
        self._someone_waits.set()

    def unwatch(self, waiter: asyncio.Event) -> None:
        """Stop hearing news."""
        self._watching.discard(waiter)

    def ring(self, news: bool = False) -> None:
        """Wake the first in line, or else the next one to join; or, unless `ready`, all in line.

        Watchers are only woken by `news`, not because it is time to look again.
        """
        for waiter in self._watching if news else ():
            waiter.set()
        self._rung = not self._waiting
        if self._one_at_a_time and self._waiting:
            self._waiting.popleft().set()
        else:
            for waiter in self._waiting:
                waiter.set()
        if self._waiting or self._watching:
            self._someone_waits.set()

    @property
    def closed(self) -> bool:
        """Whether it never rings again."""
        return self._closed

    def expect(self, seconds: float) -> None:
        """Ring in `seconds` at the latest: then a job becomes due."""
        due = time.monotonic() + seconds
        if due < self._due:
            self._due = due
            if self._listener is not None:
                self._listener.wake()

    def close(self) -> None:
        """End the thread."""
        self._closed = True
        self._someone_waits.set()
        if self._listener is not None:
            self._listener.wake()

    # --- in its own thread ---

    def _run(self) -> None:
        while not self._closed:
            try:
                self._listen()
            except Exception:
                logger.warning("cannot listen for news of %s", self._place[0], exc_info=True)
                time.sleep(TROUBLED_WAIT)
                self._ring_soon()

    def _listen(self) -> None:
        keys, topic, kinds = self._place
        with self._store.listen(keys, topic, kinds) as self._listener:
            self._ring_soon()  # there may be news from before the listener existed
            while True:
                # News that wakes only one listener must not go to a process where nobody waits.
                self._someone_waits.wait()
                if self._closed:
                    return
                left = min(LONGEST_WAIT, max(0.0, self._due - time.monotonic()))
                news = self._listener.wait(left)
                if time.monotonic() >= self._due:
                    self._due = float("inf")
                self._ring_soon(news)

    def _ring_soon(self, news: bool = True) -> None:
        self._someone_waits.clear()
        if not self._closed and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.ring, news)


class Bells:
    """The bells of one process, shared by all who wait for the same news."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._bells: dict[Place, Bell] = {}
        self._listeners = 0
        self._listened_queues = 0
        self._polled: deque[Bell] = deque()
        self._next_poll: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def bell(
        self, keys: Sequence[QueueKey], topic: Topic, kinds: frozenset[str] | None = None
    ) -> AsyncIterator[Bell]:
        """Use a bell; it is closed a while after its last user has left."""
        place: Place = (tuple(keys), topic, kinds)
        bell = self._bells.get(place) or self._open(place)
        bell.users += 1
        try:
            yield bell
        finally:
            bell.users -= 1
            if bell.polled:
                self._close_unused(place)
            elif not bell.users:
                asyncio.get_running_loop().call_later(LINGER, self._close_unused, place)

    def close(self) -> None:
        """End all threads."""
        for place in list(self._bells):
            self._close(place)

    def _open(self, place: Place) -> Bell:
        listened = self._listened_queues + len(place[0])
        polled = self._listeners >= MAX_LISTENERS or listened > MAX_LISTENED_QUEUES
        loop = asyncio.get_running_loop()
        bell = self._bells[place] = Bell(self._store, place, loop, polled=polled)
        if polled:
            self._polled.append(bell)
            if self._next_poll is None:
                self._poll_later(loop)
        else:
            self._listeners, self._listened_queues = self._listeners + 1, listened
        return bell

    def _close_unused(self, place: Place) -> None:
        bell = self._bells.get(place)
        if bell is not None and not bell.users:
            self._close(place)

    def _close(self, place: Place) -> None:
        bell = self._bells.pop(place)
        bell.close()
        if not bell.polled:
            self._listeners -= 1
            self._listened_queues -= len(place[0])

    # --- polling ---

    def _poll_later(self, loop: asyncio.AbstractEventLoop) -> None:
        pause = max(LONGEST_WAIT / len(self._polled), 1 / POLLS_PER_SECOND)
        self._next_poll = loop.call_later(pause, self._poll, loop)

    def _poll(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wake those who wait for the next bell in turn."""
        self._next_poll = None
        while self._polled and self._polled[0].closed:
            self._polled.popleft()
        if self._polled:
            self._polled[0].ring(news=True)
            self._polled.rotate(-1)
            self._poll_later(loop)
