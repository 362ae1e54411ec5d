"""Rule 9: the server's clock sets deadlines; a worker's wrong clock changes nothing."""

from __future__ import annotations

import time

import pytest
from tests.stores.redis.conftest import BEAT, QUEUE, drafts, wants

from ackline.core.job import Draft, State
from ackline.stores.contract import LeaseExtension


@pytest.fixture(params=[-86400.0, 86400.0], ids=["a day behind", "a day ahead"])
def wrong(request, monkeypatch):
    """The client's clock is wrong."""
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + request.param)


@pytest.fixture
def true_time(client):
    def now() -> float:
        seconds, micros = client.time()
        return float(seconds) + float(micros) / 1e6

    return now


@pytest.mark.usefixtures("wrong")
class TestWrongClock:
    def test_a_job_is_created_at_the_servers_time(self, store, true_time):
        store.enqueue(QUEUE, drafts(1))

        [job] = store.get(QUEUE, ["id0"])
        assert job.created_at == pytest.approx(true_time(), abs=5.0)

    def test_a_delay_is_added_to_the_servers_time(self, store, true_time):
        [receipt] = store.enqueue(QUEUE, [Draft("a", "mail", b"", delay=60.0)])

        [job] = store.get(QUEUE, ["a"])
        assert receipt.state is State.SCHEDULED
        assert job.run_at == pytest.approx(true_time() + 60.0, abs=5.0)

    def test_a_lease_ends_by_the_servers_time(self, store, true_time):
        store.enqueue(QUEUE, drafts(1))

        claimed = store.claim(QUEUE, wants(1))

        assert claimed.now == pytest.approx(true_time(), abs=5.0)
        assert claimed.jobs[0].deadline == claimed.now + 30.0
        assert store.leases(QUEUE) == []

    def test_a_heartbeat_is_recorded_at_the_servers_time(self, store, true_time):
        store.enqueue(QUEUE, drafts(1))
        [job] = store.claim(QUEUE, wants(1)).jobs

        assert store.heartbeat(QUEUE, BEAT, [LeaseExtension(job.id, job.token, 60.0)]).lost == []

        [worker] = store.workers([QUEUE])[0]
        assert worker.last_heartbeat_at == pytest.approx(true_time(), abs=5.0)
        assert store.get(QUEUE, ["id0"])[0].deadline == pytest.approx(true_time() + 60.0, abs=5.0)

    def test_pruning_goes_by_the_servers_time(self, store):
        store.enqueue(QUEUE, drafts(1))
        store.heartbeat(QUEUE, BEAT, [])

        store.prune(QUEUE, 10)

        assert len(store.events(QUEUE, None, 10)) == 1
        assert len(store.workers([QUEUE])[0]) == 1

    def test_the_store_returns_the_servers_time(self, store, true_time):
        assert store.now() == pytest.approx(true_time(), abs=5.0)
