"""All wakeups of a process: one subscription of the store serves everyone who waits.

One thread owns the subscription. It passes notifications on to the event loop, where a `Wakeup` for
each subject wakes those who wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from ackline.aio.thread_pools import ThreadPools
from ackline.core.job import QueueKey
from ackline.service.wakeups.subscriber import Subscriber
from ackline.service.wakeups.wakeup import PollTimer, TenantWakeup, Wakeup
from ackline.stores.contract import Store, Subject, Topic

logger = logging.getLogger("ackline.service")

UNSUBSCRIBE_AFTER = 10.0
"""Seconds after its last waiter until a subject is unsubscribed: a client that polls comes back."""

UNSUBSCRIBE_ON_NOTIFICATION_AFTER = 1.0
"""Seconds without a waiter after which a notification ends the subscription of a subject: more
notifications would say nothing new, and the store need not send them."""

DISCOVER_EVERY = 1.0
"""Seconds after which to look for new queues of a tenant."""

DISCOVERY_PAUSE_FACTOR = 10
"""The minimum pause after such a search, as a multiple of its duration."""

Kinds = frozenset[str] | None


class SubjectState:
    """A subject that is in use, and its wakeups by the kinds they are for."""

    def __init__(self) -> None:
        self.wakeups: dict[Kinds, Wakeup] = {}
        self.pin_count = 0
        """How many users need its subscription even while nobody waits."""
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
        self._poll_timer = PollTimer()
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
        """The wakeup of one queue; with `pinned`, it stays subscribed even while nobody waits."""
        subject = (key, topic)
        state = self._subject(subject)
        wakeup = state.wakeups.get(kinds)
        if wakeup is None:
            wakeup = state.wakeups[kinds] = Wakeup(
                topic, self._poll_timer, lambda: self._subscribe(subject, state)
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
                del state.wakeups[kinds]
            state.last_waited_at = time.monotonic()
            if not state.wakeups and not state.subscribed:
                self._subjects.pop(subject, None)

    @contextmanager
    def of_tenant(self, tenant: str, topic: Topic) -> Iterator[Wakeup]:
        """The wakeup of all queues of a tenant, including those that are created later."""
        key_and_topic = (tenant, topic)
        wakeup = self._tenants.get(key_and_topic)
        if wakeup is None:
            wakeup = self._tenants[key_and_topic] = TenantWakeup(topic, self._poll_timer)
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
        """End the thread and all timers. Blocks, so call it in another thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel)
        self._subscriber.close()

    def _cancel(self) -> None:
        self._poll_timer.close()
        for handle in (self._cleanup_timer, self._discovery):
            if handle is not None:
                handle.cancel()

    # --- subjects ---

    def _subject(self, subject: Subject) -> SubjectState:
        state = self._subjects.get(subject)
        if state is None:
            state = self._subjects[subject] = SubjectState()
        return state

    def _subscribe(self, subject: Subject, state: SubjectState) -> None:
        """Subscribe to a subject, unless it is subscribed already."""
        state.last_waited_at = time.monotonic()
        if not state.subscribed:
            state.subscribed = True
            self._loop = asyncio.get_running_loop()
            self._subscriber.add(subject)
            if self._cleanup_timer is None:
                self._cleanup_timer = self._loop.call_later(
                    UNSUBSCRIBE_AFTER / 2, self._unsubscribe_idle
                )

    def _pin(self, subject: Subject) -> None:
        state = self._subject(subject)
        state.pin_count += 1
        self._subscribe(subject, state)

    def _unpin(self, subject: Subject) -> None:
        state = self._subjects[subject]
        state.pin_count -= 1
        state.last_waited_at = time.monotonic()

    def _unsubscribe(self, subject: Subject, state: SubjectState) -> None:
        state.subscribed = False
        self._subscriber.remove(subject)
        if not state.wakeups:
            del self._subjects[subject]

    def _unsubscribe_idle(self) -> None:
        """Unsubscribe from subjects that nobody has waited for in a while."""
        long_ago = time.monotonic() - UNSUBSCRIBE_AFTER
        for subject, state in list(self._subjects.items()):
            if state.subscribed and not state.awaited and state.last_waited_at < long_ago:
                self._unsubscribe(subject, state)
        self._cleanup_timer = None
        if self._subjects:
            self._cleanup_timer = asyncio.get_running_loop().call_later(
                UNSUBSCRIBE_AFTER / 2, self._unsubscribe_idle
            )

    # --- notifications ---

    def _on_notification(self, subjects: Collection[Subject] | None) -> None:
        """Runs in the thread of the subscription."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._notify, subjects)

    def _notify(self, subjects: Collection[Subject] | None) -> None:
        if subjects is None:
            self._notify_all()
            return
        long_ago = time.monotonic() - UNSUBSCRIBE_ON_NOTIFICATION_AFTER
        for subject in subjects:
            state = self._subjects.get(subject)
            if state is None:
                continue
            awaited = state.awaited
            for wakeup in state.wakeups.values():
                wakeup.notify()
            key, topic = subject
            if (tenant := self._tenants.get((key.tenant, topic))) is not None:
                tenant.notify()
            if awaited:
                state.last_waited_at = time.monotonic()
            elif state.subscribed and state.last_waited_at < long_ago:
                self._unsubscribe(subject, state)

    def _notify_all(self) -> None:
        """Anything may have happened: waiters poll one after the other, watchers are woken now."""
        self._poll_timer.poll_all()
        of_queues = (
            wakeup for state in self._subjects.values() for wakeup in state.wakeups.values()
        )
        for wakeup in [*of_queues, *self._tenants.values()]:
            wakeup.notify_watchers()

    # --- the queues of tenants ---

    async def _discover(self) -> None:
        """Find the queues of tenants for as long as there are wakeups of tenants, once a second.

        The queues of a new tenant are found immediately.
        """
        known: set[str] = set()
        cursor, all_at = "", 0.0
        while self._tenants:
            self._find_now.clear()
            started = time.monotonic()
            tenants = {tenant for tenant, _ in self._tenants}
            known &= tenants
            try:
                if started >= all_at:
                    end = (await self._threads.call(self._store.info)).cursor
                    cursor, known = end, known if end == cursor else set()
                await self._find_queues(tenants - known)
                known = tenants
            except Exception:
                logger.warning("cannot list queues", exc_info=True)
            now = time.monotonic()
            if started >= all_at:
                all_at = now + max(DISCOVER_EVERY, DISCOVERY_PAUSE_FACTOR * (now - started))
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
        for key_and_topic, wakeup in list(self._tenants.items()):
            if not wakeup.users and wakeup.used_at < long_ago:
                self._set_queues(wakeup, set())
                del self._tenants[key_and_topic]
