"""A server without free memory accepts no jobs, but can always be emptied."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
import pytest
from tests.harness.servers.redis import RedisServer
from tests.stores.redis.conftest import BEAT, BOOM, QUEUE, SOON, done, drafts, wants

from ackline.core.config import DEFAULTS
from ackline.core.errors import StoreFull
from ackline.core.job import Draft, Record, State
from ackline.core.lifecycle import (
    Edit,
    bury,
    cancel,
    cancel_running,
    edit,
    expire,
    extend,
    fail,
    progress,
    release,
    request_cancel,
    snooze,
)
from ackline.stores.contract import Filter, KeyWrite, LeaseExtension
from ackline.stores.redis import RedisStore


@pytest.fixture
def store(timed):
    return timed


@pytest.fixture
def job(store, clock):
    """A leased job; others are queued, and one is due."""
    store.enqueue(QUEUE, [*drafts(10), Draft("due", "mail", b"", delay=1.0)])
    [job] = store.claim(QUEUE, wants(1)).jobs
    clock.advance(1.0)
    return job


@pytest.fixture
def full(job, client):
    """From now on, the server has no free memory."""
    client.config_set("maxmemory", 1)
    yield
    client.config_set("maxmemory", 0)


def opened_again(store: RedisStore) -> bool:
    store.close()
    store.open()
    return True


STEPS = {
    "complete": done,
    "fail": lambda job: fail(job, BOOM, DEFAULTS, random.Random(0)),
    "bury": lambda job: bury(job, BOOM, DEFAULTS),
    "snooze": lambda job: snooze(job, 60.0, DEFAULTS),
    "release": lambda job: release(job, DEFAULTS),
    "stop": lambda job: cancel_running(job, "enough", DEFAULTS),
    "extend": lambda job: extend(job, 60.0),
    "expire": lambda job: expire(job, DEFAULTS),
    "progress": lambda job: progress(job, b"half"),
    "request_cancel": lambda job: request_cancel(job.id),
    "cancel": lambda _job: cancel("id5", DEFAULTS),
    "edit": lambda _job: edit("id5", Edit(priority=9)),
}

VERBS: dict[str, Callable[[RedisStore, Record], object]] = {
    "claim": lambda store, _: len(store.claim(QUEUE, wants(3)).jobs) == 3,
    "settle and claim": lambda store, job: store.claim(QUEUE, wants(3), [done(job)]).verdicts,
    "heartbeat": lambda store, job: (
        store.heartbeat(QUEUE, BEAT, [LeaseExtension(job.id, job.token, 60.0)]).lost == []
    ),
    "promote": lambda store, _: store.promote(QUEUE, 10) == 1,
    "purge": lambda store, _: store.purge(QUEUE, Filter(), 100) == 11,
    "drop a key": lambda store, _: store.write_keys("default", [KeyWrite(key=("a",), value=None)]),
    "write a note of Ackline's own": lambda store, _: store.write_keys(
        "default", [KeyWrite(key=("ackline", "spark"), value=b"1")]
    ),
    "look": lambda store, _: len(store.page(QUEUE, Filter(), None, 100).jobs) == 11,
    "open again": lambda store, _: opened_again(store),
}


@pytest.mark.usefixtures("full")
class TestFull:
    def test_enqueue_is_refused_and_nothing_is_stored(self, store):
        before = store.describe(None), store.events(QUEUE, None, 100)

        with pytest.raises(StoreFull, match="maxmemory"):
            store.enqueue(QUEUE, drafts(5, start=100))

        assert (store.describe(None), store.events(QUEUE, None, 100)) == before
        assert store.get(QUEUE, ["id100"]) == [None]

    def test_a_repeated_enqueue_is_answered(self, store, job):
        store.apply(QUEUE, [done(job, b"1")])

        receipts = store.enqueue(QUEUE, drafts(10))

        assert [receipt.accepted for receipt in receipts] == [False] * 10
        assert {receipt.id: receipt.result for receipt in receipts}[job.id] == b"1"

    def test_a_new_queue_is_refused(self, store):
        with pytest.raises(StoreFull):
            store.enqueue(msgspec.structs.replace(QUEUE, name="new"), drafts(1))

        assert [queue.key for queue in store.describe(None)] == [QUEUE]

    def test_a_new_key_is_refused(self, store):
        own = KeyWrite(key=("ackline", "spark"), value=b"1")
        with pytest.raises(StoreFull):
            store.write_keys("default", [own, KeyWrite(key=("a",), value=b"1")])

        assert store.read_keys("default", (), 10) == []

    @pytest.mark.parametrize("step", STEPS)
    def test_a_job_can_still_be_settled(self, store, job, step):
        [verdict] = store.apply(QUEUE, [STEPS[step](job)])

        assert verdict.applied

    @pytest.mark.parametrize("verb", VERBS)
    def test_a_verb_still_works(self, store, job, verb):
        assert VERBS[verb](store, job)

    def test_expired_jobs_can_still_be_pruned(self, store, job):
        store.apply(QUEUE, [msgspec.structs.replace(done(job), keep=0.0)])

        assert store.prune(QUEUE, 10) == 1

    @pytest.mark.parametrize(
        ("topic", "step"),
        [("ready", "release"), ("changes", "release"), ("cancel_requests", "request_cancel")],
    )
    def test_a_worker_can_still_listen(self, store, job, topic, step):
        """Otherwise nobody could empty it."""
        with store.listen([QUEUE], topic) as listener:
            store.apply(QUEUE, [STEPS[step](job)])

            assert listener.wait(SOON)

    def test_enqueue_works_again_when_there_is_memory(self, store, client):
        with pytest.raises(StoreFull):
            store.enqueue(QUEUE, drafts(1, start=100))

        client.config_set("maxmemory", 0)

        assert store.enqueue(QUEUE, drafts(1, start=100))[0].accepted


def test_a_server_that_fills_up_can_be_worked_off(open_store):
    """From the first refusal until it accepts jobs again."""
    with RedisServer(maxmemory=4_000_000) as small:
        store = open_store(small.url)
        accepted = fill(store)
        finished = 0
        while jobs := store.claim(QUEUE, wants(50)).jobs:
            done_now = [msgspec.structs.replace(done(job, None), keep=0.0) for job in jobs]
            finished += sum(verdict.applied for verdict in store.apply(QUEUE, done_now))
            store.prune(QUEUE, 100)

        assert finished == accepted > 100
        assert store.enqueue(QUEUE, drafts(1, size=10_000))[0].accepted
        assert store.describe(None)[0].counts[State.QUEUED] == 1


def fill(store: RedisStore) -> int:
    for n in range(1000):
        try:
            store.enqueue(QUEUE, drafts(1, start=n, size=10_000))
        except StoreFull:
            return n
    raise AssertionError("10 MB went into 4 MB")
