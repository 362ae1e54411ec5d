"""New jobs are published only if somebody waits for them, and then always."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator

import pytest
from redis.client import PubSub
from tests.stores.redis.conftest import QUEUE, REQUEST, SOON, done, drafts, wants

from ackline.core.config import DEFAULTS, QueueSettings
from ackline.core.job import Draft
from ackline.core.lifecycle import release
from ackline.stores.contract import Listener
from ackline.stores.redis import RedisStore

BURSTS = 150


@pytest.fixture
def channel(client, prefix) -> Iterator[PubSub]:
    """Receives what is published to waiting workers, without waiting for jobs itself."""
    with client.pubsub(ignore_subscribe_messages=True) as channel:
        channel.subscribe(f"{prefix}:{{default/mail}}:ready")
        while not channel.subscribed or channel.get_message(timeout=0.05) is not None:
            pass
        yield channel


def published(channel: PubSub) -> int:
    """How many messages were published since the last call."""
    count = 0
    while channel.get_message(timeout=0.05) is not None:
        count += 1
    return count


class TestQuiet:
    def test_without_listeners_nothing_is_published(self, store, channel):
        store.enqueue(QUEUE, drafts(1))
        published(channel)

        for n in range(1, 20):
            store.enqueue(QUEUE, drafts(1, start=n))

        assert published(channel) == 0

    def test_a_listener_is_notified_once(self, store, channel):
        store.enqueue(QUEUE, drafts(1))
        published(channel)

        with store.listen([QUEUE], "ready"):
            for n in range(1, 20):
                store.enqueue(QUEUE, drafts(1, start=n))

        assert published(channel) == 1

    def test_a_full_claim_requests_no_wake_up(self, store, channel):
        store.enqueue(QUEUE, drafts(5))
        published(channel)

        store.claim(QUEUE, wants(2))
        store.enqueue(QUEUE, drafts(1, start=5))

        assert published(channel) == 0

    @pytest.mark.parametrize("cause", ["empty", "too few", "other kinds", "paused"])
    def test_a_claim_that_got_too_little_requests_a_wake_up(self, store, channel, cause):
        store.enqueue(QUEUE, drafts(1))
        match cause:
            case "empty":
                store.claim(QUEUE, wants(1))
                store.claim(QUEUE, wants(1))
            case "too few":
                store.claim(QUEUE, wants(2))
            case "other kinds":
                store.claim(QUEUE, wants(1, kinds=frozenset({"video"})))
            case _:
                store.configure(QUEUE, QueueSettings(paused=True))
                store.claim(QUEUE, wants(1))
        published(channel)

        store.enqueue(QUEUE, drafts(1, start=1))

        assert published(channel) == 1

    def test_another_waiter_does_not_prevent_the_wake_up_of_others(self, store):
        """The first job wakes both and one claims it; the second job must wake the other."""
        with store.listen([QUEUE], "ready") as one, store.listen([QUEUE], "ready") as other:
            store.claim(QUEUE, wants(1))
            store.claim(QUEUE, wants(1))
            store.enqueue(QUEUE, drafts(1))
            assert one.wait(SOON)
            assert len(store.claim(QUEUE, wants(1)).jobs) == 1
            assert other.wait(SOON)
            assert store.claim(QUEUE, wants(1)).jobs == []

            store.enqueue(QUEUE, drafts(1, start=1))

            assert other.wait(SOON)

    def test_a_job_released_by_a_claim_wakes_a_worker_for_its_kind(self, store):
        mail, video = frozenset({"mail"}), frozenset({"video"})
        store.enqueue(QUEUE, [Draft("m", "mail", b"")])
        [job] = store.claim(QUEUE, wants(1, kinds=mail)).jobs
        with store.listen([QUEUE], "ready") as listener:
            store.claim(QUEUE, wants(1, kinds=mail))

            store.claim(QUEUE, wants(1, kinds=video), [release(job, DEFAULTS)])

            assert listener.wait(SOON)
            assert len(store.claim(QUEUE, wants(1, kinds=mail)).jobs) == 1


class ClaimingThreads:
    """Threads that claim, and wait while there is no job for them."""

    def __init__(self, store: RedisStore, kinds: list[frozenset[str] | None]) -> None:
        self.missed = 0
        self.finished = threading.Semaphore(0)
        self._store = store
        self._stopped = False
        self._listeners: list[Listener] = [store.listen([QUEUE], "ready") for _ in kinds]
        self._threads = [
            threading.Thread(target=self._work, args=pair)
            for pair in zip(self._listeners, kinds, strict=True)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopped = True
        for listener in self._listeners:
            listener.wake()
        for thread in self._threads:
            thread.join()
        for listener in self._listeners:
            listener.close()

    def _work(self, listener: Listener, kinds: frozenset[str] | None) -> None:
        while not self._stopped:
            jobs = self._store.claim(QUEUE, wants(2, kinds=kinds)).jobs
            for job in jobs:
                self._store.apply(QUEUE, [done(job, None)])
                self.finished.release()
            if not jobs and not listener.wait(SOON) and not self._stopped:
                self.missed += 1


@pytest.mark.parametrize(
    "kinds",
    [[None] * 4, [frozenset({"a"}), frozenset({"b"}), frozenset({"a", "b"}), None]],
    ids=["all alike", "some want other kinds"],
)
def test_no_wake_up_is_missed(store, kinds):
    """Each burst comes when all threads wait, or are just about to."""
    threads, chance, number = ClaimingThreads(store, kinds), random.Random(7), 0
    threads.start()
    began = time.monotonic()
    for _ in range(BURSTS):
        size = chance.randint(1, 6)
        for _ in range(size):
            number += 1
            store.enqueue(QUEUE, [Draft(str(number), chance.choice("ab"), b"")])
        arrived = all(threads.finished.acquire(timeout=2 * SOON) for _ in range(size))
        if not arrived or time.monotonic() - began > 2 * SOON:
            break
    threads.stop()

    assert arrived
    assert threads.missed == 0
    assert time.monotonic() - began < SOON


def test_a_delayed_job_wakes_a_waiting_worker(store):
    with store.listen([QUEUE], "ready") as listener:
        assert store.claim(QUEUE, REQUEST).next_at is None

        store.enqueue(QUEUE, [Draft("a", "mail", b"", delay=60.0)])

        assert listener.wait(SOON)
        assert store.claim(QUEUE, REQUEST).next_at is not None
