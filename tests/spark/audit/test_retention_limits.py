"""The audit judges jobs by the limits that they lived under, and by no others."""

from __future__ import annotations

import pytest
from tests.spark.support.audited_stores import events_of, jobs_of, judged
from tests.spark.support.job_histories import change

from ackline.core import lifecycle
from ackline.core.clock import ManualClock
from ackline.core.config import Policy, ResolvedPolicy
from ackline.core.events import Act
from ackline.core.lifecycle import Edit
from ackline.queues import Queues
from ackline.stores.memory import MemoryStore
from ackline.testing.fenced_transitions import failure_of

pytestmark = pytest.mark.ci

HOUR, DAY = 3600.0, 86_400.0


class Living:
    """A queue and another, and what happens to single jobs in them."""

    def __init__(self, queues, clock, name="email"):
        self.queues, self.clock = queues, clock
        self.queue, self.other = queues[name], queues[f"before {name}"]

    def configure(self, queue, **policy):
        queue.configure(policy=Policy(**policy))
        self.clock.advance(120)

    def enqueue(self, id, deliveries=1, last="complete", **options):
        self.queue.enqueue(1, id=id, **options)
        self.deliver(deliveries, last)

    def deliver(self, times, last):
        for _ in range(times - 1):
            self.queue.fail(self.queue.claim(1)[0], "no", delay=1)
            self.wait(2)
        job = self.queue.claim(1)[0]
        if last == "complete":
            self.queue.complete(job)
        else:
            self.queue.bury(job, "no")

    def cancel(self, id):
        self.queue.enqueue(1, id=id)
        self.queue.cancel(id)

    def wait(self, seconds):
        self.clock.advance(seconds)
        for queue in (self.queue, self.other):
            self.queues.store.promote(queue.key, 10)


def live_by_limits(living):
    queue, other = living.queue, living.other
    living.configure(queue, max_attempts=5)
    living.configure(other, max_attempts=5)
    living.enqueue("before", 4)
    living.enqueue("own, before", 4, max_attempts=4)
    living.configure(queue, max_attempts=2)
    living.enqueue("replaced", 4, last="bury", max_attempts=4)
    living.enqueue("replaced", 2)
    living.enqueue("own", 3, max_attempts=3)
    living.enqueue("redriven", 2, last="bury")
    queue.redrive("redriven")
    living.deliver(2, "complete")
    other.enqueue(1, id="came")
    for _ in range(3):
        other.fail(other.claim(1)[0], "no", delay=1)
        living.wait(2)
    other.move("came", queue.name)
    living.deliver(1, "complete")


def live_by_retention(living):
    """Ids that are used again when they are free, or, by people, before that."""
    queue, other = living.queue, living.other
    living.configure(other, keep_failed=60)
    living.enqueue("failed", last="bury", kind="mail")
    living.enqueue("long failed", last="bury")
    living.enqueue("edited", last="bury")
    queue.apply([lifecycle.edit("edited", Edit(keep=60))])
    other.enqueue(1, id="came dead")
    other.bury(other.claim(1)[0], "no")
    other.move("came dead", queue.name)
    living.cancel("cancelled")
    living.cancel("long cancelled")
    living.wait(61)
    for id in ("failed", "cancelled", "edited", "came dead"):
        living.enqueue(id)
    living.wait(DAY)
    living.enqueue("long cancelled")
    living.wait(29 * DAY)
    living.enqueue("long failed", kind="mail")


def with_handler(queues, name, max_attempts):
    """A process that has started a worker with this handler."""
    queue = queues.queue(name)
    queue.handler("default", max_attempts=max_attempts)(print)
    queue.policies.publish()
    return queue


def live_by_own_attempts(served, rolling):
    """Attempts that no settings of a queue tell of."""
    served.queue.policies.defaults = ResolvedPolicy(max_attempts=5)
    served.enqueue("of a service", 5)
    served.enqueue("beyond a service", 6, max_attempts=6)
    rolling.queue = with_handler(rolling.queues, rolling.queue.name, 5)
    with_handler(rolling.queues, rolling.queue.name, 2)
    rolling.wait(120)
    rolling.enqueue("of an old process", 5)
    rolling.enqueue("beyond an old process", 6, max_attempts=6)


@pytest.fixture(scope="module")
def lived():
    clock = ManualClock()
    store = MemoryStore(clock)
    store.open()
    queues = Queues(store)
    live_by_retention(Living(queues, clock, "kept"))
    live_by_limits(Living(queues, clock, "limited"))
    live_by_own_attempts(Living(queues, clock, "served"), Living(queues, clock, "rolling"))
    yield [queues]
    store.close()


def test_limits_do_not_reach_back(spark, lived):
    events = events_of(lived)
    assert sum(event.act is Act.CONFIGURE for event in events) == 6

    assert judged(spark, lived, events, jobs_of(lived)) == set()


def test_what_goes_beyond_a_limit_is_found(spark, lived):
    events = events_of(lived)
    anew = {event.id: event for event in events if event.act is Act.ENQUEUE}

    def spoil(event):
        """The store has forgotten what it had to keep, and took the id for a new job."""
        forgotten = event.id in ("failed", "cancelled") and event is anew[event.id]
        return change(event, source=None) if forgotten else event

    beyond = {"beyond a service": None, "beyond an old process": None}
    limits = {"own": None, "own, before": 3, "redriven": 1, **beyond}
    jobs = [
        job | {"max_attempts": limits.get(job["id"], job["max_attempts"])} for job in jobs_of(lived)
    ]

    found = judged(spark, lived, list(map(spoil, events)), jobs)

    assert {(row[0], row[3]) for row in found} == {
        ("delivered_too_often", "own"),
        ("delivered_too_often", "own, before"),
        ("delivered_too_often", "redriven"),
        ("delivered_too_often", "beyond a service"),
        ("delivered_too_often", "beyond an old process"),
        ("broken", "failed"),
        ("broken", "cancelled"),
    }


def test_nobody_knows_how_long_jobs_were_kept_before_a_change(spark):
    clock = ManualClock()
    with Queues(MemoryStore(clock)) as queues:
        living = Living(queues, clock)
        living.configure(living.queue, keep_failed=60)
        living.enqueue("failed", last="bury")
        living.wait(61)
        living.enqueue("failed")
        living.queue.enqueue(1, id="claimed")
        [claimed] = living.queue.claim(1, lease=DAY)
        policy = living.queue.policies.of(claimed.record)
        living.configure(living.queue, keep_failed=DAY)
        # A worker goes by what it knew when it took the job.
        living.queue.apply([lifecycle.bury(claimed.record, failure_of(claimed.record), policy)])
        living.wait(61)

        assert judged(spark, [queues], events_of([queues]), jobs_of([queues])) == set()


@pytest.fixture(scope="module")
def results():
    """Ids that are used again when they are free: of themselves, or because of people."""
    clock = ManualClock()
    with Queues(MemoryStore(clock)) as queues:
        living = Living(queues, clock)
        for id in ("over", "pruned"):
            living.enqueue(id, result_ttl=HOUR)
        living.wait(HOUR)
        living.enqueue("over", result_ttl=HOUR)
        queues.store.prune(living.queue.key, 10)
        living.enqueue("pruned", result_ttl=HOUR)
        living.enqueue("purged", result_ttl=HOUR)
        living.queue.purge(ids=["purged"])
        living.enqueue("purged", result_ttl=HOUR)
        living.enqueue("kept", result_ttl=2 * HOUR)
        living.configure(living.queue, max_attempts=2)
        yield [queues]


class TestOfResults:
    """How long all of them are kept, only the operator can say."""

    def test_what_is_kept_so_long_adds_up(self, spark, results):
        events = events_of(results)
        assert {event.act for event in events} >= {Act.PRUNE, Act.PURGE}

        assert judged(spark, results, events, jobs_of(results), result_ttl=HOUR) == set()

    @pytest.mark.parametrize("result_ttl", [HOUR, None])
    def test_what_is_forgotten_sooner_is_found(self, spark, results, result_ttl):
        """If somebody says how long it must be kept."""
        events = events_of(results)
        purge = next(event for event in events if event.act is Act.PURGE)
        forgotten = [event for event in events if event is not purge]
        pruned = [change(event, act=Act.PRUNE) if event is purge else event for event in events]
        jobs = [job for job in jobs_of(results) if job["id"] != "kept"]

        found = [
            {
                (row[0], row[3])
                for row in judged(spark, results, state_events, jobs, result_ttl=result_ttl)
            }
            for state_events in (forgotten, pruned)
        ]

        wrong = {("lost", "kept"), ("broken", "purged")}
        assert found == [wrong if result_ttl else set()] * 2

    def test_nobody_may_have_said_too_much(self, spark, results):
        """What the journal cannot know: then even sound ids are blamed."""
        found = judged(spark, results, events_of(results), jobs_of(results), result_ttl=2 * HOUR)

        assert {(row[0], row[3]) for row in found} == {("broken", "over"), ("broken", "pruned")}
