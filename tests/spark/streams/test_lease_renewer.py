"""The thread that keeps a stream's leases: what it says is lost is lost."""

from __future__ import annotations

import logging
import threading

import pytest

from ackline.core.errors import InvalidOption, StoreUnavailable
from ackline.core.job import QueueKey
from ackline.spark.streams.claims import lease_renewer as renewer_module
from ackline.spark.streams.claims.lease_renewer import LeaseRenewer


class Meanwhile:
    """A store in which something happens just before the leases are extended."""

    def __init__(self, store, happens):
        self._store = store
        self._happens = happens

    def __getattr__(self, name):
        return getattr(self._store, name)

    def heartbeat(self, *arguments):
        self._happens()
        return self._store.heartbeat(*arguments)


def renewer_of(store, key):
    return LeaseRenewer(store, key, "spark s", 60.0, lambda: False)


def leases(jobs):
    return [(job.id, job.record.token) for job in jobs]


@pytest.mark.parametrize("outcome", ["complete", "fail", "cancel"])
def test_what_was_settled_by_others_is_not_called_lost(queues, caplog, outcome):
    """As the executors do that write outcomes."""
    queue = queues["email"]
    queue.enqueue(1)
    [job] = queue.claim(1)
    renewer = renewer_of(queues.store, queue.key)
    renewer.add(leases([job]))
    match outcome:
        case "complete":
            queue.complete(job)
        case "fail":
            queue.fail(job, "no such address")
        case _:
            queue.release(job)
            queue.cancel(job.id)

    with caplog.at_level(logging.WARNING, "ackline"):
        renewer.heartbeat()

    assert caplog.text == ""
    assert not renewer.has_all(leases([job]))


def test_what_is_settled_meanwhile_is_not_called_lost(queues, caplog):
    queue = queues["email"]
    queue.enqueue_many(range(2))
    done, expired = queue.claim(2)

    def settle():
        queue.complete(done)
        renewer.remove(leases([done]))
        queue.release(expired)

    renewer = renewer_of(Meanwhile(queues.store, settle), queue.key)
    renewer.add(leases([done, expired]))

    with caplog.at_level(logging.WARNING, "ackline"):
        renewer.heartbeat()

    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "1 leases of 'spark s' are lost; their jobs will be delivered again"
    ]


@pytest.mark.parametrize("error", [StoreUnavailable("away"), InvalidOption("said a proxy, once")])
def test_it_goes_on_whatever_a_store_answers(queues, caplog, monkeypatch, error):
    monkeypatch.setattr(renewer_module, "MAX_INTERVAL", 0.001)
    queue = queues["email"]
    queue.enqueue(1)
    claimed, beats = leases(queue.claim(1)), list[int]()
    kept = threading.Event()

    def fail_once():
        beats.append(len(beats))
        if len(beats) == 1:
            raise error
        kept.set()

    renewer = renewer_of(Meanwhile(queues.store, fail_once), queue.key)
    renewer.add(claimed)
    renewer.start()
    assert kept.wait(10)
    renewer.stop()

    assert str(error) in caplog.text


def test_a_sign_of_life_does_not_make_a_queue(queues):
    renewer_of(queues.store, QueueKey("default", "emial")).heartbeat()

    assert list(queues) == []
