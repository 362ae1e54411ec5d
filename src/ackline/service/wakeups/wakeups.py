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

from ackline.aio.base import ThreadPools
from ackline.core.job import QueueKey
from ackline.service.wakeups.subscriber import Subscriber
from ackline.stores.contract import Store, Subject, Topic

logger = logging.getLogger("ackline.service")

POLL_EVERY = 1.0
"""Seconds after which a waiter looks by itself, because news can be lost."""

POLLS_PER_SECOND = 50
"""How many waiters of a process look by themselves: the more there are, the more seldom each."""

POLLS_PER_SECOND_AFTER_LOSS = 200
"""… after news was surely lost, because a connection broke."""

POLL_BURST = 50
"""How many of them may look at once after a while without any looks."""

POLL_TICK = 0.05
"""Seconds between looks while there are more waiters than may look."""

UNSUBSCRIBE_AFTER = 10.0
"""Seconds that a subject is heard of after its last waiter: a client that polls comes back."""

UNSUBSCRIBE_ON_NOTIFICATION_AFTER = 1.0
"""Seconds without a waiter after which news ends the subscription to a subject at once: if nobody
waits, more news would say nothing new, and the store need not send it."""

DISCOVER_EVERY = 1.0
"""Seconds after which to look for new queues of a tenant."""

DISCOVERY_PAUSE_FACTOR = 10
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

    def __init__(self, topic: Topic, looks: PollTimer, on_wait: Callable[[], None]) -> None:
        self.version = 0
        """Changed by all news: whoever looked before that has to look again."""
        self.users = 0
        self._one_at_a_time = topic == "ready"
        self._looks = looks
        self._on_wait = on_wait
        self._waiters: OrderedDict[Waiter, None] = OrderedDict()
        self._watching: set[asyncio.Event] = set()
        self._due: asyncio.TimerHandle | None = None

    @property
    def has_waiters(self) -> bool:
        """Whether anybody would be woken by news."""
        return bool(self._waiters or self._watching)

    def wait(self, event: asyncio.Event, seen: int) -> Waiter:
        """Wait in line; woken at once if there was news after the version that was `seen`."""
        waiter = Waiter(self, event)
        if seen != self.version:
            event.set()
            return waiter
        self._waiters[waiter] = None
        self._looks.add(waiter)
        self._on_wait()
        return waiter

    def cancel(self, waiter: Waiter) -> bool:
        """Stop waiting; False if the waiter had been woken."""
        waits = waiter in self._waiters
        if waits:
            del self._waiters[waiter]
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

    def notify_watchers(self) -> None:
        """There may be news, and those in line will be woken to look for it one by one."""
        if not self._waiters:
            self.version += 1
        for event in self._watching:
            event.set()

    def notify(self) -> None:
        """There is news."""
        self.version += 1
        for event in self._watching:
            event.set()
        self.notify_next()
        while self._waiters and not self._one_at_a_time:
            self.notify_next()

    def notify_next(self) -> None:
        """Wake the first in line: there may be something for it."""
        if self._waiters:
            self.wake(next(iter(self._waiters)))

    def wake(self, waiter: Waiter) -> None:
        """Wake one in line: it is time that it looks."""
        if self.cancel(waiter):
            waiter.event.set()

    def notify_after(self, seconds: float) -> None:
        """Wake one in `seconds` at the latest: then a job becomes due."""
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        if self._due is None or due < self._due.when():
            self.cancel_timer()
            self._due = loop.call_at(due, self._is_due)

    def cancel_timer(self) -> None:
        """Nobody waits for a job to become due."""
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _is_due(self) -> None:
        self._due = None
        self.notify_next()


class PollTimer:
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
            self._start(POLL_EVERY)

    def remove(self, waiter: Waiter) -> None:
        """It has been woken, or has left."""
        self._waiting.pop(waiter, None)

    def poll_all(self) -> None:
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
            rate = POLLS_PER_SECOND_AFTER_LOSS if lost else POLLS_PER_SECOND
            due = waiter.since if lost else waiter.since + POLL_EVERY
            self._next_at = max(self._next_at, now - POLL_BURST / rate)
            if max(due, self._next_at) > now:
                self._start(max(due - now, POLL_TICK))
                return
            self._next_at += 1 / rate
            waiter.wakeup.wake(waiter)
            waiter = self._first()

    def _first(self) -> Waiter | None:
        return next(iter(self._waiting), None)


class SubjectState:
    """A subject that somebody is interested in, and its wakeups by the kinds that are wanted."""

    def __init__(self) -> None:
        self.wakeups: dict[Kinds, Wakeup] = {}
        self.pin_count = 0
        """How many need it to be heard of even while nobody waits."""
        self.subscribed = False
        self.last_waited_at = time.monotonic()

    @property
    def awaited(self) -> bool:
        return self.pin_count > 0 or any(wakeup.has_waiters for wakeup in self.wakeups.values())


class Wakeups:
    """All wakeups of one process."""

    def __init__(self, store: Store, threads: ThreadPools) -> None:
        self._store = store
        self._threads = threads
        self._looks = PollTimer()
        self._subjects: dict[Subject, SubjectState] = {}
        self._tenants: dict[tuple[str, Topic], TenantWakeup] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._subscriber = Subscriber(store, self._on_notification)
        self._cleanup_timer: asyncio.TimerHandle | None = None
        self._discovery: asyncio.Task[None] | None = None
        self._find_now = asyncio.Event()

    @contextmanager
    def of_queue(
        self, key: QueueKey, topic: Topic, kinds: Kinds = None, *, pinned: bool = False
    ) -> Iterator[Wakeup]:
        """The wakeup for news of one queue; with `pinned`, its version tells even if none waits."""
        subject = (key, topic)
        heard = self._subject(subject)
        wakeup = heard.wakeups.get(kinds)
        if wakeup is None:
            wakeup = heard.wakeups[kinds] = Wakeup(
                topic, self._looks, lambda: self._subscribe(subject, heard)
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
                wakeup.cancel_timer()
                del heard.wakeups[kinds]
            heard.last_waited_at = time.monotonic()
            if not heard.wakeups and not heard.subscribed:
                self._subjects.pop(subject, None)

    @contextmanager
    def of_tenant(self, tenant: str, topic: Topic) -> Iterator[Wakeup]:
        """The wakeup for news of any queue of a tenant, also of those that come into being."""
        place = (tenant, topic)
        wakeup = self._tenants.get(place)
        if wakeup is None:
            wakeup = self._tenants[place] = TenantWakeup(topic, self._looks)
            self._find_now.set()
        wakeup.users += 1
        if self._discovery is None:
            self._loop = asyncio.get_running_loop()
            self._discovery = self._loop.create_task(self._discover())
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
        for handle in (self._cleanup_timer, self._discovery):
            if handle is not None:
                handle.cancel()

    # --- subjects ---

    def _subject(self, subject: Subject) -> SubjectState:
        heard = self._subjects.get(subject)
        if heard is None:
            heard = self._subjects[subject] = SubjectState()
        return heard

    def _subscribe(self, subject: Subject, heard: SubjectState) -> None:
        """Somebody waits: hear of the subject, if not already."""
        heard.last_waited_at = time.monotonic()
        if not heard.subscribed:
            heard.subscribed = True
            self._loop = asyncio.get_running_loop()
            self._subscriber.add(subject)
            if self._cleanup_timer is None:
                self._cleanup_timer = self._loop.call_later(
                    UNSUBSCRIBE_AFTER / 2, self._unsubscribe_idle
                )

    def _pin(self, subject: Subject) -> None:
        heard = self._subject(subject)
        heard.pin_count += 1
        self._subscribe(subject, heard)

    def _unpin(self, subject: Subject) -> None:
        heard = self._subjects[subject]
        heard.pin_count -= 1
        heard.last_waited_at = time.monotonic()

    def _unsubscribe(self, subject: Subject, heard: SubjectState) -> None:
        heard.subscribed = False
        self._subscriber.remove(subject)
        if not heard.wakeups:
            del self._subjects[subject]

    def _unsubscribe_idle(self) -> None:
        """Hear no more of what nobody has waited for in a while."""
        long_ago = time.monotonic() - UNSUBSCRIBE_AFTER
        for subject, heard in list(self._subjects.items()):
            if heard.subscribed and not heard.awaited and heard.last_waited_at < long_ago:
                self._unsubscribe(subject, heard)
        self._cleanup_timer = None
        if self._subjects:
            self._cleanup_timer = asyncio.get_running_loop().call_later(
                UNSUBSCRIBE_AFTER / 2, self._unsubscribe_idle
            )

    # --- news ---

    def _on_notification(self, news: Collection[Subject] | None) -> None:
        """In the thread of the subscription."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._notify, news)

    def _notify(self, news: Collection[Subject] | None) -> None:
        if news is None:
            self._notify_all()
            return
        long_ago = time.monotonic() - UNSUBSCRIBE_ON_NOTIFICATION_AFTER
        for subject in news:
            heard = self._subjects.get(subject)
            if heard is None:
                continue
            awaited = heard.awaited
            for wakeup in heard.wakeups.values():
                wakeup.notify()
            key, topic = subject
            if (tenant := self._tenants.get((key.tenant, topic))) is not None:
                tenant.notify()
            if awaited:
                heard.last_waited_at = time.monotonic()
            elif heard.subscribed and heard.last_waited_at < long_ago:
                self._unsubscribe(subject, heard)

    def _notify_all(self) -> None:
        """Anything may have happened: those in line look one after the other, others at once."""
        self._looks.poll_all()
        of_queues = (
            wakeup for heard in self._subjects.values() for wakeup in heard.wakeups.values()
        )
        for wakeup in [*of_queues, *self._tenants.values()]:
            wakeup.notify_watchers()

    # --- the queues of tenants ---

    async def _discover(self) -> None:
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
                all_at = now + max(DISCOVER_EVERY, DISCOVERY_PAUSE_FACTOR * (now - began))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, all_at - now)):
                    await self._find_now.wait()
            self._forget_tenants()
        self._discovery = None

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
        long_ago = time.monotonic() - UNSUBSCRIBE_AFTER
        for place, wakeup in list(self._tenants.items()):
            if not wakeup.users and wakeup.used_at < long_ago:
                self._set_queues(wakeup, set())
                del self._tenants[place]


class TenantWakeup(Wakeup):
    """Wakes those who wait for news of any queue of a tenant."""

    def __init__(self, topic: Topic, looks: PollTimer) -> None:
        super().__init__(topic, looks, lambda: None)
        self.subjects: set[Subject] = set()
        self.used_at = time.monotonic()
