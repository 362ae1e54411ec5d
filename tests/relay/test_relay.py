"""Jobs arrive as they were, in order, and are settled where they came from."""

from __future__ import annotations

import threading

import pytest

import ackline
from ackline import Completed, ConfigError, NewJob, Queued, Relay, State
from ackline.core.events import Act
from ackline.testing import ManualClock
from tests.relay.conftest import Pair
from tests.relay.faulty_relays import make_relay


@pytest.mark.every_store
def test_a_job_arrives_as_it_was(pair: Pair) -> None:
    source = pair.source.queue("email", serde="msgpack")
    target = pair.target.queue("email", serde="msgpack")
    source.enqueue(
        {"to": "ann"},
        id="email-1",
        kind="welcome",
        priority=8,
        max_attempts=7,
        backoff=[1, 2],
        lease=90.0,
        timeout=60.0,
        result_ttl=5.0,
        keys_if_undelivered=[("undelivered", "email-1")],
        group="ann",
        headers={"a": "b"},
        trace="00-abc-def-01",
    )
    before = source.status("email-1")

    relay = make_relay(source, target)
    assert relay.drain() == 1

    after = target.status("email-1")
    assert before is not None
    assert after is not None
    for field in ("id", "kind", "payload", "priority", "options"):
        assert getattr(after.record, field) == getattr(before.record, field), field
    assert after.state is State.QUEUED
    assert after.payload == {"to": "ann"}
    assert after.attempt == 0
    assert relay.stats().relayed == 1


@pytest.mark.every_store
def test_moved_jobs_are_completed_in_the_source(pair: Pair) -> None:
    source, target = pair.source["email"], pair.target["email"]
    source.enqueue_many([NewJob(n, id=f"email-{n}") for n in range(25)])

    assert make_relay(source, target, batch=10).drain() == 25

    assert source.counts()[State.COMPLETED] == 25
    assert target.counts()[State.QUEUED] == 25
    assert isinstance(source.enqueue(0, id="email-0"), Completed)
    assert make_relay(source, target).drain() == 0


def test_the_order_is_kept(pair: Pair, clock: ManualClock) -> None:
    source, target = pair.source["email"], pair.target["email"]
    for number in range(10):
        source.enqueue(number, id=f"low-{number}", priority=1)
        source.enqueue(number, id=f"high-{number}", priority=9)
        clock.advance(0.001)

    make_relay(source, target, batch=3).drain()

    found = [job.id for job in target.claim(100)]
    assert found == [f"{p}-{n}" for p in ("high", "low") for n in range(10)]


def test_a_delayed_job_waits_in_the_source_until_it_is_due(pair: Pair, clock: ManualClock) -> None:
    source, target = pair.source["email"], pair.target["email"]
    source.enqueue(1, id="later", delay=60)
    relay = make_relay(source, target)

    assert relay.drain() == 0
    clock.advance(60)
    assert relay.drain() == 1
    assert [job.id for job in target.claim()] == ["later"]


@pytest.mark.every_store
def test_jobs_of_one_group_come_together(pair: Pair) -> None:
    source, target = pair.source["email"], pair.target["email"]
    source.enqueue_many([NewJob(n, id=f"email-{n}", group="ann") for n in range(20)])

    settings = source.settings()
    relay = make_relay(source, target)
    assert relay.drain() == 20

    assert [job.id for job in target.claim(20)] == ["email-0"]
    assert source.settings() == settings
    assert relay.source.claim() == []
    assert not [event for event in source.events() if event.act == Act.CONFIGURE]


def test_a_paused_source_delivers_nothing(pair: Pair) -> None:
    source, target = pair.source["email"], pair.target["email"]
    source.enqueue(1)
    source.pause()

    assert make_relay(source, target).drain() == 0
    source.resume()
    assert make_relay(source, target).drain() == 1


def test_to_a_queue_of_another_name_and_tenant(pair: Pair) -> None:
    source = pair.source["email"]
    target = ackline.Queues(pair.target.store, "acme")["post"]
    source.enqueue(1, id="a")

    make_relay(source, target).drain()

    job = target.status("a")
    assert job is not None
    assert job.state is State.QUEUED


@pytest.mark.every_store
def test_an_id_that_is_used_again_is_another_job(pair: Pair, clock: ManualClock) -> None:
    source, target = pair.source["email"], pair.target["email"]
    for payload in ("first", "second"):
        assert isinstance(source.enqueue(payload, id="a", result_ttl=0), Queued)
        assert make_relay(source, target).drain() == 1
        [job] = target.claim()
        assert job.payload == payload
        target.complete(job)
        clock.advance(1)


class TestAnIdThatTheTargetHas:
    """It is answered as any enqueue is."""

    def test_a_live_job_makes_it_a_duplicate(self, pair: Pair) -> None:
        source, target = pair.source["email"], pair.target["email"]
        target.enqueue("theirs", id="a")
        source.enqueue("ours", id="a")

        relay = make_relay(source, target)
        relay.drain()

        assert relay.stats().duplicates == 1
        assert [job.payload for job in target.claim(10)] == ["theirs"]
        assert source.counts()[State.COMPLETED] == 1

    def test_a_completed_job_makes_it_a_duplicate(self, pair: Pair) -> None:
        source, target = pair.source["email"], pair.target["email"]
        target.enqueue("theirs", id="a")
        target.complete(target.claim()[0], "result")
        source.enqueue("ours", id="a")

        relay = make_relay(source, target)
        relay.drain()

        assert relay.stats().duplicates == 1
        assert target.claim(10) == []

    @pytest.mark.parametrize("outcome", ["failed", "cancelled"])
    def test_a_failed_or_cancelled_job_is_replaced(self, pair: Pair, outcome: str) -> None:
        source, target = pair.source["email"], pair.target["email"]
        target.enqueue("theirs", id="a", max_attempts=1)
        if outcome == "failed":
            target.fail(target.claim()[0], "boom")
        else:
            target.cancel("a")
        source.enqueue("ours", id="a")

        relay = make_relay(source, target)
        relay.drain()

        assert relay.stats().relayed == 1
        assert [job.payload for job in target.claim(10)] == ["ours"]


class TestRefused:
    def test_source_and_target_must_differ(self, pair: Pair) -> None:
        with pytest.raises(ConfigError, match="the same queue"):
            Relay(pair.source["email"], pair.source["email"])

    def test_stores_instead_of_queues_are_refused(self, pair: Pair) -> None:
        with pytest.raises(ConfigError, match="queues"):
            Relay(pair.source, pair.target["email"])  # type: ignore[arg-type]

    def test_an_empty_batch_is_refused(self, pair: Pair) -> None:
        with pytest.raises(ConfigError, match="1 or more"):
            Relay(pair.source["email"], pair.target["email"], batch=0)


def test_a_relay_that_was_stopped_can_run_again(pair: Pair) -> None:
    source, target = pair.source["email"], pair.target["email"]
    relay = Relay(source, target, maintenance=False)
    for payload in ("first", "second"):
        source.enqueue(payload)
        thread = threading.Thread(target=relay.run)
        thread.start()
        [job] = target.claim(wait=10.0)
        relay.request_stop()
        thread.join(10.0)
        assert job.payload == payload


def test_the_journal_distinguishes_relayed_from_completed_jobs(pair: Pair) -> None:
    """It continues in the target: its callback is called from there."""
    source, target = pair.source["email"], pair.target["email"]
    source.enqueue(1, id="a")

    Relay(source, target, maintenance=False).drain()

    [event] = [event for event in source.events() if event.to is State.COMPLETED]
    assert event.note == "relayed"
