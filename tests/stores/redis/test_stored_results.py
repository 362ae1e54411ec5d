"""Short results are stored in the state of their job, others in a hash of their own."""

from __future__ import annotations

import msgspec
import pytest
import redis
from tests.stores.redis.conftest import QUEUE, done, wants

from ackline.core.job import Draft, QueueKey, Record
from ackline.core.lifecycle import Edit, edit, move
from ackline.stores.contract import Filter
from ackline.stores.redis import RedisStore

SIZES = [0, 1, 64, 65, 5000]
RESULTS = {str(size): b"r" * size for size in SIZES}
LONG = {id for id, result in RESULTS.items() if len(result) > 64}

ELSEWHERE = msgspec.structs.replace(QUEUE, name="archive")


@pytest.fixture(params=["together", "one by one"])
def completed(store: RedisStore, request: pytest.FixtureRequest) -> list[Record]:
    """A job for each result, as it was leased."""
    store.enqueue(QUEUE, [Draft(id, "mail", b"{}") for id in RESULTS])
    jobs = store.claim(QUEUE, wants(100)).jobs
    steps = [done(job, RESULTS[job.id]) for job in jobs]
    for batch in [steps] if request.param == "together" else [[step] for step in steps]:
        assert all(verdict.applied for verdict in store.apply(QUEUE, batch))
    return jobs


def results(store: RedisStore, queue: QueueKey = QUEUE) -> dict[str, bytes | None]:
    return {job.id: job.result for job in store.get(queue, [*RESULTS]) if job is not None}


def kept_apart(client: redis.Redis, prefix: str, queue: QueueKey = QUEUE) -> set[bytes | str]:
    return set(client.hkeys(f"{prefix}:{{{queue.tenant}/{queue.name}}}:result"))


@pytest.mark.usefixtures("completed")
def test_only_a_long_result_has_a_field_of_its_own(
    store: RedisStore, client: redis.Redis, prefix: str
) -> None:
    assert results(store) == RESULTS
    assert kept_apart(client, prefix) == LONG


@pytest.mark.usefixtures("completed")
def test_enqueuing_the_id_again_returns_the_result(store: RedisStore) -> None:
    receipts = store.enqueue(QUEUE, [Draft(id, "mail", b"{}") for id in RESULTS])

    assert {receipt.id: receipt.result for receipt in receipts} == RESULTS


def test_a_repeated_completion_is_compared_with_the_result(
    store: RedisStore, completed: list[Record]
) -> None:
    same = store.apply(QUEUE, [done(job, RESULTS[job.id]) for job in completed])
    other = store.apply(QUEUE, [done(job, RESULTS[job.id] + b"!") for job in completed])

    assert all(verdict.applied for verdict in same)
    assert not any(verdict.applied for verdict in other)


@pytest.mark.usefixtures("completed")
def test_a_result_survives_a_change_of_how_long_it_is_kept(store: RedisStore) -> None:
    store.apply(QUEUE, [edit(id, Edit(keep=5000.0)) for id in RESULTS])

    assert results(store) == RESULTS


@pytest.mark.usefixtures("completed")
def test_a_moved_job_takes_its_result_along(
    store: RedisStore, client: redis.Redis, prefix: str
) -> None:
    verdicts = store.apply(QUEUE, [move(id, ELSEWHERE) for id in RESULTS])

    assert all(verdict.applied for verdict in verdicts)
    assert results(store, ELSEWHERE) == RESULTS
    assert kept_apart(client, prefix) == set()
    assert kept_apart(client, prefix, ELSEWHERE) == LONG


@pytest.mark.usefixtures("completed")
def test_a_purge_leaves_no_result_behind(
    store: RedisStore, client: redis.Redis, prefix: str
) -> None:
    store.purge(QUEUE, Filter(), 100)

    assert results(store) == {}
    assert kept_apart(client, prefix) == set()
