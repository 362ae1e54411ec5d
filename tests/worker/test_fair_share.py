"""Fair shares: a queue with much to do does not keep the others waiting, and weights count."""

from __future__ import annotations

import threading
import time
from functools import partial

import pytest

import ackline
from ackline.core.errors import ConfigError
from ackline.worker import fair_share as shares_module
from ackline.worker.fair_share import FairShare


class TestFairShare:
    """Who may take, without a worker."""

    def takers(self, *weights):
        shares = FairShare()
        wanting = [True] * len(weights)
        return wanting, [
            shares.add(weight, partial(wanting.__getitem__, n)) for n, weight in enumerate(weights)
        ]

    def rounds(self, takers, wanting, count, jobs=10):
        had = [0] * len(takers)
        for _ in range(count):
            for n, taker in enumerate(takers):
                if wanting[n] and taker.try_take(jobs):
                    had[n] += jobs
        return had

    @pytest.mark.parametrize("weights", [(1, 1), (3, 1), (1, 2, 5), (10, 1)])
    def test_shares_are_as_the_weights(self, weights):
        wanting, takers = self.takers(*weights)

        had = self.rounds(takers, wanting, 1000)

        for jobs, weight in zip(had, weights, strict=True):
            assert jobs / sum(had) == pytest.approx(weight / sum(weights), rel=0.05)

    def test_a_queue_alone_gets_all_jobs(self):
        wanting, takers = self.takers(1, 9)
        wanting[1] = False

        assert self.rounds(takers, wanting, 100) == [1000, 0]

    def test_a_share_is_not_saved_up(self):
        wanting, takers = self.takers(1, 1)
        wanting[1] = False
        self.rounds(takers, wanting, 1000)
        wanting[1] = True

        first, second = self.rounds(takers, wanting, 3000)
        assert 0 < first <= second <= first + shares_module.MAX_CATCH_UP + 20

    def test_direct_deliveries_count(self):
        _, (first, second) = self.takers(1, 1)
        first.count_delivered(10)

        assert not first.try_take(1)
        assert second.try_take(10)
        assert first.try_take(1)

    def test_jobs_that_did_not_arrive_are_not_counted(self):
        wanting, takers = self.takers(1, 1)
        for _ in range(100):
            if takers[0].try_take(10):
                takers[0].return_unused(10)

        first, second = self.rounds(takers, wanting, 100)
        assert abs(first - second) <= 20

    def test_a_queue_that_cannot_claim_does_not_delay_others_for_long(self, monkeypatch):
        monkeypatch.setattr(shares_module, "MAX_DEFERRAL", 0.02)
        _, takers = self.takers(1, 1)

        assert takers[0].try_take(10)
        assert not takers[0].try_take(10)
        time.sleep(0.03)
        assert takers[0].try_take(10)


@pytest.fixture
def queues(tmp_path):
    with ackline.open(f"sqlite:///{tmp_path}/jobs.db?durability=normal") as queues:
        yield queues


def fill(queue, count):
    queue.enqueue_many([time.time()] * count)


def test_a_short_queue_does_not_wait_for_a_long_one(queues):
    noisy, quiet = queues["noisy"], [queues[f"quiet-{n}"] for n in range(9)]
    waits: dict[str, list[float]] = {queue.name: [] for queue in quiet}
    done, begun = threading.Event(), threading.Event()

    @noisy.handler()
    def much(job):
        begun.set()

    for queue in quiet:

        @queue.handler()
        def little(job, queue=queue):
            waits[queue.name].append(time.time() - job.payload)
            if all(len(found) == 5 for found in waits.values()):
                done.set()

    fill(noisy, 30_000)
    worker = ackline.Worker(noisy, *quiet, maintenance=False)
    worker.start()
    try:
        assert begun.wait(10)
        for queue in quiet:
            for _ in range(5):
                queue.enqueue(time.time())
        assert done.wait(30)
        left = noisy.counts()[ackline.State.QUEUED]
    finally:
        worker.stop()

    assert left > 0, "the noisy queue was worked off before: it kept nobody waiting"
    assert sorted(wait for found in waits.values() for wait in found)[len(waits) * 5 // 2] < 0.5


@pytest.mark.parametrize("sort", ["sync", "async"])
@pytest.mark.parametrize(("weights", "share"), [((3, 1), 0.75), ((1, 1), 0.5), (None, 0.5)])
def test_queues_share_a_busy_worker_by_weight(queues, sort, weights, share):
    heavy, light = queues["heavy"], queues["light"]
    had = {"heavy": 0, "light": 0}
    shares: list[float] = []
    enough = threading.Event()

    def count(name):
        def handler(job):
            had[name] += 1
            if sum(had.values()) == 16_000:
                shares.append(had["heavy"] / 16_000)
                enough.set()

        async def async_handler(job):
            handler(job)

        return handler if sort == "sync" else async_handler

    for queue in (heavy, light):
        fill(queue, 16_000)
        queue.handler()(count(queue.name))
    worker = ackline.Worker(heavy, light, weights=weights, maintenance=False)
    worker.start()
    try:
        assert enough.wait(30)
    finally:
        worker.stop()

    assert shares[0] == pytest.approx(share, rel=0.1)


@pytest.mark.parametrize("weights", [(1,), (1, 0), (1, -1), (1, float("inf")), (1, float("nan"))])
def test_invalid_weights_are_refused(queues, weights):
    for queue in (queues["a"], queues["b"]):
        queue.handler()(print)

    with pytest.raises(ConfigError, match="each queue"):
        ackline.Worker(queues["a"], queues["b"], weights=weights)
