"""Batches larger than what fits on Lua's stack (about 8,000 values)."""

from __future__ import annotations

import random

import pytest
from tests.stores.redis.conftest import BEAT, BOOM, QUEUE, SOON, done, drafts, lapse, wants

from ackline.core.config import DEFAULTS
from ackline.core.job import Draft, Options, State
from ackline.core.lifecycle import cancel, fail, progress
from ackline.stores.contract import Filter, KeyWrite, LeaseExtension
from ackline.stores.redis import RedisStore

ALL, MANY = 20_000, 9_000


def counts(store: RedisStore) -> dict[State, int]:
    return {state: count for state, count in store.describe(None)[0].counts.items() if count}


@pytest.fixture
def waiting(timed):
    timed.enqueue(QUEUE, drafts(MANY))
    return timed


@pytest.fixture
def leased(waiting):
    return waiting, waiting.claim(QUEUE, wants(MANY)).jobs


def test_enqueue_claim_complete_and_prune_many(timed):
    receipts = timed.enqueue(QUEUE, drafts(ALL))
    assert sum(receipt.accepted for receipt in receipts) == ALL

    jobs = timed.claim(QUEUE, wants(MANY)).jobs
    assert [job.id for job in jobs] == [f"id{n}" for n in range(MANY)]

    verdicts = timed.apply(QUEUE, [done(job) for job in jobs])
    assert sum(verdict.applied for verdict in verdicts) == MANY
    assert counts(timed) == {State.QUEUED: ALL - MANY, State.COMPLETED: MANY}

    assert timed.purge(QUEUE, Filter(), ALL) == ALL
    assert counts(timed) == {}
    assert len(timed.events(QUEUE, None, 100_000)) == 2 * ALL + 2 * MANY


def test_enqueue_many_existing_jobs(waiting):
    receipts = waiting.enqueue(QUEUE, drafts(MANY))

    assert {(receipt.accepted, receipt.state) for receipt in receipts} == {(False, State.QUEUED)}


def test_enqueue_many_completed_jobs(leased):
    store, jobs = leased
    store.apply(QUEUE, [done(job, job.id.encode()) for job in jobs])

    receipts = store.enqueue(QUEUE, drafts(MANY))

    assert [receipt.result for receipt in receipts] == [job.id.encode() for job in jobs]


def test_enqueue_many_cancelled_jobs(waiting):
    waiting.apply(QUEUE, [cancel(f"id{n}", DEFAULTS) for n in range(MANY)])

    receipts = waiting.enqueue(QUEUE, drafts(MANY))

    assert all(receipt.accepted for receipt in receipts)
    assert counts(waiting) == {State.QUEUED: MANY}


def test_enqueue_many_different_jobs(timed):
    """Each with a kind, a priority and a delay of its own."""
    batch = [
        Draft(str(n), f"kind {n % 500}", b"", priority=n % 10, delay=float(n % 2) * 60)
        for n in range(MANY)
    ]

    timed.enqueue(QUEUE, batch)

    assert counts(timed) == {State.QUEUED: MANY // 2, State.SCHEDULED: MANY // 2}


def test_promote_many(timed, clock):
    timed.enqueue(QUEUE, [Draft(str(n), "mail", b"", delay=1.0) for n in range(MANY)])
    clock.advance(1.0)

    assert timed.promote(QUEUE, ALL) == MANY
    assert counts(timed) == {State.QUEUED: MANY}


@pytest.mark.parametrize("step", ["fail", "expire", "progress"])
def test_settle_many(leased, step):
    store, jobs = leased
    settle = {
        "fail": lambda job: fail(job, BOOM, DEFAULTS, random.Random(0), 1.0),
        "expire": lapse,
        "progress": lambda job: progress(job, b"half"),
    }[step]

    verdicts = store.apply(QUEUE, [settle(job) for job in jobs])

    assert sum(verdict.applied for verdict in verdicts) == MANY


def test_extend_many(leased, clock):
    store, jobs = leased
    clock.advance(20.0)

    reply = store.heartbeat(QUEUE, BEAT, [LeaseExtension(job.id, job.token, 30.0) for job in jobs])

    assert (reply.lost, reply.cancelled) == ([], [])
    assert store.get(QUEUE, ["id0"])[0].deadline == clock.now() + 30.0


def test_read_many(leased):
    store, jobs = leased

    assert len([job for job in store.get(QUEUE, [job.id for job in jobs]) if job]) == MANY
    assert len(store.leases(QUEUE, worker="w", limit=ALL)) == MANY
    assert store.workers([QUEUE])[0] == []


def test_prune_many(leased, clock):
    store, jobs = leased
    store.apply(QUEUE, [done(job) for job in jobs])
    clock.advance(2 * DEFAULTS.result_ttl)

    assert store.prune(QUEUE, ALL) == MANY
    assert counts(store) == {}


def test_park_many(timed):
    group = Options(group="g")
    timed.enqueue(QUEUE, [Draft(str(n), "mail", b"", options=group) for n in range(MANY)])

    [first] = timed.claim(QUEUE, wants(MANY)).jobs
    timed.apply(QUEUE, [done(first)])
    [second] = timed.claim(QUEUE, wants(MANY)).jobs

    assert (first.id, second.id) == ("0", "1")
    assert counts(timed) == {State.QUEUED: MANY - 2, State.PROCESSING: 1, State.COMPLETED: 1}


def test_many_groups(timed):
    batch = [Draft(str(n), "mail", b"", options=Options(group=str(n // 2))) for n in range(MANY)]
    timed.enqueue(QUEUE, batch)

    jobs = timed.claim(QUEUE, wants(MANY)).jobs
    timed.apply(QUEUE, [done(job) for job in jobs])

    assert len(jobs) == len(timed.claim(QUEUE, wants(MANY)).jobs) == MANY // 2


def test_large_payloads_take_several_claims(timed):
    """An answer of many megabytes would make all other clients wait."""
    count = 120
    timed.enqueue(QUEUE, [Draft(str(n), "mail", b"x" * 200_000) for n in range(count)])

    served = []
    with timed.listen([QUEUE], "ready") as listener:
        while jobs := timed.claim(QUEUE, wants(count)).jobs:
            assert len(jobs) < count
            served += [job.id for job in jobs]
            assert len(served) == count or listener.wait(SOON), "there is more, so come again"

    assert served == [str(n) for n in range(count)]
    timed.purge(QUEUE, Filter(), count)


def test_write_many_keys(timed):
    writes = [KeyWrite(key=("k", f"{n:05d}"), value=b"1") for n in range(MANY)]

    assert timed.write_keys("default", writes)
    assert len(timed.read_keys("default", ("k",), ALL)) == MANY
