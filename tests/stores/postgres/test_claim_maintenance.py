"""Errors after the commit of a claim lose none of its jobs."""

import random
import string
import time
from typing import Any

import pytest
from tests.stores.postgres.conftest import OpenStore

from ackline import Queue, Queues
from ackline.core.errors import StoreUnavailable
from ackline.core.job import Draft, Options, QueueKey, State
from ackline.core.lifecycle import complete
from ackline.maintenance import recover
from ackline.stores.contract import ClaimRequest, Heartbeat, LeaseExtension
from ackline.stores.postgres import PostgresStore
from ackline.stores.postgres.engine import Engine


def refuse_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection breaks just after the claim's commit."""

    def read(_engine: Engine, _work: object) -> None:
        raise StoreUnavailable("the connection broke")

    monkeypatch.setattr(Engine, "read", read)


def test_claimed_jobs_are_returned_if_lapsed_leases_cannot_be_read(
    work: Queue[Any, Any], store: PostgresStore, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    work.enqueue(1, id="a", max_attempts=1)
    work.policies.settings()
    refuse_to_read(monkeypatch)
    [job] = work.claim()

    assert job.id == "a"
    assert "the next claim will: the connection broke" in caplog.text


def test_verdicts_are_returned_too(
    work: Queue[Any, Any], store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    work.enqueue(1, id="a")
    [job] = work.claim()
    time.sleep(1.1)  # all leases are scanned once a second
    step = complete(job.record, None, work.policies.of(job.record))
    refuse_to_read(monkeypatch)
    claimed = store.claim(work.key, ClaimRequest(worker="w", limit=1, lease=30.0), [step])

    assert [verdict.applied for verdict in claimed.verdicts] == [True]


def test_a_claim_without_jobs_or_verdicts_raises_the_error(
    work: Queue[Any, Any], store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    work.enqueue(1, kind="other")
    work.policies.settings()
    refuse_to_read(monkeypatch)

    with pytest.raises(StoreUnavailable):
        work.claim(kinds=["mine"])


def put_poison(store: PostgresStore, queue: QueueKey) -> None:
    """A job that no queue accepts: its key is too long for the index of keys."""
    key = "".join(random.Random(1).choices(string.printable, k=5000))
    options = Options(max_attempts=1, keys_if_undelivered=((key,),))
    store.enqueue(queue, [Draft("poison", "default", b"1", options=options)])


@pytest.mark.parametrize("way", ["claim", "recover"])
def test_a_locked_lapsed_lease_blocks_no_other(
    work: Queue[Any, Any], store: PostgresStore, way: str, caplog: Any
) -> None:
    put_poison(store, work.key)
    work.enqueue(1, id="good")
    assert len(work.claim(9, lease=0.05)) == 2
    time.sleep(0.1)
    if way == "recover":
        assert recover(work).expired == 1
    [job] = work.claim(9)

    assert (job.id, job.attempt) == ("good", 2)
    poison = work.status("poison")
    assert poison is not None
    assert poison.state is State.PROCESSING
    assert "cannot expire the lease of job 'poison' of work" in caplog.text


def enqueued_anew(here: Queue[Any, Any], there: Queue[Any, Any], *ids: str) -> list[Any]:
    """Jobs claimed by another store, with ids of earlier jobs that this process has cached."""
    for id in ids:
        here.enqueue(1, id=id)
    for job in here.claim(len(ids)):
        there.bury(job, "boom")
    for id in ids:
        there.enqueue(2, id=id)
    return there.claim(len(ids))


def test_an_outdated_cache_reports_no_live_lease_as_lost(
    work: Queue[Any, Any], open_store: OpenStore
) -> None:
    """Two replicas of a service: one claims, and the other gets the heartbeat."""
    there = Queues(open_store())["work"]
    jobs = enqueued_anew(work, there, "a", "b")
    beat = Heartbeat(id="w", host="h", pid=1, started_at=0.0, concurrency=1, kinds=None, ttl=9.0)
    holds = [LeaseExtension(job.id, job.record.token, 600.0) for job in jobs]
    stale = LeaseExtension("a", jobs[0].record.token - 1, 600.0)

    assert work.store.heartbeat(work.key, beat, [*holds, stale]).lost == [2]
    kept = [record.deadline for record in work.store.get(work.key, ["a", "b"]) if record]
    assert all(
        deadline > job.record.deadline + 300 for deadline, job in zip(kept, jobs, strict=True)
    )
