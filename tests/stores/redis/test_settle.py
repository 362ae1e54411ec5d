"""Completions of several claims in one call."""

from __future__ import annotations

import tracemalloc
from typing import Any

import msgspec
from tests.stores.redis.conftest import QUEUE, done, drafts, lapse, wants

from ackline.core.config import DEFAULTS
from ackline.core.job import QueueKey, State
from ackline.core.lifecycle import (
    Edit,
    Verdict,
    cancel,
    edit,
    extend,
    find_destination,
    may_apply,
    move,
    redrive,
    release,
    snooze,
)
from ackline.stores.redis import RedisStore
from ackline.stores.redis.encode_transitions import TransitionEncoder
from ackline.stores.redis.key_names import KeyNames
from ackline.stores.shared.record_encoding import STATE_CODES, STATES_BY_CODE

APPLIED = Verdict(True, State.COMPLETED)


def test_each_claim_is_settled_by_its_own_token(store: RedisStore) -> None:
    store.enqueue(QUEUE, drafts(6))
    claims = [store.claim(QUEUE, wants(2, worker)).jobs for worker in ("w1", "w2", "w3")]
    jobs = [job for pair in zip(*claims, strict=True) for job in pair]

    verdicts = store.apply(QUEUE, [done(job, job.id.encode()) for job in jobs])

    assert verdicts == [APPLIED] * 6
    found = [job for job in store.get(QUEUE, [job.id for job in jobs]) if job is not None]
    assert [(job.result, job.worker) for job in found] == [
        (job.id.encode(), job.worker) for job in jobs
    ]
    assert store.describe("default", "mail")[0].counts[State.COMPLETED] == 6


def test_a_stale_lease_is_refused_next_to_a_live_one(store: RedisStore) -> None:
    store.enqueue(QUEUE, drafts(2))
    stale, other = store.claim(QUEUE, wants(2, "slow")).jobs
    store.apply(QUEUE, [lapse(stale)])
    store.promote(QUEUE, 10)
    [live] = [job for job in store.claim(QUEUE, wants(2, "quick")).jobs if job.id == stale.id]

    verdicts = store.apply(QUEUE, [done(stale, b"old"), done(other), done(live, b"new")])

    assert verdicts == [Verdict(False, State.PROCESSING), APPLIED, APPLIED]
    [found] = store.get(QUEUE, [stale.id])
    assert found is not None
    assert (found.result, found.worker) == (b"new", "quick")


def test_a_repeated_completion_in_another_batch_is_applied(store: RedisStore) -> None:
    store.enqueue(QUEUE, drafts(4))
    first, second = (store.claim(QUEUE, wants(2)).jobs for _ in range(2))
    store.apply(QUEUE, [done(first[0]), done(second[1])])

    again = store.apply(QUEUE, [done(job) for job in (*first, *second)])

    assert again == [APPLIED] * 4


def test_edited_payloads_are_not_cached() -> None:
    encoder = TransitionEncoder(KeyNames("test"), QUEUE)
    tracemalloc.start()
    for n in range(50):
        assert [*encoder.pack([edit("id0", Edit(payload=b"%09d" % n * 10_000, priority=n % 10))])]

    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1_000_000


class EncodedTransition(msgspec.Struct):
    destinations: list[Any]


def test_the_encoded_destinations_are_those_of_the_lifecycle(store: RedisStore) -> None:
    """They are cached, so nothing else of a transition may make a difference."""
    store.enqueue(QUEUE, drafts(1))
    [job] = store.claim(QUEUE, wants(1)).jobs
    transitions = [
        done(job),
        lapse(job),
        release(job, DEFAULTS),
        snooze(job, 3.0, DEFAULTS),
        extend(job, 4.0),
        cancel("id0", DEFAULTS),
        redrive("id0", delay=2.0),
        edit("id0", Edit(payload=b"2", priority=9, delay=7.0)),
        edit("id0", Edit(keep=8.0)),
        move("id0", QueueKey("default", "other")),
    ]
    for transition in transitions:
        packed, *_ = TransitionEncoder(KeyNames("test"), QUEUE).pack([transition])
        assert isinstance(packed, bytes)
        encoded = msgspec.msgpack.decode(packed, type=EncodedTransition)
        for state, destination in zip(STATES_BY_CODE, encoded.destinations, strict=True):
            if destination is False:
                assert not may_apply(transition, state)
            else:
                expected = find_destination(transition, state, False)
                code = STATE_CODES[expected.state]
                assert destination == [code, expected.position_rule, expected.seconds]
