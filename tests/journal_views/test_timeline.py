"""The timeline of a job, however long the journal before it is."""

from __future__ import annotations

import pytest

from ackline.core.clock import ManualClock
from ackline.core.job import State
from ackline.journal_views import timeline as module
from ackline.journal_views.timeline import PAGE, timeline
from ackline.queues import Queues
from ackline.stores.memory import MemoryStore


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
