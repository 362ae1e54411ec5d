"""Rule 13: finished work leaves nothing behind, however much there was."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from tests.stores.redis.conftest import BEAT, BOOM, QUEUE, done, lapse, wants

from ackline.core.config import DEFAULTS, QueueSettings
from ackline.core.job import Draft, Options, QueueKey, Record
from ackline.core.lifecycle import Transition, cancel, fail, progress, redrive, release, snooze
from ackline.stores.contract import Filter, KeyWrite
from ackline.stores.redis import RedisStore
from ackline.stores.redis.scripts import Scripts

PAYLOAD = 100
BYTES_PER_JOB = 500
"""The most memory for a queued job with this payload, including its journal entry."""

LASTING = {"queue", "counts", "journal", "kinds"}
"""Keys of a queue without jobs."""

LONG = 366 * 86400.0


def keys_of(client: Any, prefix: str) -> dict[str, int]:
    """The keys of the queue, each with its size."""
    base = f"{prefix}:{{default/mail}}:"
    return {key.removeprefix(base): size_of(client, key) for key in client.keys(f"{base}*")}


def size_of(client: Any, key: str) -> int:
    match client.type(key):
        case "hash":
            return int(client.hlen(key))
        case "set":
            return int(client.scard(key))
        case "zset":
            return int(client.zcard(key))
        case "list":
            return int(client.llen(key))
        case "stream":
            return int(client.xlen(key))
        case other:
            raise AssertionError(f"{key} is a {other}")


def again(job: Record) -> Transition:
    return fail(job, BOOM, DEFAULTS, random.Random(0), 1.0)


def back(job: Record) -> Transition:
    return release(job, DEFAULTS)


def later(job: Record) -> Transition:
    return snooze(job, 1.0, DEFAULTS)


ENDS: list[Callable[[Record], Transition]] = [done, back, lapse, again, later]


def run_varied_jobs(store: RedisStore, clock, generation: int, *, all_kinds: bool = True) -> None:
    """Jobs of ten kinds and groups with many workers, with every outcome."""
    chance = random.Random(generation)
    names = [f"{generation}-{n}" for n in range(10)]
    options = [Options(group=f"group {name}", max_attempts=2) for name in names]
    store.enqueue(
        QUEUE,
        [
            Draft(f"{name}-{n}", f"kind {name}", b"x", options=option, delay=float(n % 2))
            for name, option in zip(names, options, strict=True)
            for n in range(5)
        ],
    )
    wanted = None if all_kinds else frozenset(f"kind {name}" for name in names)
    store.apply(QUEUE, [cancel(f"{names[0]}-{n}", DEFAULTS) for n in range(3)])
    for turn in range(60):
        clock.advance(1.0)
        worker = f"worker {generation}-{turn}"
        store.heartbeat(QUEUE, msgspec.structs.replace(BEAT, id=worker), [])
        for job in store.claim(QUEUE, wants(7, worker=worker, kinds=wanted)).jobs:
            store.apply(QUEUE, [progress(job, b"half")])
            step = chance.choice(ENDS)(job)
            store.apply(QUEUE, [step])
    dead = store.page(QUEUE, Filter(), None, 1000).jobs
    store.apply(QUEUE, [redrive(job.id) for job in dead[:3]])


def finish(store: RedisStore, clock, kinds: frozenset[str] | None = None) -> None:
    """Process what is left, and let its retention pass."""
    clock.advance(100.0)
    while jobs := store.claim(QUEUE, wants(100, kinds=kinds)).jobs:
        store.apply(QUEUE, [done(job) for job in jobs])
    clock.advance(LONG)
    while store.prune(QUEUE, 1000):
        pass


def test_nothing_is_left_of_pruned_jobs(timed, clock, client, prefix):
    run_varied_jobs(timed, clock, 0)
    assert {"job", "state", "history:0-1-0"} <= keys_of(client, prefix).keys()

    finish(timed, clock)

    assert keys_of(client, prefix).keys() <= LASTING
    assert set(timed.describe(None)[0].counts.values()) == {0}


def test_nothing_is_left_of_purged_jobs(timed, clock, client, prefix):
    run_varied_jobs(timed, clock, 0)

    while timed.purge(QUEUE, Filter(), 1000):
        pass
    clock.advance(LONG)
    timed.prune(QUEUE, 1000)

    assert keys_of(client, prefix).keys() <= LASTING


def test_nothing_is_left_of_past_kinds_groups_and_workers(timed, clock, client, prefix):
    sizes = []
    for generation in range(3):
        run_varied_jobs(timed, clock, generation)
        finish(timed, clock)
        sizes.append(keys_of(client, prefix))

    assert sizes[0] == sizes[1] == sizes[2]


def test_nothing_is_left_of_kinds_that_only_their_own_workers_claimed(timed, clock, client, prefix):
    """Workers mostly claim only the kinds for which they have handlers."""
    sizes = []
    for generation in range(3):
        kinds = frozenset(f"kind {generation}-{n}" for n in range(10))
        run_varied_jobs(timed, clock, generation, all_kinds=False)
        finish(timed, clock, kinds)
        sizes.append(keys_of(client, prefix))

    assert sizes[0] == sizes[1] == sizes[2]


@pytest.mark.parametrize("bound", ["age", "size"])
def test_the_journal_is_bounded(timed, clock, client, prefix, bound):
    settings = {"age": QueueSettings(keep_journal=60.0), "size": QueueSettings(max_journal=10)}
    timed.configure(QUEUE, settings[bound])
    for n in range(100):
        timed.enqueue(QUEUE, [Draft(str(n), "mail", b"")])
        clock.advance(10.0)
    timed.prune(QUEUE, 10)

    assert keys_of(client, prefix)["journal"] <= 10


def test_a_long_journal_is_trimmed_in_one_prune(timed, clock, client, prefix):
    """However many batches it has."""
    timed.configure(QUEUE, QueueSettings(keep_journal=60.0))
    for n in range(1500):
        timed.enqueue(QUEUE, [Draft(str(n), "mail", b"")])
    clock.advance(61.0)

    timed.prune(QUEUE, 10)

    assert timed.events(QUEUE, None, 10) == []
    assert client.xlen(f"{prefix}:{{default/mail}}:journal") == 0


def test_keys_written_and_deleted_leave_nothing(timed, client, prefix):
    for n in range(50):
        timed.write_keys("default", [KeyWrite(key=("k", str(n)), value=b"1")])
    timed.write_keys("default", [KeyWrite(key=("k", str(n)), value=None) for n in range(50)])

    assert client.keys(f"{prefix}:{{default}}*") == [f"{prefix}:{{default}}:version"]


@pytest.mark.parametrize("batch", [1, 500])
def test_a_waiting_job_takes_little_memory(store, client, batch):
    count = 5000 if batch > 1 else 1000
    store.enqueue(QUEUE, [Draft("first", "mail", b"x" * PAYLOAD)])
    before = client.info("memory")["used_memory"]

    for start in range(0, count, batch):
        store.enqueue(
            QUEUE,
            [Draft(f"{n:026d}", "mail", b"x" * PAYLOAD) for n in range(start, start + batch)],
        )

    after = client.info("memory")["used_memory"]
    assert (after - before) / count < BYTES_PER_JOB


@pytest.mark.parametrize("queue", [QUEUE, None])
def test_a_few_events_are_read_without_the_whole_journal(store, client, prefix, queue):
    """However large the batches are."""
    for batch in range(20):
        store.enqueue(QUEUE, [Draft(f"{batch}-{n}", "mail", b"") for n in range(2000)])
    before = client.info("stats")["total_net_output_bytes"]

    assert len(store.events(queue, None, 10)) == 10

    whole = client.memory_usage(f"{prefix}:{{default/mail}}:journal", samples=0)
    assert client.info("stats")["total_net_output_bytes"] - before < whole / 4


def test_raising_the_group_limit_blocks_nobody_for_long(store, monkeypatch):
    groups = [f"group {n}" for n in range(35)]
    store.configure(QUEUE, QueueSettings(group_limit=1))
    store.enqueue(
        QUEUE,
        [
            Draft(f"{group}-{n}", "mail", b"x", options=Options(group=group))
            for group in groups
            for n in range(3)
        ],
    )
    assert len(store.claim(QUEUE, wants(200)).jobs) == len(groups)
    at_once: list[int] = []
    unpark_groups = Scripts.unpark_groups

    def noting(calls: Scripts, queue: QueueKey, groups: Sequence[bytes]) -> None:
        at_once.append(len(groups))
        unpark_groups(calls, queue, groups)

    monkeypatch.setattr(Scripts, "unpark_groups", noting)

    store.configure(QUEUE, QueueSettings(group_limit=2))

    assert at_once == [10, 10, 10, 5]
    assert len(store.claim(QUEUE, wants(200)).jobs) == len(groups)
    assert store.claim(QUEUE, wants(200)).jobs == []
