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

    def queue_shares(self, *weights):
        shares = FairShare()
        wants_jobs = [True] * len(weights)
        return wants_jobs, [
            shares.add(weight, partial(wants_jobs.__getitem__, n))
            for n, weight in enumerate(weights)
        ]

    def rounds(self, queue_shares, wants_jobs, count, jobs=10):
        taken = [0] * len(queue_shares)
        for _ in range(count):
            for n, queue_share in enumerate(queue_shares):
                if wants_jobs[n] and queue_share.try_take(jobs):
                    taken[n] += jobs
        return taken

    @pytest.mark.parametrize("weights", [(1, 1), (3, 1), (1, 2, 5), (10, 1)])
    def test_shares_are_as_the_weights(self, weights):
        wants_jobs, queue_shares = self.queue_shares(*weights)

        taken = self.rounds(queue_shares, wants_jobs, 1000)

        for jobs, weight in zip(taken, weights, strict=True):
            assert jobs / sum(taken) == pytest.approx(weight / sum(weights), rel=0.05)

    def test_a_queue_alone_gets_all_jobs(self):
        wants_jobs, queue_shares = self.queue_shares(1, 9)
        wants_jobs[1] = False

        assert self.rounds(queue_shares, wants_jobs, 100) == [1000, 0]

    def test_a_share_is_not_saved_up(self):
        wants_jobs, queue_shares = self.queue_shares(1, 1)
        wants_jobs[1] = False
        self.rounds(queue_shares, wants_jobs, 1000)
        wants_jobs[1] = True

        first, second = self.rounds(queue_shares, wants_jobs, 3000)
        assert 0 < first <= second <= first + shares_module.MAX_CATCH_UP + 20

    def test_direct_deliveries_count(self):
        _, (first, second) = self.queue_shares(1, 1)
        first.count_delivered(10)

        assert not first.try_take(1)
        assert second.try_take(10)
        assert first.try_take(1)

    def test_jobs_that_did_not_arrive_are_not_counted(self):
        wants_jobs, queue_shares = self.queue_shares(1, 1)
        for _ in range(100):
            if queue_shares[0].try_take(10):
                queue_shares[0].return_unused(10)

        first, second = self.rounds(queue_shares, wants_jobs, 100)
        assert abs(first - second) <= 20

    def test_a_queue_that_cannot_claim_does_not_delay_others_for_long(self, monkeypatch):
        monkeypatch.setattr(shares_module, "MAX_DEFERRAL", 0.02)
        _, queue_shares = self.queue_shares(1, 1)

        assert queue_shares[0].try_take(10)
        assert not queue_shares[0].try_take(10)
        time.sleep(0.03)
        assert queue_shares[0].try_take(10)


@pytest.fixture
def queues(tmp_path):
    with ackline.open(f"sqlite:///{tmp_path}/jobs.db?durability=normal") as queues:
        yield queues


def fill(queue, count):
    queue.enqueue_many([time.time()] * count)


def test_a_short_queue_does_not_wait_for_a_long_one(queues):
    noisy, quiet = queues["noisy"], [queues[f"quiet-{n}"] for n in range(9)]
    waits: dict[str, list[float]] = {queue.name: [] for queue in quiet}
    done, started = threading.Event(), threading.Event()

    @noisy.handler()
    def much(job):
        started.set()

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
        assert started.wait(10)
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
    taken = {"heavy": 0, "light": 0}
    shares: list[float] = []
    enough = threading.Event()

    def count(name):
        def handler(job):
            taken[name] += 1
            if sum(taken.values()) == 16_000:
                shares.append(taken["heavy"] / 16_000)
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
