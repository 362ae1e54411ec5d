"""Rule 4: sweepers need no lock, and a sweep that races an ack has one outcome."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest
from tests.stores.redis.conftest import QUEUE, done, drafts, lapse, wants

from ackline.events import Act
from ackline.job import Record, State
from ackline.lifecycle import Verdict
from ackline.stores.base import Filter
from ackline.stores.redis import RedisStore
from ackline.testing.legal import require_legal_chains

ROUNDS, JOBS = 20, 30


def at_once(*acts: Callable[[], list[Verdict]]) -> list[list[Verdict]]:
    """Do all of it at the same moment, each in a thread."""
    barrier = threading.Barrier(len(acts))
    answers: list[list[Verdict]] = [[] for _ in acts]

    def run(number: int) -> None:
        barrier.wait()
        answers[number] = acts[number]()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(acts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def sweep(store: RedisStore) -> list[Verdict]:
    """As the maintenance loop does: look, then expire what was seen."""
    return store.apply(QUEUE, [lapse(job) for job in store.leases(QUEUE)])


def complete_singly(store: RedisStore, jobs: list[Record]) -> list[Verdict]:
    return [store.apply(QUEUE, [done(job)])[0] for job in jobs]


def applied(answers: list[list[Verdict]]) -> int:
    return sum(verdict.applied for verdicts in answers for verdict in verdicts)


@pytest.fixture
def other(open_store, clock) -> RedisStore:
    """Another process's store, with connections of its own."""
    store: RedisStore = open_store(clock=clock)
    return store


def test_two_sweepers_expire_each_lease_once(timed, other, clock):
    timed.enqueue(QUEUE, drafts(JOBS))
    for turn in range(1, 3):
        assert len(timed.claim(QUEUE, wants(JOBS)).jobs) == JOBS
        clock.advance(30.0)

        answers = at_once(lambda: sweep(timed), lambda: sweep(other))

        assert applied(answers) == JOBS
        assert {job.attempts for job in timed.get(QUEUE, [f"id{n}" for n in range(JOBS)])} == {turn}
        assert timed.describe(None)[0].counts[State.QUEUED] == JOBS


def test_two_sweepers_many_times(timed, other, clock):
    for turn in range(ROUNDS):
        timed.enqueue(QUEUE, drafts(JOBS, start=turn * JOBS))
        timed.claim(QUEUE, wants(JOBS))
        clock.advance(30.0)
        assert applied(at_once(lambda: sweep(timed), lambda: sweep(other))) == JOBS
        for job in timed.claim(QUEUE, wants(JOBS)).jobs:
            timed.apply(QUEUE, [done(job)])

    events = timed.events(QUEUE, None, 100_000)
    require_legal_chains(events)
    told = Counter(event.act for event in events)
    assert told[Act.EXPIRE] == told[Act.COMPLETE] == ROUNDS * JOBS
    assert told[Act.CLAIM] == 2 * ROUNDS * JOBS


def test_a_sweep_that_races_an_ack(timed, other, clock):
    for turn in range(ROUNDS):
        timed.enqueue(QUEUE, drafts(JOBS, start=turn * JOBS))
        jobs = timed.claim(QUEUE, wants(JOBS)).jobs
        clock.advance(30.0)

        answers = at_once(partial(complete_singly, timed, jobs), partial(sweep, other))

        assert applied(answers) == JOBS
        acked = sum(verdict.applied for verdict in answers[0])
        counts = timed.describe(None)[0].counts
        assert (counts[State.COMPLETED], counts[State.QUEUED]) == (acked, JOBS - acked)
        timed.purge(QUEUE, Filter(), 10_000)
    require_legal_chains(timed.events(QUEUE, None, 100_000))


def test_a_sweep_by_a_claim_that_races_a_sweep(timed, other, clock):
    """Claims tell what has lapsed, and so everybody sweeps."""
    timed.enqueue(QUEUE, drafts(JOBS))
    timed.claim(QUEUE, wants(JOBS))
    clock.advance(30.0)

    def repair() -> list[Verdict]:
        lapsed = other.claim(QUEUE, wants(0)).lapsed
        verdicts: list[Verdict] = other.claim(QUEUE, wants(0), [*map(lapse, lapsed)]).verdicts
        return verdicts

    assert applied(at_once(repair, lambda: sweep(timed), repair)) == JOBS
