"""One subscription for all waiters of a process: everyone is woken, at a bounded cost."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import pytest
from tests.harness.faults.wrapped_store import WrappedStore

from ackline.aio.thread_pools import ThreadPools
from ackline.core.config import QueueSettings
from ackline.core.job import Draft, QueueKey
from ackline.service.wakeups import registry
from ackline.service.wakeups import wakeup as wakeup_module
from ackline.service.wakeups.registry import Wakeups
from ackline.service.wakeups.wakeup import Waiter, Wakeup
from ackline.stores.contract import Store, Subject, Subscription
from ackline.stores.memory import MemoryStore

SOON = 5.0
KEY = QueueKey("default", "email")


class Counting(WrappedStore):
    """Counts its calls."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.described = 0
        self.subscriptions: list[RecordingSubscription] = []

    def describe(self, *args: Any, **kwargs: Any) -> Any:
        self.described += 1
        return super().describe(*args, **kwargs)

    def subscribe(self) -> Subscription:
        self.subscriptions.append(RecordingSubscription(self.inner.subscribe()))
        return self.subscriptions[-1]


class RecordingSubscription:
    """A subscription that records its subjects, and can report a loss of notifications."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.subjects: set[Subject] = set()
        self.loses_notifications = False
        self.missed = False

    def add(self, subjects: Any) -> None:
        subjects = set(subjects)
        self.subjects |= subjects
        self.inner.add(subjects)

    def remove(self, subjects: Any) -> None:
        subjects = set(subjects)
        self.subjects -= subjects
        self.inner.remove(subjects)

    def wait(self, timeout: float) -> Any:
        notified = self.inner.wait(timeout)
        missed, self.missed = self.missed, False
        return None if missed else set() if self.loses_notifications else notified

    def wake(self) -> None:
        self.inner.wake()

    def close(self) -> None:
        self.inner.close()

    def __enter__(self) -> RecordingSubscription:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


@pytest.fixture
def store() -> Iterator[Counting]:
    store = Counting(MemoryStore())
    store.open()
    yield store
    store.close()


def run(store: Store, work: Callable[[Wakeups], Coroutine[Any, Any, None]]) -> None:
    async def within() -> None:
        async with opened(store) as wakeups:
            await work(wakeups)

    asyncio.run(within())


@asynccontextmanager
async def opened(store: Store) -> AsyncIterator[Wakeups]:
    threads = ThreadPools()
    wakeups = Wakeups(store, threads)
    try:
        yield wakeups
    finally:
        await asyncio.to_thread(wakeups.close)
        threads.close()


async def woken(*events: asyncio.Event) -> None:
    async with asyncio.timeout(SOON):
        for event in events:
            await event.wait()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON):
        while not condition():
            await asyncio.sleep(0.005)


async def settled(wakeup: Wakeup) -> None:
    """A new subject gets a first notification."""
    await until(lambda: wakeup.version > 0)


def waits(wakeup: Wakeup) -> tuple[asyncio.Event, Waiter]:
    event = asyncio.Event()
    return event, wakeup.wait(event, wakeup.version)


def put(store: Store, key: QueueKey = KEY) -> None:
    store.enqueue(key, [Draft(f"{time.monotonic_ns()}", "mail", b"{}")])


@pytest.fixture
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiters are only woken by notifications."""
    monkeypatch.setattr(wakeup_module, "POLL_EVERY", 3600.0)


class TestCost:
    def test_any_number_of_queues_needs_one_thread_and_subscription(self, store: Counting) -> None:
        before = threading.active_count()

        async def work(wakeups: Wakeups) -> None:
            with ExitStack() as using:
                keys = [QueueKey("default", f"queue {n}") for n in range(2000)]
                all_of_them = [using.enter_context(wakeups.of_queue(k, "ready")) for k in keys]
                events = [waits(wakeup)[0] for wakeup in all_of_them]
                await woken(*events)
                assert threading.active_count() - before <= 1

        run(store, work)
        assert len(store.subscriptions) == 1

    def test_cancelled_waiters_are_removed(
        self, store: Counting, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(registry, "UNSUBSCRIBE_AFTER", 0.05)

        async def work(wakeups: Wakeups) -> None:
            with wakeups.of_queue(KEY, "ready") as wakeup:
                waits(wakeup)
                await until(lambda: bool(store.subscriptions and store.subscriptions[0].subjects))
            await until(lambda: not store.subscriptions[0].subjects)

        run(store, work)

    def test_a_request_that_finds_jobs_is_not_subscribed(self, store: Counting) -> None:
        async def work(wakeups: Wakeups) -> None:
            with wakeups.of_queue(KEY, "ready"):
                pass
            assert not any(one.subjects for one in store.subscriptions)

        run(store, work)
        assert not store.subscriptions

    @pytest.mark.usefixtures("no_polls")
    def test_a_notification_without_waiters_ends_the_subscription(
        self, store: Counting, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """So that the store need not send more notifications."""
        monkeypatch.setattr(registry, "UNSUBSCRIBE_ON_NOTIFICATION_AFTER", 0.0)

        async def work(wakeups: Wakeups) -> None:
            with wakeups.of_queue(KEY, "ready") as wakeup:
                event, waiter = waits(wakeup)
                await settled(wakeup)
                wakeup.cancel(waiter)
                put(store)
                await until(lambda: not store.subscriptions[0].subjects)
                event, _ = waits(wakeup)
                await woken(event)

        run(store, work)


@pytest.mark.usefixtures("no_polls")
class TestNotifications:
    def test_a_job_wakes_one_waiter_which_wakes_the_next(self, store: Counting) -> None:
        async def work(wakeups: Wakeups) -> None:
            with wakeups.of_queue(KEY, "ready") as wakeup:
                waits(wakeup)
                await settled(wakeup)
                first, second = waits(wakeup)[0], waits(wakeup)[0]
                put(store)
                await woken(first)
                assert not second.is_set()
                wakeup.notify_next()
                assert second.is_set()

        run(store, work)

    def test_a_change_wakes_all(self, store: Counting) -> None:
        async def work(wakeups: Wakeups) -> None:
            with wakeups.of_queue(KEY, "changes") as wakeup:
                waits(wakeup)
                await settled(wakeup)
                events = [waits(wakeup)[0] for _ in range(3)]
                put(store)
                await woken(*events)

        run(store, work)

    def test_waiters_for_other_kinds_are_woken_too(self, store: Counting) -> None:
        async def work(wakeups: Wakeups) -> None:
            with (
                wakeups.of_queue(KEY, "ready", frozenset({"mail"})) as mail,
                wakeups.of_queue(KEY, "ready", frozenset({"image"})) as image,
            ):
                waits(mail), waits(image)
                await settled(mail)
                events = [waits(mail)[0], waits(image)[0]]
                put(store)
                await woken(*events)

        run(store, work)

    def test_a_notification_before_the_wait_is_not_missed(self, store: Counting) -> None:
        async def work(wakeups: Wakeups) -> None:
            with wakeups.of_queue(KEY, "ready", pinned=True) as wakeup:
                await settled(wakeup)
                seen = wakeup.version
                put(store)
                await until(lambda: wakeup.version != seen)
                event = asyncio.Event()
                wakeup.wait(event, seen)
                assert event.is_set()

        run(store, work)

    def test_a_watcher_does_not_wait_in_turn(self, store: Counting) -> None:
        async def work(wakeups: Wakeups) -> None:
            watching = asyncio.Event()
            with wakeups.of_queue(KEY, "ready") as wakeup, wakeup.watching(watching):
                await settled(wakeup)
                watching.clear()
                event, _ = waits(wakeup)
                put(store)
                await woken(event, watching)

        run(store, work)

    def test_a_job_that_becomes_due_wakes_one(self, store: Counting) -> None:
        async def work(wakeups: Wakeups) -> None:
            with wakeups.of_queue(KEY, "ready") as wakeup:
                waits(wakeup)
                await settled(wakeup)
                first, second = waits(wakeup)[0], waits(wakeup)[0]
                wakeup.notify_after(3600.0)
                wakeup.notify_after(0.01)
                await woken(first)
                assert not second.is_set()

        run(store, work)

    def test_after_a_lost_connection_everyone_polls(self, store: Counting) -> None:
        async def work(wakeups: Wakeups) -> None:
            with wakeups.of_queue(KEY, "ready") as wakeup:
                waits(wakeup)
                await settled(wakeup)
                events = [waits(wakeup)[0] for _ in range(5)]
                await asyncio.sleep(0.01)
                store.subscriptions[0].missed = True
                store.subscriptions[0].wake()
                await woken(*events)

        run(store, work)


class TestPolls:
    def test_a_lost_notification_is_noticed(
        self, store: Counting, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(wakeup_module, "POLL_EVERY", 0.05)

        async def work(wakeups: Wakeups) -> None:
            with wakeups.of_queue(KEY, "ready") as wakeup:
                waits(wakeup)
                await settled(wakeup)
                store.subscriptions[0].loses_notifications = True
                await woken(*[waits(wakeup)[0] for _ in range(3)])

        run(store, work)

    def test_thousands_poll_no_more_often_than_a_few(
        self, store: Counting, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(wakeup_module, "POLL_EVERY", 0.01)
        monkeypatch.setattr(wakeup_module, "POLLS_PER_SECOND", 100)
        monkeypatch.setattr(wakeup_module, "POLL_BURST", 10)

        async def work(wakeups: Wakeups) -> None:
            with wakeups.of_queue(KEY, "ready") as wakeup:
                waits(wakeup)
                await settled(wakeup)
                store.subscriptions[0].loses_notifications = True
                began = time.monotonic()
                events = [waits(wakeup)[0] for _ in range(3000)]
                await asyncio.sleep(0.5)
                woken_count = sum(event.is_set() for event in events)
                assert 10 < woken_count <= 10 + 100 * (time.monotonic() - began)

        run(store, work)


class TestTenants:
    @pytest.mark.usefixtures("no_polls")
    def test_a_notification_of_any_queue_wakes(self, store: Counting) -> None:
        put(store)

        async def work(wakeups: Wakeups) -> None:
            with wakeups.of_tenant("default", "changes") as wakeup:
                await settled(wakeup)
                event, _ = waits(wakeup)
                put(store, QueueKey("other", "email"))
                put(store)
                await woken(event)

        run(store, work)

    @pytest.mark.usefixtures("no_polls")
    def test_a_new_queue_is_subscribed(
        self, store: Counting, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(registry, "DISCOVER_EVERY", 0.01)
        put(store)

        async def work(wakeups: Wakeups) -> None:
            with wakeups.of_tenant("default", "changes") as wakeup:
                await settled(wakeup)
                for name in ("new", "newer"):
                    event, _ = waits(wakeup)
                    put(store, QueueKey("default", name))
                    await woken(event)
                store.configure(QueueKey("default", "set"), QueueSettings(paused=True))
                await until(lambda: len(store.subscriptions[0].subjects) == 4)

        run(store, work)

    def test_any_number_of_streams_describes_the_queues_once(self, store: Counting) -> None:
        """Otherwise each stream would poll every second."""
        put(store)

        async def work(wakeups: Wakeups) -> None:
            with ExitStack() as using:
                for _ in range(200):
                    wakeup = using.enter_context(wakeups.of_tenant("default", "changes"))
                await settled(wakeup)
                put(store)
                await asyncio.sleep(1.5)

        run(store, work)
        assert store.described <= 3
