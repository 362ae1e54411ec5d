"""The timeline of a job, however long the journal before it is."""

from __future__ import annotations

import math
from functools import partial

import pytest
from tests.store_choice import STORES, choose_stores

import ackline
from ackline.core.clock import ManualClock
from ackline.core.job import State
from ackline.journal_views import timeline as module
from ackline.journal_views.latest_events import latest_events
from ackline.journal_views.timeline import PAGE, timeline
from ackline.queues import Queues
from ackline.stores.memory import MemoryStore


def pytest_generate_tests(metafunc):
    choose_stores(metafunc, *STORES)


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def queue(clock, monkeypatch):
    """A queue whose journal is too long to be searched within the time limit."""
    store = MemoryStore(clock)
    store.open()
    queue = Queues(store)["email"]
    queue.enqueue_many(range(2 * PAGE))
    clock.advance(3600)
    monkeypatch.setattr(module, "TIME_LIMIT", -1.0)
    return queue


def acts(queue, id):
    found, complete = timeline(queue.store, queue.key, queue.store.get(queue.key, [id])[0])
    return [event.act.value for event in found], complete


def test_the_timeline_of_a_new_job_in_a_long_journal(queue):
    queue.enqueue(1, id="new")

    assert acts(queue, "new")[0] == ["enqueue"]


def test_the_timeline_of_a_finished_job_before_a_long_journal(queue, clock):
    queue.purge(states=[State.QUEUED])
    clock.advance(3600)
    queue.enqueue(1, id="old", result_ttl=86_400)
    queue.complete(queue.claim(1)[0], None)
    clock.advance(3600)
    queue.enqueue_many(range(2 * PAGE))

    assert acts(queue, "old") == (["enqueue", "claim", "complete"], True)


class CountedReads:
    """Counts the reads of a journal, and the events that they return."""

    def __init__(self, store, monkeypatch):
        self.calls = self.events = 0
        read = store.events

        def count(*arguments, **options):
            found = read(*arguments, **options)
            self.calls += 1
            self.events += len(found)
            return found

        monkeypatch.setattr(store, "events", count)


@pytest.mark.every_store
class TestLongJournal:
    """One that was written just before and after the job, and cannot be read to its end."""

    EVENTS = 12 * PAGE

    @pytest.fixture
    def queue(self, store_url, monkeypatch):
        monkeypatch.setattr(module, "TIME_LIMIT", -1.0)
        with ackline.open(store_url) as queues:
            self.fill(queues["email"])
            yield queues["email"]

    def fill(self, queue):
        for _ in range(self.EVENTS // PAGE):
            queue.enqueue_many(range(PAGE), delay=3600)

    @pytest.mark.parametrize("more", [False, True])
    def test_the_timeline_of_a_recent_job(self, queue, monkeypatch, more):
        queue.enqueue(1, id="recent")
        queue.complete(queue.claim(1)[0], None)
        if more:
            self.fill(queue)
        reads = CountedReads(queue.store, monkeypatch)

        assert acts(queue, "recent")[0] == ["enqueue", "claim", "complete"]
        assert reads.calls < 300
        assert reads.events < self.EVENTS

    def test_the_timeline_of_a_job_that_ran_long_after_it_was_created(self, queue):
        queue.enqueue(1, id="patient", max_attempts=2)
        self.fill(queue)
        queue.fail(queue.claim(1)[0], OSError("away"), delay=0)
        self.fill(queue)
        while not (jobs := queue.claim(1, wait=5)):
            pass
        queue.complete(jobs[0], None)

        found, complete = acts(queue, "patient")

        assert not complete
        assert [act for act in found if act != "promote"] == [
            "enqueue", "claim", "fail", "claim", "complete"
        ]  # fmt: skip

    def test_the_last_events(self, queue, monkeypatch):
        queue.enqueue(1, id="a")
        queue.complete(queue.claim(1)[0], None)
        reads = CountedReads(queue.store, monkeypatch)

        end = queue.store.info().cursor
        last = latest_events(partial(queue.store.events, queue.key), end, 3, list, math.inf)

        assert [event.act.value for event in last.events] == ["enqueue", "claim", "complete"]
        assert reads.calls < 100
        assert reads.events < self.EVENTS
