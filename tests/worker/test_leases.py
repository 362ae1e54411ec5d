"""Timeouts, lost leases, cancel requests and heartbeats."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
import weakref
from typing import Any

import pytest

import ackline
from ackline import JobFailed, State, StoreUnavailable
from ackline.queues import Queues
from ackline.stores.memory import MemoryStore
from ackline.worker import heartbeat
from ackline.worker.execute import executor
from tests.waiting import TIMEOUT


def test_an_async_handler_is_cancelled_at_its_timeout(queue, start):
    stopped = threading.Event()

    @queue.handler(timeout=0.05, max_attempts=1)
    async def endless(job):
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    start(queue)
    with pytest.raises(JobFailed, match=r"0\.05 s"):
        queue.enqueue_and_wait(1, timeout=TIMEOUT)
    assert stopped.is_set()


def test_the_signal_of_a_sync_handler_is_set_at_its_timeout(queue, start):
    reasons = []

    @queue.handler(timeout=0.05, max_attempts=1)
    def patient(job):
        job.signal.wait(TIMEOUT)
        reasons.append(job.signal.reason)
        return "too late"

    start(queue)
    with pytest.raises(JobFailed, match=r"0\.05 s"):
        queue.enqueue_and_wait(1, timeout=TIMEOUT)
    assert reasons == ["timeout"]


@pytest.mark.every_store
def test_a_timeout_of_the_queue_is_the_default_of_kinds_without_one(queue, start):
    @queue.handler(max_attempts=1)
    def wait(job):
        job.signal.wait(TIMEOUT)
        job.signal.raise_if_set()

    queue.configure(policy=ackline.Policy(timeout=0.05))
    start(queue)
    with pytest.raises(JobFailed, match=r"HandlerTimeout.*0\.05 s"):
        queue.enqueue_and_wait(1, timeout=TIMEOUT)


def test_a_handler_that_ignores_its_timeout_is_settled_without_it(queue, start, monkeypatch):
    monkeypatch.setattr(executor, "STOP_TIMEOUT", 0.05)
    go_on = threading.Event()

    @queue.handler(timeout=0.05, max_attempts=1)
    def never_stops(job):
        if job.payload == "hang":
            go_on.wait(TIMEOUT)
        return "fine"

    start(queue, concurrency=1)
    with pytest.raises(JobFailed, match=r"0\.05 s"):
        queue.enqueue_and_wait("hang", timeout=TIMEOUT)
    # The thread hangs, yet the worker continues with another.
    assert queue.enqueue_and_wait("next", timeout=TIMEOUT) == "fine"
    go_on.set()


@pytest.mark.parametrize("way", ["timeout", "lost"])
def test_an_async_handler_that_swallows_its_cancellation_does_not_keep_its_slot(
    queue, start, monkeypatch, way
):
    monkeypatch.setattr(executor, "STOP_TIMEOUT", 0.05)
    monkeypatch.setattr("ackline.worker.queue_runner.STOP_TIMEOUT", 0.05)
    started, go_on = threading.Event(), threading.Event()

    @queue.handler("never-stops", timeout=0.05 if way == "timeout" else None, max_attempts=1)
    async def never_stops(job):
        started.set()
        while not go_on.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    @queue.handler("quick")
    async def quick(job):
        return "ran"

    queue.enqueue(1, kind="never-stops", id="never-stops", lease=0.3)
    start(queue, concurrency=1)
    assert started.wait(TIMEOUT)
    if way == "lost":
        queue.purge(ids=["never-stops"])
    assert queue.enqueue_and_wait(1, kind="quick", timeout=TIMEOUT) == "ran"
    go_on.set()


def test_a_sync_handler_of_a_lost_lease_does_not_keep_its_thread(queue, start, monkeypatch):
    monkeypatch.setattr("ackline.worker.queue_runner.STOP_TIMEOUT", 0.05)
    started, go_on = threading.Event(), threading.Event()
    running, most = 0, 0
    lock = threading.Lock()

    @queue.handler(lease=0.3)
    def work(job):
        nonlocal running, most
        if job.payload == "hang":
            started.set()
            go_on.wait(TIMEOUT)
            return
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.005)  # long enough that a second thread would overlap
        with lock:
            running -= 1

    queue.enqueue("hang", id="hang")
    start(queue, concurrency=1)
    assert started.wait(TIMEOUT)
    queue.purge(ids=["hang"])
    queue.enqueue_and_wait("next", timeout=TIMEOUT)
    # When the hung one finally ends, there is only one thread again.
    go_on.set()
    queue.enqueue_many(["x"] * 10)
    queue.enqueue_and_wait("last", priority=0, timeout=TIMEOUT)
    assert most == 1


def test_finished_jobs_are_not_kept_until_their_timeout(queue, start):
    kept = []

    @queue.handler(timeout=3600)
    def quick(job):
        kept.append(weakref.ref(job.signal))

    start(queue)
    queue.enqueue_many(range(3000))
    queue.enqueue_and_wait("last", priority=0, timeout=TIMEOUT)
    gc.collect()
    # A thread may still have its last batch in hand.
    assert sum(signal() is not None for signal in kept) < 1500


def test_a_timer_that_fails_does_not_end_the_others(queue, start, caplog):
    @queue.handler(timeout=0.05, max_attempts=1)
    def patient(job):
        job.signal.on_set(lambda: 1 / 0)
        job.signal.wait(TIMEOUT)

    start(queue)
    for _ in range(2):
        with pytest.raises(JobFailed, match=r"0\.05 s"):
            queue.enqueue_and_wait(1, timeout=TIMEOUT)
    assert "a callback for a signal to stop failed" in caplog.text


@pytest.mark.every_store
def test_the_handler_of_a_lost_lease_is_stopped_and_its_result_refused(queue, start):
    started, stopped = threading.Event(), threading.Event()

    @queue.handler(lease=0.3)
    async def unlucky(job):
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.set()
            return "a late result"

    queue.enqueue(1, id="a")
    start(queue)
    assert started.wait(TIMEOUT)
    # An operator takes the job away: the lease is gone.
    assert queue.purge(ids=["a"]) == 1
    assert stopped.wait(TIMEOUT)
    assert queue.status("a") is None


class SilentStore(MemoryStore):
    """Nothing gets through to it while it is cut off."""

    cut_off = False

    def heartbeat(self, queue: Any, sent: Any, extensions: Any) -> Any:
        if self.cut_off:
            raise StoreUnavailable("no answer")
        return super().heartbeat(queue, sent, extensions)


@pytest.mark.parametrize("cut", [True, False])
def test_a_handler_is_stopped_when_no_heartbeat_succeeds_within_its_lease(start, cut, caplog):
    caplog.set_level(logging.CRITICAL)
    store = SilentStore()
    queue = Queues(store)["work"]
    started, ended, reported = threading.Event(), threading.Event(), []

    @queue.handler(lease=1.0)
    def work(job):
        started.set()
        reported.append(job.signal.wait(1.6))
        ended.set()

    queue.enqueue(1, id="a")
    start(queue, maintenance=False)
    assert started.wait(TIMEOUT)
    store.cut_off = cut
    assert ended.wait(TIMEOUT)
    assert reported[0] is cut


@pytest.mark.parametrize("sort", ["sync", "async"])
def test_a_handler_stopped_for_its_lease_fails_with_that_reason(start, sort, caplog):
    """Not with a bare CancelledError, which says nothing of the lease."""
    caplog.set_level(logging.CRITICAL)
    store = SilentStore()
    queue = Queues(store)["work"]
    queue.configure(recovery=False)  # nobody takes the lease back meanwhile

    def wait(job):
        store.cut_off = True
        job.signal.wait(TIMEOUT)
        job.signal.raise_if_set()

    async def wait_async(job):
        store.cut_off = True
        await asyncio.sleep(TIMEOUT)

    queue.handler("default", lease=0.3, max_attempts=1)(wait if sort == "sync" else wait_async)
    start(queue, maintenance=False)

    with pytest.raises(JobFailed, match="LeaseNotKept"):
        queue.enqueue_and_wait(1, timeout=TIMEOUT)


@pytest.mark.every_store
def test_a_cancel_request_sets_the_signal_of_a_running_job_at_once(queue, start):
    started = threading.Event()

    @queue.handler
    def polite(job):
        started.set()
        return "stopped" if job.signal.wait(TIMEOUT) else "never asked"

    queue.enqueue(1, id="a")
    start(queue)
    assert started.wait(TIMEOUT)
    asked = time.monotonic()
    assert queue.cancel("a") is State.PROCESSING
    assert queue.result("a", timeout=TIMEOUT) == "stopped"
    assert time.monotonic() - asked < 1.0


@pytest.mark.parametrize("sort", ["sync", "async"])
def test_a_blocked_event_loop_does_not_lose_its_leases(queue, start, sort):
    deliveries = []

    def block(job):
        deliveries.append(job.attempt)
        time.sleep(1.2)  # longer than the lease, on purpose: only the heartbeat keeps it

    async def block_async(job):
        block(job)

    queue.configure(policy=queue.settings().policy.__class__(lease=0.4))
    queue.handler(block if sort == "sync" else block_async)
    start(queue)
    queue.enqueue_and_wait(1, timeout=TIMEOUT)
    assert deliveries == [1]


@pytest.mark.every_store
def test_a_worker_is_known_to_the_store_and_deregisters(queue, start):
    queue.handler(lambda job: None)
    worker = start(queue, concurrency=7)
    (known,) = queue.workers()
    assert known.heartbeat.id == worker.id
    assert known.heartbeat.concurrency == 7
    assert known.heartbeat.kinds == ("default",)
    worker.stop()
    assert queue.workers() == []


@pytest.mark.every_store
def test_others_learn_after_how_many_seconds_a_worker_counts_as_dead(queue, start):
    queue.handler(lambda job: None)
    start(queue, heartbeat_ttl=1.5)
    beats: set[float] = set()

    until = time.monotonic() + TIMEOUT
    while len(beats) < 3 and time.monotonic() < until:
        (known,) = queue.workers()
        assert known.expires_at - known.last_heartbeat_at == pytest.approx(1.5, abs=0.01)
        beats.add(known.last_heartbeat_at)
        time.sleep(0.1)

    assert max(beats) - min(beats) < 1.5


@pytest.mark.parametrize("store_name", ["sqlite"])
def test_an_idle_worker_sends_no_extra_heartbeats_for_writes_of_others(queues, start, monkeypatch):
    """A listener on a file wakes up for any write to it, and each heartbeat is a write."""
    monkeypatch.setattr(heartbeat, "HEARTBEAT_INTERVAL", 3600.0)
    queue, beats = queues["work"], []
    send_heartbeat = queue.store.heartbeat

    def counted(*given):
        beats.append(given)
        return send_heartbeat(*given)

    monkeypatch.setattr(queue.store, "heartbeat", counted)
    queue.handler(lambda job: None)
    start(queue)

    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        queues["other"].enqueue(1)
        time.sleep(0.05)

    assert len(beats) == 1
