"""What was written broken into the store harms nobody else: it is passed over, and said once."""

from __future__ import annotations

import logging

import pytest

from ackline.clock import ManualClock
from ackline.cron import Schedule
from ackline.job import QueueKey
from ackline.maintenance import Pruner
from ackline.queue.recovery import Way
from ackline.queues import Queues
from ackline.service import Settings, schedules
from ackline.service.caretaker import Census
from ackline.service.survey import Survey
from ackline.service.webhooks import delivery
from ackline.service.webhooks.dispatcher import Dispatcher
from ackline.stores.base import KeyWrite
from ackline.stores.memory import MemoryStore

GARBAGE = b"garbage"
ACME, BETA = QueueKey("acme", "mail"), QueueKey("beta", "mail")


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def store(clock):
    store = MemoryStore(clock)
    store.open()
    for key in (ACME, BETA):
        Queues(store, key.tenant)[key.name].enqueue(0, id="first", delay=86400)
    return store


def queue_of(store, key):
    return Queues(store, key.tenant)[key.name]


def spoil(store, tenant, *key, value=GARBAGE):
    assert store.write_keys(tenant, [KeyWrite(key=("ackline", *key), value=value)])


def warnings(caplog):
    return [record for record in caplog.records if record.levelno >= logging.WARNING]


class TestSchedules:
    TICK = Schedule("tick", "* * * * *", payload="tick")

    @pytest.fixture
    def census(self, store):
        return Census(store, Survey(store, Settings()), [])

    @pytest.mark.parametrize(
        "key",
        [
            ("schedules",),
            ("schedules", "mail"),
            ("schedules", "mail", "tick", "more"),
            ("schedules", "mail", "broken"),
            ("cron", "mail", "tick"),
        ],
    )
    def test_all_others_fire(self, store, clock, census, caplog, key):
        for queue in (ACME, BETA):
            schedules.write(store, queue, self.TICK)
        spoil(store, "acme", *key)

        for _ in range(3):
            census.step()
            clock.advance(60)
        census.step()

        for queue in (ACME, BETA):
            assert len(queue_of(store, queue).jobs(states=["queued"]).jobs) == 3
        assert len(warnings(caplog)) == 1
        assert census.stats().failures == 0

    def test_those_that_can_be_read_are_listed(self, store):
        schedules.write(store, ACME, self.TICK)
        spoil(store, "acme", "schedules", "mail", "broken")

        assert schedules.read_all(store, ACME) == [self.TICK]
        assert schedules.find(store, ACME, "broken")[0] is None


def end_one(queue, id):
    queue.enqueue(1, id=id, callback_url="https://example.com/")
    queue.complete(queue.claim(1)[0], "done")


class TestCallbacks:
    def test_a_broken_note_keeps_no_callback_back(self, store, caplog):
        for key in (ACME, BETA):
            end_one(queue_of(store, key), "a")
        spoil(store, "acme", "callbacks", "a", value=b"\xff")
        spoil(store, "acme", "callbacks", "b")
        dispatcher = Dispatcher(store)
        dispatcher.queues = (queue_of(store, ACME), queue_of(store, BETA))

        dispatcher.step()
        dispatcher._callbacks.clear()
        dispatcher._asked_at.clear()
        dispatcher.step()

        told = {job.payload.tenant for job in delivery.open_queue(store).jobs().jobs}
        assert told == {"acme", "beta"}
        assert len(warnings(caplog)) == 2

    @pytest.mark.parametrize(
        "place", [GARBAGE, b'{"cursor":"9999999.0","at":0.0,"by":"x"}', b'{"cursor":"x","at":0.0}']
    )
    def test_a_place_that_cannot_be_is_given_up(self, store, caplog, place):
        end_one(queue_of(store, ACME), "before")
        first = Dispatcher(store)
        first.queues = (queue_of(store, ACME),)
        first.step()
        spoil(store, "acme", "readers", "mail", "webhooks", value=place)
        end_one(queue_of(store, ACME), "after")
        second = Dispatcher(store)
        second.queues = (queue_of(store, ACME),)

        for dispatcher in (second, first, second, first):
            dispatcher.step()
        end_one(queue_of(store, ACME), "later")
        first.step()

        told = [bytes(job.payload.body) for job in delivery.open_queue(store).jobs().jobs]
        assert len(told) == 3
        assert all(
            any(f'"{id}"'.encode() in body for body in told) for id in ("before", "after", "later")
        )
        assert warnings(caplog)


class TestReaders:
    def test_a_broken_place_keeps_no_journal_from_being_pruned(self, store, caplog):
        spoil(store, "acme", "readers", "mail", "audit")
        queue = queue_of(store, ACME)
        pruner = Pruner([queue, queue_of(store, BETA)], 30.0)

        pruner.step()
        pruner.step()

        assert queue.readers() == []
        assert len(warnings(caplog)) == 2  # one by the pruner, one for who asked

    def test_a_reader_without_a_readable_place_begins_anew(self, store, caplog):
        spoil(store, "acme", "readers", "mail", "audit")
        reader = queue_of(store, ACME).reader("audit")

        assert [event.id for event in reader.read()] == ["first"]
        reader.save()

        assert [info.name for info in queue_of(store, ACME).readers()] == ["audit"]
        assert queue_of(store, ACME).reader("audit").read() == []
        assert len(warnings(caplog)) == 1


class TestRecovered:
    HUGE = b'{"sweep":{"jobs":1' + 400 * b"0" + b',"dead_lettered":0,"last_at":0.0}}'

    @pytest.mark.parametrize("value", [GARBAGE, HUGE])
    def test_the_figures_of_all_others_are_told(self, api, runtime, caplog, value):
        api.enqueue(1)
        expire_one(queue_of(runtime.store, BETA))
        spoil(runtime.store, "default", "recovered", "default", value=value)

        told = [api.client.get("/metrics") for _ in range(3)]

        assert {answer.status_code for answer in told} == {200}
        assert 'expired_leases_total{queue="mail",tenant="beta",way="sweep"} 1.0' in told[-1].text
        assert 'ackline_jobs{queue="default",state="queued",tenant="default"} 1.0' in told[-1].text
        assert len(warnings(caplog)) == 1

    def test_jobs_are_taken_back_and_counted_anew(self, store):
        spoil(store, "acme", "recovered", "mail")

        expire_one(queue_of(store, ACME))

        assert queue_of(store, ACME).recovery().jobs == 1


def expire_one(queue):
    queue.enqueue(1, id="lost")
    [verdict] = queue.expire([job.record for job in queue.claim(1)], way=Way.SWEEP)
    assert verdict.applied
