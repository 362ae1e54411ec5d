"""Workers to which jobs are delivered start them immediately, and release what is left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.slow_handler import SOON, SlowHandler
from tests.stores.redis.conftest import lose_deliveries
from tests.waiting import until

import ackline
from ackline import State
from ackline.core.errors import StoreUnavailable
from ackline.core.events import Act
from ackline.core.job import QueueKey
from ackline.queue import Queue
from ackline.queue.consume import MAX_POLL_INTERVAL
from ackline.stores.contract import ClaimRequest
from ackline.stores.redis.io.client import Subscriber
from ackline.worker.claim_loop import ClaimLoop

Open = Callable[[], Queue[Any, Any]]


@pytest.fixture
def open_queue(url) -> Iterator[Open]:
    """Opens the queue again, as another process would."""
    opened: list[ackline.Queues] = []

    def open_one() -> Queue[Any, Any]:
        opened.append(ackline.open(url))
        return opened[-1]["work"]

    yield open_one
    for queues in opened:
        queues.close()


COUNT = """
local count = 0
for _, entry in ipairs(redis.call('HVALS', KEYS[1])) do
  count = count + (string.sub(entry, 1, 1) == 'w' and 1 or 0)
end
return count
"""


def waiting(client, prefix) -> int:
    """How many workers wait for a delivery."""
    return int(client.eval(COUNT, 1, f"{prefix}:{{default/work}}:inboxes"))


@pytest.fixture
def half_busy(start, client, prefix) -> Callable[[Queue[Any, Any], SlowHandler], ackline.Worker]:
    """Starts a worker that runs a slow handler and waits for another job."""

    def start_one(queue: Queue[Any, Any], scene: SlowHandler) -> ackline.Worker:
        queue.handler(scene)
        worker: ackline.Worker = start(queue, concurrency=2, grace=SOON)
        until(lambda: waiting(client, prefix))
        queue.enqueue("slow")
        assert scene.began.wait(SOON)
        until(lambda: waiting(client, prefix))
        return worker

    return start_one


def test_single_jobs_are_all_delivered_and_done_once(open_queue, start, client, prefix):
    queue, scene = open_queue(), SlowHandler()
    queue.handler(scene)
    start(queue, concurrency=2)

    for n in range(50):
        until(lambda: waiting(client, prefix))
        queue.enqueue(n, id=str(n))

    until(lambda: queue.counts()[State.COMPLETED] == 50)
    assert sorted(scene.ran, key=int) == [str(n) for n in range(50)]
    acts = [event.act for event in queue.store.events(queue.key, None, 1000)]
    assert acts.count(Act.CLAIM) == 50


def test_a_delivered_job_starts_before_anything_is_claimed(
    open_queue, start, client, prefix, monkeypatch
):
    queue, claims, started = open_queue(), list[Any](), list[int]()
    claim = queue.store.claim

    def recorded(*given: Any) -> Any:
        claims.append(given)
        return claim(*given)

    monkeypatch.setattr(queue.store, "claim", recorded)
    queue.handler(lambda _: started.append(len(claims)))
    start(queue)

    meanwhile: list[int] = []
    for n in range(10):
        until(lambda: waiting(client, prefix))
        before = len(claims)
        queue.enqueue(n)
        until(lambda: len(started) > len(meanwhile))
        meanwhile.append(started[-1] - before)

    # Now and then a waiting worker claims all the same, to show that it is alive.
    assert meanwhile.count(0) >= 8


def test_single_jobs_take_two_scripts_each(open_queue, start, client, prefix):
    """One enqueues and delivers the job, the other settles it and claims."""
    queue = open_queue()
    queue.handler(lambda job: job.payload)
    start(queue)
    until(lambda: waiting(client, prefix))
    assert queue.enqueue_and_wait(0, timeout=SOON) == 0

    def scripts() -> int:
        return int(client.info("commandstats")["cmdstat_evalsha"]["calls"])

    before, began = scripts(), time.monotonic()
    for n in range(50):
        assert queue.enqueue_and_wait(n, timeout=SOON) == n

    # In addition, a worker claims now and then, to show that it is alive.
    others = 5 + 3 * (time.monotonic() - began) / MAX_POLL_INTERVAL
    assert scripts() - before <= 2 * 50 + others


def test_a_wake_up_that_comes_with_a_delivered_job_is_not_lost(
    open_queue, start, client, prefix, monkeypatch
):
    monkeypatch.setattr("ackline.queue.consume.MAX_POLL_INTERVAL", 60.0)
    queue, held_up, go_on = open_queue(), threading.Event(), threading.Event()
    queue.handler("mine")(lambda _: None)
    start(queue)
    until(lambda: waiting(client, prefix))
    queue.enqueue("first", kind="mine")
    until(lambda: queue.counts()[State.COMPLETED] == 1)
    until(lambda: waiting(client, prefix))
    read = Subscriber.read

    def read_late(subscriber: Subscriber) -> Any:
        held_up.set()
        assert go_on.wait(SOON)
        return read(subscriber)

    monkeypatch.setattr(Subscriber, "read", read_late)
    other = open_queue()
    other.enqueue("delivered", kind="mine")
    assert held_up.wait(SOON)
    other.enqueue_many(["in", "line"], kind="mine")
    # A worker that finds no job of its kinds requests a wake-up, even if there are other jobs.
    assert other.claim(kinds=["others"]) == []
    go_on.set()

    until(lambda: queue.counts()[State.COMPLETED] == 4)


def test_a_worker_for_one_job_at_a_time_gets_no_second(open_queue, start, client, prefix):
    queue, scene = open_queue(), SlowHandler()
    queue.handler(scene)
    start(queue, concurrency=1)
    until(lambda: waiting(client, prefix))

    queue.enqueue("slow", id="slow")
    assert scene.began.wait(SOON)
    queue.enqueue("quick", id="quick")
    time.sleep(0.05)  # long enough for a delivery

    assert queue.status("quick").state is State.QUEUED
    scene.go_on.set()
    until(lambda: queue.counts()[State.COMPLETED] == 2)
    assert scene.most == 1


def test_other_workers_get_jobs_while_one_is_busy_with_a_delivered_job(
    open_queue, start, client, prefix
):
    scene = SlowHandler()
    for _ in range(2):
        queue = open_queue()
        queue.handler(scene)
        start(queue, concurrency=1)
    until(lambda: waiting(client, prefix) == 2)

    queue.enqueue("slow")
    assert scene.began.wait(SOON)
    for n in range(10):
        queue.enqueue(n)

    until(lambda: queue.counts()[State.COMPLETED] == 10)
    scene.go_on.set()
    until(lambda: queue.counts()[State.COMPLETED] == 11)


def test_nothing_more_is_delivered_to_a_worker_that_stops(open_queue, half_busy, client, prefix):
    """It may take long to stop: a job that arrived meanwhile would have to wait."""
    queue, scene = open_queue(), SlowHandler()
    worker = half_busy(queue, scene)

    stopping = threading.Thread(target=worker.stop)
    stopping.start()
    until(lambda: not waiting(client, prefix), seconds=SOON / 4)
    queue.enqueue("quick", id="quick")

    assert queue.status("quick").state is State.QUEUED
    scene.go_on.set()
    stopping.join(SOON)
    assert scene.ran == [scene.ran[0]]


def test_a_job_on_its_way_to_a_worker_that_stops_is_released(
    open_queue, start, client, prefix, monkeypatch
):
    queue, scene = open_queue(), SlowHandler()
    queue.handler(scene)
    worker = start(queue, concurrency=2)
    until(lambda: waiting(client, prefix))
    lose_deliveries(monkeypatch)
    # As if nothing was claimed before the stop.
    monkeypatch.setattr(ClaimLoop, "claim_size", lambda _loop, _settling: 0)
    # As if a call was under way until the worker ends.
    begins = ClaimLoop.should_end_delivery
    monkeypatch.setattr(
        ClaimLoop, "should_end_delivery", lambda loop: loop.stopping and begins(loop)
    )

    queue.enqueue("quick", id="quick")
    assert queue.status("quick").state is State.PROCESSING
    worker.stop()

    job = queue.status("quick")
    assert (job.state, job.attempt) == (State.QUEUED, 0)
    assert scene.ran == []


def test_nothing_is_delivered_to_a_busy_worker_that_prefetches(
    open_queue, start, client, prefix, monkeypatch
):
    """The job would wait for it while other workers are idle."""
    monkeypatch.setattr("ackline.queue.consume.MAX_POLL_INTERVAL", 60.0)
    queue, scene = open_queue(), SlowHandler()
    queue.handler(scene)
    start(queue, concurrency=1)
    queue.enqueue_many(range(200))  # so fast that it prefetches many more than it can run
    queue.enqueue("slow", id="slow")
    assert scene.began.wait(SOON)
    until(lambda: queue.counts()[State.COMPLETED] == 200)
    time.sleep(0.05)  # long enough for one more claim

    assert not waiting(client, prefix)
    scene.go_on.set()
    until(lambda: waiting(client, prefix))


def test_a_lost_message_delays_a_job_by_less_than_a_lease(
    open_queue, start, client, prefix, monkeypatch
):
    queue, scene = open_queue(), SlowHandler()
    queue.handler(scene)
    start(queue, concurrency=2)
    until(lambda: waiting(client, prefix))
    lose_deliveries(monkeypatch)

    began = time.monotonic()
    queue.enqueue("quick", id="quick")

    until(lambda: queue.counts()[State.COMPLETED] == 1)
    assert time.monotonic() - began < 5.0  # a poll is one second, a lease thirty
    assert queue.status("quick").attempt == 1


def test_a_job_that_arrives_while_a_worker_stops_waiting_is_released(
    open_queue, half_busy, monkeypatch
):
    queue, scene = open_queue(), SlowHandler()
    worker = half_busy(queue, scene)
    withdraw = ClaimLoop.end_delivery

    def withdraw_late(loop: ClaimLoop) -> None:
        open_queue().enqueue("late", id="late")
        withdraw(loop)

    monkeypatch.setattr(ClaimLoop, "end_delivery", withdraw_late)
    stopping = threading.Thread(target=worker.stop)
    stopping.start()

    until(lambda: Act.RELEASE in [event.act for event in queue.events()], MAX_POLL_INTERVAL / 2)
    scene.go_on.set()
    stopping.join(SOON)
    assert queue.status("late").state is State.QUEUED


def test_a_failed_claim_that_ends_waiting_is_repeated(
    open_queue, half_busy, client, prefix, monkeypatch
):
    queue, scene, lost = open_queue(), SlowHandler(), list[ClaimRequest]()
    worker = half_busy(queue, scene)
    claim = queue.store.claim

    def cut_once(key: QueueKey, request: ClaimRequest, *given: Any) -> Any:
        if request.limit == 0 and not lost:
            lost.append(request)
            raise StoreUnavailable("cut off")
        return claim(key, request, *given)

    monkeypatch.setattr(queue.store, "claim", cut_once)
    stopping = threading.Thread(target=worker.stop)
    stopping.start()

    until(lambda: lost and not waiting(client, prefix), seconds=SOON / 4)
    scene.go_on.set()
    stopping.join(SOON)
