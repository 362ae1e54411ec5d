"""Dropping a queue: what belongs to it goes, what was accepted in between stays."""

from __future__ import annotations

import pytest

import ackline
from ackline.core.errors import QueueNotEmpty
from ackline.core.events import Act
from ackline.core.job import State
from ackline.core.limits import RESERVED_KEY_PREFIX
from ackline.stores.contract import KeyWrite


@pytest.fixture
def queue():
    with ackline.open("memory://") as queues:
        yield queues["email"]


def note(queue, *key):
    queue.store.write_keys("default", [KeyWrite(key=key, value=b"1")])


def test_finished_jobs_go_with_it(queue):
    queue.enqueue(1, id="a")
    [job] = queue.claim()
    queue.complete(job)

    assert queue.drop(by="me") == 1

    assert queue.status("a") is None
    assert [event.act for event in queue.events()][-2:] == [Act.PURGE, Act.DROP]


@pytest.mark.parametrize("options", [{}, {"delay": 60}])
def test_jobs_that_wait_keep_it(queue, options):
    queue.configure(max_jobs=9)
    queue.enqueue(1, id="a", **options)

    with pytest.raises(QueueNotEmpty) as kept:
        queue.drop()

    assert kept.value.live == 1
    assert queue.status("a") is not None
    assert queue.settings().max_jobs == 9


@pytest.mark.every_store
def test_force_takes_them_all(queue):
    queue.enqueue(1)
    queue.enqueue(1, delay=60)
    queue.claim()

    assert queue.drop(force=True) == 2

    assert queue.counts() == dict.fromkeys(State, 0)


def test_only_its_own_notes_go(queue):
    entries = [(section, name) for section in ("schedules", "cron") for name in ("email", "email2")]
    for section, name in entries:
        note(queue, RESERVED_KEY_PREFIX, section, name, "nightly")
    note(queue, "mine", "email")
    note(queue, RESERVED_KEY_PREFIX, "readers", "email", "audit")
    queue.enqueue(1)

    queue.drop(force=True)

    left = {entry.key for entry in queue.store.read_keys("default", (), 100)}
    assert left == {
        (RESERVED_KEY_PREFIX, "schedules", "email2", "nightly"),
        (RESERVED_KEY_PREFIX, "cron", "email2", "nightly"),
        (RESERVED_KEY_PREFIX, "readers", "email", "audit"),
        ("mine", "email"),
    }


def test_a_refusal_leaves_the_notes(queue):
    note(queue, RESERVED_KEY_PREFIX, "schedules", "email", "nightly")
    queue.enqueue(1)

    with pytest.raises(QueueNotEmpty):
        queue.drop()

    assert queue.store.read_keys("default", (RESERVED_KEY_PREFIX,), 10)


@pytest.mark.every_store
def test_a_job_that_comes_in_between_is_not_taken_along(queue, monkeypatch):
    queue.enqueue(1, id="done")
    [job] = queue.claim()
    queue.complete(job)
    purge = queue.store.purge

    def purge_while_enqueueing(*arguments):
        deleted = purge(*arguments)
        if deleted:
            queue.enqueue(2, id="late")
        return deleted

    monkeypatch.setattr(queue.store, "purge", purge_while_enqueueing)

    with pytest.raises(QueueNotEmpty):
        queue.drop()

    assert queue.status("late").state is State.QUEUED


def test_an_empty_or_unknown_queue_is_dropped_without_ado(queue):
    assert queue.drop() == 0
    queue.configure(paused=True)
    assert queue.drop() == 0
    assert not queue.settings().paused
