"""A run without an end: round after round, by the store's clock, until it is stopped."""

from __future__ import annotations

import threading

import pytest
from tests.spark.support.job_histories import all_events
from tests.spark.support.lake_and_store import DAY, Lakeside, counted, counted_in

from ackline.spark.lake import running
from ackline.spark.lake.running import Asked, Run

pytestmark = pytest.mark.ci

HOUR = 3600


@pytest.fixture
def side(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(running, "PAUSE", 0.0)
    side = Lakeside(spark, tmp_path)
    # By the store's clock it is yesterday.
    side.clock.advance(-DAY)
    yield side
    side.queues.close()


def test_each_round_takes_in_what_has_happened_since(side):
    queue, stopping = side.queues["email"], threading.Event()
    rounds = []

    def on_result(ran):
        rounds.append(ran)
        for job in queue.claim(4):
            queue.complete(job)
        if len(rounds) == 2:
            stopping.set()

    queue.enqueue_many(range(10))
    options = Asked(url=side.url, tenant="default", lake=side.path)
    Run(side.spark, side.queues, options).for_ever(on_result, stopping)

    assert [(ran.batches, ran.events, ran.ended) for ran in rounds] == [(1, 10, 0), (1, 8, 4)]
    taken_in = len(side.rows("bronze", "events"))
    assert taken_in == 18
    assert counted_in(side.gold("hourly")) == counted(all_events(side.queues)[:taken_in])
    this_hour = side.clock.now() // HOUR * HOUR
    assert min(row["hour"] for row in side.gold("forecast")).timestamp() == this_hour + HOUR
