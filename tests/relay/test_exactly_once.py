"""Each job runs once in the target, whatever happens to the relays.

Each of these has its control: the same with a relay that trusts the target's ids alone.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ackline import NewJob, Queue, Relay, State
from ackline.core.events import Act
from ackline.testing import ManualClock
from tests.relay.conftest import Pair
from tests.relay.faulty_relays import (
    LEASE,
    DelayedStore,
    LosesReplies,
    RelayKilled,
    StoreKilledBeforeSettling,
    SuspendedStore,
    make_relay,
    unsettled,
    wrap_store,
)
from tests.waiting import until

pytestmark = pytest.mark.every_store


def enqueues(queue: Queue[Any, Any]) -> Counter[str]:
    """How often each job came into a queue, by its journal."""
    return Counter(event.id for event in queue.events() if event.act is Act.ENQUEUE)


def dies_before_it_settles(pair: Pair, *, naive: bool = False) -> None:
    """A relay moves all jobs, and is killed before it settles them in the source."""
    source = wrap_store(pair.source, StoreKilledBeforeSettling)
    with pytest.raises(RelayKilled):
        make_relay(source, pair.target["email"], naive=naive).drain()


# --- what can become of a job in the target before a second relay comes ---


def completed_and_over(queue: Queue[Any, Any]) -> None:
    for job in queue.claim(100):
        queue.complete(job)


def pruned(queue: Queue[Any, Any]) -> None:
    completed_and_over(queue)
    assert queue.store.prune(queue.key, 100) == 1


def failed(queue: Queue[Any, Any]) -> None:
    for job in queue.claim(100):
        queue.bury(job, "boom")


def cancelled(queue: Queue[Any, Any]) -> None:
    queue.cancel("a")


def purged(queue: Queue[Any, Any]) -> None:
    queue.purge()


def waiting(queue: Queue[Any, Any]) -> None:
    assert queue.counts()[State.QUEUED] == 1


OUTCOMES = [completed_and_over, pruned, failed, cancelled, purged]


class TestKilledBeforeItSettles:
    @pytest.mark.parametrize("outcome", [waiting, *OUTCOMES], ids=lambda outcome: outcome.__name__)
    def test_the_next_relay_knows_the_moved_jobs(
        self, pair: Pair, clock: ManualClock, outcome: Callable[[Queue[Any, Any]], None]
    ) -> None:
        source, target = pair.source["email"], pair.target["email"]
        source.enqueue(1, id="a", result_ttl=0)
        dies_before_it_settles(pair)
        outcome(target)
        clock.advance(LEASE)

        relay = make_relay(source, target)
        assert relay.drain() == 0

        assert relay.stats().replayed == 1
        assert enqueues(target) == {"a": 1}
        assert source.counts()[State.PROCESSING] == source.counts()[State.QUEUED] == 0

    @pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: outcome.__name__)
    def test_control_without_the_ledger_it_runs_twice(
        self, pair: Pair, clock: ManualClock, outcome: Callable[[Queue[Any, Any]], None]
    ) -> None:
        source, target = pair.source["email"], pair.target["email"]
        source.enqueue(1, id="a", result_ttl=0)
        dies_before_it_settles(pair, naive=True)
        outcome(target)
        clock.advance(LEASE)

        make_relay(source, target, naive=True).drain()

        assert enqueues(target) == {"a": 2}

    def test_the_ledger_empties(self, pair: Pair, clock: ManualClock) -> None:
        source, target = pair.source["email"], pair.target["email"]
        source.enqueue_many(range(10))
        dies_before_it_settles(pair)
        relay = make_relay(source, target)
        assert len(unsettled(source, target)) == 10
        clock.advance(LEASE)

        relay.drain()

        assert unsettled(source, target) == []

    def test_a_new_job_of_the_same_id_is_not_mistaken_for_it(
        self, pair: Pair, clock: ManualClock
    ) -> None:
        source, target = pair.source["email"], pair.target["email"]
        source.enqueue("old", id="a", result_ttl=0)
        dies_before_it_settles(pair)
        completed_and_over(target)
        clock.advance(LEASE)
        source.purge()
        source.enqueue("new", id="a")

        make_relay(source, target).drain()

        assert [job.payload for job in target.claim(10)] == ["new"]


class TestDelayedRelay:
    """Stopped between claim and enqueue, past its lease, while another relay went on."""

    def _meanwhile(self, pair: Pair, clock: ManualClock, naive: bool) -> Callable[[], None]:
        def meanwhile() -> None:
            clock.advance(LEASE)
            source, target = pair.open_source()["email"], pair.open_target()["email"]
            assert make_relay(source, target, naive=naive).drain() == 1
            completed_and_over(target)

        return meanwhile

    def _run(self, pair: Pair, clock: ManualClock, side: str, *, naive: bool) -> Relay:
        pair.source["email"].enqueue(1, id="a", result_ttl=0)
        others, over = self._meanwhile(pair, clock, naive), threading.Event()

        def meanwhile() -> None:
            others()
            over.set()

        source, target = pair.source["email"], pair.target["email"]
        if side == "source":
            source = wrap_store(pair.source, lambda store: DelayedStore(store, meanwhile))
        else:
            source = wrap_store(pair.source, lambda store: SuspendedStore(store, over))
            target = wrap_store(pair.target, lambda store: DelayedStore(store, meanwhile))
        zombie = make_relay(source, target, naive=naive)
        zombie.drain()
        assert over.is_set()
        return zombie

    @pytest.mark.parametrize("side", ["source", "target"])
    def test_it_changes_nothing_when_it_resumes(
        self, pair: Pair, clock: ManualClock, side: str
    ) -> None:
        zombie = self._run(pair, clock, side, naive=False)

        assert enqueues(pair.target["email"]) == {"a": 1}
        assert (zombie.stats().relayed, zombie.stats().leases_lost) == (0, 1)

    @pytest.mark.parametrize("side", ["source", "target"])
    def test_control_without_the_ledger_it_runs_twice(
        self, pair: Pair, clock: ManualClock, side: str
    ) -> None:
        self._run(pair, clock, side, naive=True)

        assert enqueues(pair.target["email"]) == {"a": 2}


@pytest.mark.parametrize("side", ["source", "target"])
def test_lost_replies_are_repeated(pair: Pair, clock: ManualClock, side: str) -> None:
    queues = {"source": pair.source["email"], "target": pair.target["email"]}
    queues["source"].enqueue_many([NewJob(n, id=f"email-{n}") for n in range(60)])
    queues[side] = wrap_store(getattr(pair, side), lambda store: LosesReplies(store, 5))
    relay = make_relay(queues["source"], queues["target"], batch=7)

    thread = threading.Thread(target=relay.run)
    thread.start()
    until(lambda: relay.stats().errors == 5 and not queues["source"].counts()[State.QUEUED])
    relay.request_stop()
    thread.join()
    # What was claimed when the answer was lost comes back when its lease is over.
    clock.advance(LEASE)
    relay.drain()

    assert set(enqueues(pair.target["email"]).values()) == {1}
    assert pair.target["email"].counts()[State.QUEUED] == 60


def test_several_relays_at_once(pair: Pair) -> None:
    jobs = [NewJob(n, id=f"email-{n}") for n in range(400)]
    pair.source["email"].enqueue_many(jobs)
    relays = [
        make_relay(pair.open_source()["email"], pair.open_target()["email"], batch=20)
        for _ in range(4)
    ]

    threads = [threading.Thread(target=relay.drain) for relay in relays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(relay.stats().relayed for relay in relays) == 400
    assert enqueues(pair.target["email"]) == {job.options["id"]: 1 for job in jobs}
    assert pair.source["email"].counts()[State.COMPLETED] == 400
