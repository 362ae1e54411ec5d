"""Waking requests that wait for news of a store: one subscription for all of a process.

One thread owns the subscription, whatever and however many are waited for. It passes news on to the
event loop, where a `Wakeup` for each subject wakes those who wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from ackline.aio.base import Threads
from ackline.job import QueueKey
from ackline.service.subscriber import Subscriber
from ackline.stores.base import Store, Subject, Topic

logger = logging.getLogger("ackline.service")

LOOK_EVERY = 1.0
"""Seconds after which a waiter looks by itself, because news can be lost."""

LOOKS_PER_SECOND = 50
"""How many waiters of a process look by themselves: the more there are, the more seldom each."""

LOOKS_AFTER_A_LOSS = 200
"""… after news was surely lost, because a connection broke."""

BURST = 50
"""How many of them may look at once after a while without any looks."""

TICK = 0.05
"""Seconds between looks while there are more waiters than may look."""

LINGER = 10.0
"""Seconds that a subject is heard of after its last waiter: a client that polls comes back."""

SPELL = 1.0
"""Seconds without a waiter after which news ends the subscription to a subject at once: if nobody
waits, more news would say nothing new, and the store need not send it."""

FIND_EVERY = 1.0
"""Seconds after which to look for new queues of a tenant."""

REST = 10
"""The pause after such a look, at least, as a multiple of its duration."""

Kinds = frozenset[str] | None


class Waiter:
    """One who waits for a wakeup; it is woken once, and then has to join again."""

    __slots__ = ("event", "since", "wakeup")

    def __init__(self, wakeup: Wakeup, event: asyncio.Event) -> None:
        self.wakeup = wakeup
        self.event = event
        self.since = time.monotonic()


class Wakeup:
    """Wakes those who wait for the same news: one after the other, or all of them.

    A job is for one consumer, so `ready` wakes one, which wakes the next if it got all that it
    asked for. All other news wakes everyone. A watcher is outside this line and hears all news:
    what it does with the news is unknown, so it cannot be relied on to wake the next waiter.
    """

    def __init__(self, topic: Topic, looks: Looks, on_wait: Callable[[], None]) -> None:
        self.version = 0
        """Changed by all news: whoever looked before that has to look again."""
        self.users = 0
        self._one_at_a_time = topic == "ready"
        self._looks = looks
        self._on_wait = on_wait
        self._line: OrderedDict[Waiter, None] = OrderedDict()
        self._watching: set[asyncio.Event] = set()
        self._due: asyncio.TimerHandle | None = None

    @property
    def awaited(self) -> bool:
        """Whether anybody would be woken by news."""
        return bool(self._line or self._watching)

    def join(self, event: asyncio.Event, seen: int) -> Waiter:
        """Wait in line; woken at once if there was news after the version that was `seen`."""
        waiter = Waiter(self, event)
        if seen != self.version:
            event.set()
            return waiter
        self._line[waiter] = None
        self._looks.add(waiter)
        self._on_wait()
        return waiter

    def leave(self, waiter: Waiter) -> bool:
        """Stop waiting; False if the waiter had been woken."""
        waits = waiter in self._line
        if waits:
            del self._line[waiter]
            self._looks.remove(waiter)
        return waits

    @contextmanager
    def watching(self, event: asyncio.Event) -> Iterator[None]:
        """Hear all news inside the block, without waiting in line."""
        self._watching.add(event)
        self._on_wait()
        try:
            yield
        finally:
            self._watching.discard(event)

    def tell_others(self) -> None:
        """There may be news, and those in line will be woken to look for it one by one."""
        if not self._line:
            self.version += 1
        for event in self._watching:
            event.set()

    def tell(self) -> None:
        """There is news."""
        self.version += 1
        for event in self._watching:
            event.set()
        self.wake_next()
        while self._line and not self._one_at_a_time:
            self.wake_next()

    def wake_next(self) -> None:
        """Wake the first in line: there may be something for it."""
        if self._line:
            self.wake(next(iter(self._line)))

    def wake(self, waiter: Waiter) -> None:
        """Wake one in line: it is time that it looks."""
        if self.leave(waiter):
            waiter.event.set()

    def expect(self, seconds: float) -> None:
        """Wake one in `seconds` at the latest: then a job becomes due."""
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        if self._due is None or due < self._due.when():
            self.forget_due()
            self._due = loop.call_at(due, self._is_due)

    def forget_due(self) -> None:
        """Nobody waits for a job to become due."""
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _is_due(self) -> None:
        self._due = None
        self.wake_next()


class Looks:
    """Wakes waiters without news now and then, at a bounded rate for all of a process."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[Waiter, None] = OrderedDict()
        """The longest waiting first."""
        self._timer: asyncio.TimerHandle | None = None
        self._all_since = float("-inf")
        self._next_at = 0.0
        """When the next look may be; up to a burst in the past, after a while without any."""

    def add(self, waiter: Waiter) -> None:
        """Wake this waiter when it has waited for long enough."""
        self._waiting[waiter] = None
        if self._timer is None:
            self._start(LOOK_EVERY)

    def remove(self, waiter: Waiter) -> None:
        """It has been woken, or has left."""
        self._waiting.pop(waiter, None)

    def look_at_all(self) -> None:
        """Wake everyone who waits now, as soon as the rate allows."""
        self._all_since = time.monotonic()
        if self._timer is not None:
            self._timer.cancel()
            self._start(0.0)

    def close(self) -> None:
        """Wake nobody any more."""
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
            rate = LOOKS_AFTER_A_LOSS if lost else LOOKS_PER_SECOND
            due = waiter.since if lost else waiter.since + LOOK_EVERY
            self._next_at = max(self._next_at, now - BURST / rate)
            if max(due, self._next_at) > now:
                self._start(max(due - now, TICK))
                return
            self._next_at += 1 / rate
            waiter.wakeup.wake(waiter)
            waiter = self._first()

    def _first(self) -> Waiter | None:
        return next(iter(self._waiting), None)


class Heard:
    """A subject that somebody is interested in, and its wakeups by the kinds that are wanted."""

    def __init__(self) -> None:
        self.wakeups: dict[Kinds, Wakeup] = {}
        self.pins = 0
        """How many need it to be heard of even while nobody waits."""
        self.subscribed = False
        self.awaited_at = time.monotonic()

    @property
    def awaited(self) -> bool:
        return self.pins > 0 or any(wakeup.awaited for wakeup in self.wakeups.values())


class Wakeups:
    """All wakeups of one process."""

    def __init__(self, store: Store, threads: Threads) -> None:
        self._store = store
        self._threads = threads
        self._looks = Looks()
        self._heard: dict[Subject, Heard] = {}
        self._tenants: dict[tuple[str, Topic], TenantWakeup] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._subscriber = Subscriber(store, self._on_news)
        self._tidying: asyncio.TimerHandle | None = None
        self._finding: asyncio.Task[None] | None = None
        self._find_now = asyncio.Event()

    @contextmanager
    def of_queue(
        self, key: QueueKey, topic: Topic, kinds: Kinds = None, *, pinned: bool = False
    ) -> Iterator[Wakeup]:
        """The wakeup for news of one queue; with `pinned`, its version tells even if none waits."""
        subject = (key, topic)
        heard = self._use(subject)
        wakeup = heard.wakeups.get(kinds)
        if wakeup is None:
            wakeup = heard.wakeups[kinds] = Wakeup(
                topic, self._looks, lambda: self._hear(subject, heard)
            )
        wakeup.users += 1
        if pinned:
            self._pin(subject)
        try:
            yield wakeup
        finally:
            wakeup.users -= 1
            if pinned:
                self._unpin(subject)
            if not wakeup.users:
                wakeup.forget_due()
                del heard.wakeups[kinds]
            heard.awaited_at = time.monotonic()
            if not heard.wakeups and not heard.subscribed:
                self._heard.pop(subject, None)

    @contextmanager
    def of_tenant(self, tenant: str, topic: Topic) -> Iterator[Wakeup]:
        """The wakeup for news of any queue of a tenant, also of those that come into being."""
        place = (tenant, topic)
        wakeup = self._tenants.get(place)
        if wakeup is None:
            wakeup = self._tenants[place] = TenantWakeup(topic, self._looks)
            self._find_now.set()
        wakeup.users += 1
        if self._finding is None:
            self._loop = asyncio.get_running_loop()
            self._finding = self._loop.create_task(self._find())
        try:
            yield wakeup
        finally:
            wakeup.users -= 1
            wakeup.used_at = time.monotonic()

    def close(self) -> None:
        """End the thread and all timers; this blocks, so call it in another thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel)
        self._subscriber.close()

    def _cancel(self) -> None:
        self._looks.close()
        for handle in (self._tidying, self._finding):
            if handle is not None:
                handle.cancel()

    # --- subjects ---

    def _use(self, subject: Subject) -> Heard:
        heard = self._heard.get(subject)
        if heard is None:
            heard = self._heard[subject] = Heard()
        return heard

    def _hear(self, subject: Subject, heard: Heard) -> None:
        """Somebody waits: hear of the subject, if not already."""
        heard.awaited_at = time.monotonic()
        if not heard.subscribed:
            heard.subscribed = True
            self._loop = asyncio.get_running_loop()
            self._subscriber.add(subject)
            if self._tidying is None:
                self._tidying = self._loop.call_later(LINGER / 2, self._tidy)

    def _pin(self, subject: Subject) -> None:
        heard = self._use(subject)
        heard.pins += 1
        self._hear(subject, heard)

    def _unpin(self, subject: Subject) -> None:
        heard = self._heard[subject]
        heard.pins -= 1
        heard.awaited_at = time.monotonic()

    def _forget(self, subject: Subject, heard: Heard) -> None:
        heard.subscribed = False
        self._subscriber.remove(subject)
        if not heard.wakeups:
            del self._heard[subject]

    def _tidy(self) -> None:
        """Hear no more of what nobody has waited for in a while."""
        long_ago = time.monotonic() - LINGER
        for subject, heard in list(self._heard.items()):
            if heard.subscribed and not heard.awaited and heard.awaited_at < long_ago:
                self._forget(subject, heard)
        self._tidying = None
        if self._heard:
            self._tidying = asyncio.get_running_loop().call_later(LINGER / 2, self._tidy)

    # --- news ---

    def _on_news(self, news: Collection[Subject] | None) -> None:
        """In the thread of the subscription."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell, news)

    def _tell(self, news: Collection[Subject] | None) -> None:
        if news is None:
            self._tell_all()
            return
        long_ago = time.monotonic() - SPELL
        for subject in news:
            heard = self._heard.get(subject)
            if heard is None:
                continue
            awaited = heard.awaited
            for wakeup in heard.wakeups.values():
                wakeup.tell()
            key, topic = subject
            if (tenant := self._tenants.get((key.tenant, topic))) is not None:
                tenant.tell()
            if awaited:
                heard.awaited_at = time.monotonic()
            elif heard.subscribed and heard.awaited_at < long_ago:
                self._forget(subject, heard)

    def _tell_all(self) -> None:
        """Anything may have happened: those in line look one after the other, others at once."""
        self._looks.look_at_all()
        of_queues = (wakeup for heard in self._heard.values() for wakeup in heard.wakeups.values())
        for wakeup in [*of_queues, *self._tenants.values()]:
            wakeup.tell_others()

    # --- the queues of tenants ---

    async def _find(self) -> None:
        """Find the queues of tenants for as long as anybody wants to know, at most once a second.

        Those of a tenant that nobody has asked for before are found at once.
        """
        known: set[str] = set()
        cursor, all_at = "", 0.0
        while self._tenants:
            self._find_now.clear()
            began = time.monotonic()
            tenants = {tenant for tenant, _ in self._tenants}
            known &= tenants
            try:
                if began >= all_at:
                    end = (await self._threads.call(self._store.info)).cursor
                    cursor, known = end, known if end == cursor else set()
                await self._find_queues(tenants - known)
                known = tenants
            except Exception:
                logger.warning("cannot find the queues of tenants", exc_info=True)
            now = time.monotonic()
            if began >= all_at:
                all_at = now + max(FIND_EVERY, REST * (now - began))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, all_at - now)):
                    await self._find_now.wait()
            self._forget_tenants()
        self._finding = None

    async def _find_queues(self, tenants: Collection[str]) -> None:
        if not tenants:
            return
        queues = await self._threads.call(self._queues_of, tenants)
        for (tenant, topic), wakeup in self._tenants.items():
            if tenant in queues:
                self._set_queues(wakeup, {(key, topic) for key in queues[tenant]})

    def _queues_of(self, tenants: Collection[str]) -> dict[str, set[QueueKey]]:
        return {tenant: {info.key for info in self._store.describe(tenant)} for tenant in tenants}

    def _set_queues(self, wakeup: TenantWakeup, subjects: set[Subject]) -> None:
        for subject in subjects - wakeup.subjects:
            self._pin(subject)
        for subject in wakeup.subjects - subjects:
            self._unpin(subject)
        wakeup.subjects = subjects

    def _forget_tenants(self) -> None:
        long_ago = time.monotonic() - LINGER
        for place, wakeup in list(self._tenants.items()):
            if not wakeup.users and wakeup.used_at < long_ago:
                self._set_queues(wakeup, set())
                del self._tenants[place]


class TenantWakeup(Wakeup):
    """Wakes those who wait for news of any queue of a tenant."""

    def __init__(self, topic: Topic, looks: Looks) -> None:
        super().__init__(topic, looks, lambda: None)
        self.subjects: set[Subject] = set()
        self.used_at = time.monotonic()
