"""Claim, work and settle in one transaction of the caller."""

import threading
import time
from typing import Any

import psycopg
import pytest
from tests.stores.postgres.conftest import OpenStore
from tests.stores.postgres.transactions.shop import Shop

from ackline import CannotJoin, LeaseLost, NewJob, Queues, StoreUnavailable
from ackline.core import lifecycle
from ackline.core.job import State
from ackline.stores.contract import Heartbeat, LeaseExtension
from ackline.stores.postgres import PostgresStore
from ackline.stores.postgres.scan_position import FULL_SCAN_INTERVAL

OPEN_TRANSACTIONS = """
SELECT state FROM pg_stat_activity
WHERE application_name = 'ackline' AND state <> 'idle' AND pid <> %s
"""


def quickly(act: Any, *arguments: Any, within: float = 5.0) -> Any:
    """Do something that must not wait for an open transaction."""
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(act(*arguments)), daemon=True)
    thread.start()
    thread.join(within)
    assert not thread.is_alive(), "it waits for a transaction that others have open"
    return answers[0]


def named(id: str) -> NewJob[Any]:
    return NewJob({}, id=id)


# --- claim, work and completion in one ---


def test_the_commit_makes_all_of_it_visible(shop: Shop) -> None:
    shop.queue.enqueue({}, id="o-1")
    with shop.connect() as tx:
        [job] = shop.queue.claim(connection=tx)
        tx.execute(shop.insert(job.id))
        shop.queue.complete(job, {"done": True}, connection=tx)
        assert shop.state("o-1") is State.QUEUED
        assert shop.queue.claim() == []

    assert shop.orders() == {"o-1"}
    assert shop.queue.result("o-1") == {"done": True}
    acts = [str(event.act) for event in shop.queue.events()]
    assert acts == ["enqueue", "claim", "complete"]


def test_a_rollback_releases_the_job_and_counts_no_attempt(shop: Shop) -> None:
    shop.queue.enqueue({}, id="o-1")
    with shop.connect() as tx:
        [job] = shop.queue.claim(connection=tx)
        shop.queue.complete(job, connection=tx)
        tx.rollback()

    [again] = shop.queue.claim()
    assert (again.id, again.attempt) == ("o-1", 1)
    assert again.record.token > job.record.token


def test_a_crash_releases_the_job_at_once(shop: Shop, open_store: OpenStore) -> None:
    """The server undoes it when the connection breaks; no lease has to lapse."""
    elsewhere = Queues(open_store())["work"]
    shop.queue.enqueue({}, id="o-1")
    with shop.connect(autocommit=True) as other:
        tx = shop.connect()
        [_] = shop.queue.claim(lease=3600, connection=tx)
        assert elsewhere.claim() == []
        other.execute("SELECT pg_terminate_backend(%s)", [tx.info.backend_pid])
        died = time.monotonic()
        [job] = elsewhere.claim(wait=10)
        took = time.monotonic() - died
        tx.close()

    assert (job.id, job.attempt) == ("o-1", 1)
    assert took < 1.5


def test_concurrent_claims_get_the_other_jobs_in_order(shop: Shop) -> None:
    shop.queue.enqueue_many([named(n) for n in "abcd"])
    with shop.connect() as tx:
        [first] = shop.queue.claim(connection=tx)
        assert first.id == "a"
        assert [job.id for job in quickly(shop.queue.claim, 2)] == ["b", "c"]
        tx.rollback()

    assert [job.id for _ in range(2) for job in shop.queue.claim(9)] == ["a", "d"]


def test_a_rolled_back_claim_is_soon_found_by_claims_that_skipped_it(
    shop: Shop, open_store: OpenStore
) -> None:
    elsewhere = Queues(open_store())["work"]
    shop.queue.enqueue({}, id="held")
    with shop.connect() as tx:
        [_] = shop.queue.claim(connection=tx)
        elsewhere.enqueue_many({} for _ in range(6000))
        for _ in range(10):
            elsewhere.claim(50)
        tx.rollback()
    # There are many other jobs: it finds this one only by its regular full scans.
    rolled_back = time.monotonic()
    while "held" not in {job.id for job in elsewhere.claim(1)}:
        assert time.monotonic() - rolled_back < 2 * FULL_SCAN_INTERVAL


def test_several_claims_and_settlings_in_one_transaction(shop: Shop) -> None:
    shop.queue.enqueue_many([named(id) for id in "abcdef"])
    with shop.connect() as tx:
        a, b = shop.queue.claim(2, connection=tx)
        c, d = shop.queue.claim(2, connection=tx)
        shop.queue.complete(a, 1, connection=tx)
        shop.queue.fail(b, "boom", connection=tx)
        shop.queue.release(c, connection=tx)
        shop.queue.snooze(d, 60, connection=tx)
        [again] = shop.queue.claim(1, connection=tx)
        assert (again.id, again.attempt) == ("c", 1)
        shop.queue.bury(again, "enough", connection=tx)
        with pytest.raises(LeaseLost):
            shop.queue.complete(a, 2, connection=tx)

    states = {id: shop.state(id) for id in "abcdef"}
    assert states == {
        "a": State.COMPLETED,
        "b": State.FAILING,
        "c": State.FAILED,
        "d": State.SCHEDULED,
        "e": State.QUEUED,
        "f": State.QUEUED,
    }
    assert shop.queue.counts() == {
        State.SCHEDULED: 1,
        State.QUEUED: 2,
        State.PROCESSING: 0,
        State.FAILING: 1,
        State.COMPLETED: 1,
        State.FAILED: 1,
        State.CANCELLED: 0,
    }


def test_what_is_claimed_in_a_transaction_can_be_settled_only_there(shop: Shop) -> None:
    shop.queue.enqueue({}, id="o-1")
    with shop.connect() as tx:
        [job] = shop.queue.claim(connection=tx)
        with pytest.raises(LeaseLost):
            quickly_raise(shop.queue.complete, job)
        shop.queue.complete(job, connection=tx)


def quickly_raise(act: Any, *arguments: Any) -> None:
    raised: list[BaseException] = []

    def run() -> None:
        try:
            act(*arguments)
        except BaseException as error:
            raised.append(error)

    quickly(run)
    if raised:
        raise raised[0]


def test_due_jobs_are_claimed_too_and_the_others_are_left_to_everyone(shop: Shop) -> None:
    shop.queue.enqueue_many([{}, {}, {}], delay=0.05)
    time.sleep(0.1)
    with shop.connect() as tx:
        assert len(shop.queue.claim(1, connection=tx)) == 1
        assert len(quickly(shop.queue.claim, 9)) == 2


def test_a_claim_in_a_transaction_waits_for_the_first_job(shop: Shop) -> None:
    with shop.connect() as tx:
        timer = threading.Timer(0.3, lambda: shop.queue.enqueue({}, id="o-1"))
        timer.start()
        [job] = shop.queue.claim(wait=10, connection=tx)
        timer.join()
        shop.queue.complete(job, connection=tx)

    assert shop.state("o-1") is State.COMPLETED


def test_an_empty_claim_writes_nothing_that_readers_must_wait_for(shop: Shop) -> None:
    shop.queue.enqueue({}, kind="other")
    with shop.connect() as tx:
        assert shop.queue.claim(kinds=["mail"], connection=tx) == []
        [(xid,)] = tx.execute("SELECT pg_current_xact_id_if_assigned()::text").fetchall()
        assert xid is None


def test_lapsed_leases_are_not_expired_in_a_users_transaction(shop: Shop) -> None:
    shop.queue.enqueue({}, id="o-1")
    shop.queue.claim(lease=0.05)
    time.sleep(0.1)
    with shop.connect() as tx:
        [job] = shop.queue.claim(connection=tx)
        assert job.attempt == 2
        tx.rollback()

    assert shop.state("o-1") is State.QUEUED


def test_jobs_of_a_group_are_not_claimed_in_a_transaction(shop: Shop) -> None:
    """The row of their group would stay locked, and every claim would wait for it."""
    shop.queue.enqueue({}, id="grouped", kind="a", group="g")
    shop.queue.enqueue({}, id="single", kind="b")
    with shop.connect() as tx:
        with pytest.raises(CannotJoin, match="groups"):
            shop.queue.claim(connection=tx)
        [job] = shop.queue.claim(kinds=["b"], connection=tx)
        assert job.id == "single"
        assert [job.id for job in quickly(shop.queue.claim)] == ["grouped"]


def test_nor_are_those_that_were_just_promoted(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """The claim expires the lapsed lease and claims again: the second claim raises, too."""
    shop.queue.enqueue({}, id="grouped", group="g")
    shop.queue.claim(lease=0.05)
    time.sleep(0.1)
    with shop.connect() as tx, pytest.raises(CannotJoin, match="groups"):
        shop.queue.claim(connection=tx)

    # Nothing failed: the log only says that the lease expired.
    assert [record.name for record in caplog.records] == ["ackline.jobs"]
    assert shop.state("grouped") is State.QUEUED


def test_no_jobs_of_a_paused_queue_are_claimed(shop: Shop) -> None:
    shop.queue.enqueue({})
    shop.queue.pause()
    with shop.connect() as tx:
        assert shop.queue.claim(connection=tx) == []


# --- completing what was claimed outside ---


def test_completion_and_writes_are_one_commit(shop: Shop) -> None:
    shop.queue.enqueue({}, id="o-1")
    [job] = shop.queue.claim()
    with shop.connect() as tx:
        tx.execute(shop.insert("o-1"))
        job.complete("paid", connection=tx)
        assert shop.state("o-1") is State.PROCESSING

    assert (shop.orders(), shop.queue.result("o-1")) == ({"o-1"}, "paid")


def test_a_rollback_leaves_the_lease_as_it_was(shop: Shop) -> None:
    shop.queue.enqueue({}, id="o-1")
    [job] = shop.queue.claim()
    with shop.connect() as tx:
        tx.execute(shop.insert("o-1"))
        job.complete("paid", connection=tx)
        tx.rollback()
        assert shop.state("o-1") is State.PROCESSING
        job.complete("paid later", connection=tx)

    assert (shop.orders(), shop.queue.result("o-1")) == (set(), "paid later")


def test_a_lost_lease_raises_before_anything_is_written(shop: Shop) -> None:
    shop.queue.enqueue({}, id="o-1")
    [job] = shop.queue.claim(lease=0.01)
    time.sleep(0.05)
    [taken] = shop.queue.claim()
    with shop.connect() as tx:
        tx.execute(shop.insert("o-1"))
        with pytest.raises(LeaseLost):
            job.complete("stale", connection=tx)
        tx.rollback()

    assert shop.orders() == set()
    assert shop.state("o-1") is State.PROCESSING
    shop.queue.complete(taken, "fresh")
    assert shop.queue.result("o-1") == "fresh"


def test_after_a_lost_lease_the_transaction_can_go_on(shop: Shop) -> None:
    shop.queue.enqueue({}, id="o-1")
    [job] = shop.queue.claim()
    shop.queue.release(job)
    with shop.connect() as tx:
        with pytest.raises(LeaseLost):
            job.complete("stale", connection=tx)
        tx.execute(shop.insert("written"))

    assert shop.orders() == {"written"}


def test_a_completion_can_be_repeated_in_its_transaction(shop: Shop) -> None:
    """It does not wait for its own locks."""
    shop.queue.enqueue_many([named("a"), named("b")])
    a, b = shop.queue.claim(2)
    with shop.connect() as tx:
        for _ in range(2):
            quickly(lambda: a.complete("paid", connection=tx))
        quickly(lambda: b.complete("paid", connection=tx))

    assert shop.queue.counts()[State.COMPLETED] == 2


def test_a_completion_can_be_sent_again(shop: Shop) -> None:
    """The answer to the commit may have been lost."""
    shop.queue.enqueue({}, id="o-1")
    [job] = shop.queue.claim()
    for _ in range(2):
        with shop.connect() as tx:
            job.complete("paid", connection=tx)

    acts = [str(event.act) for event in shop.queue.events()]
    assert acts.count("complete") == 1


def test_waiting_for_the_result_ends_with_the_commit(shop: Shop) -> None:
    shop.queue.enqueue({}, id="o-1")
    [job] = shop.queue.claim()
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(shop.queue.result("o-1", 10)))
    with shop.connect() as tx:
        job.complete("paid", connection=tx)
        thread.start()
        time.sleep(0.3)
        assert results == []
    committed = time.monotonic()
    thread.join(10)

    assert results == ["paid"]
    assert time.monotonic() - committed < 0.5


# --- an open transaction blocks nobody else ---


@pytest.fixture
def batch(shop: Shop) -> list[Any]:
    """Three jobs with one lease, the first completed in a transaction."""
    shop.queue.enqueue_many([named(id) for id in "abc"])
    return shop.queue.claim(3, worker="w")


def test_jobs_claimed_together_are_settled_during_an_open_transaction(
    shop: Shop, batch: list[Any]
) -> None:
    a, b, c = batch
    with shop.connect() as tx, shop.connect() as other:
        a.complete(1, connection=tx)
        quickly(shop.queue.complete, b, 2)
        quickly(lambda: c.complete(3, connection=other))

    assert [shop.queue.result(id) for id in "abc"] == [1, 2, 3]


def test_heartbeats_continue_during_an_open_transaction(
    shop: Shop, store: PostgresStore, batch: list[Any]
) -> None:
    beat = beat_of()
    with shop.connect() as tx:
        batch[0].complete(1, connection=tx)
        holds = [LeaseExtension(job.id, job.record.token, 60.0) for job in batch]
        reply = quickly(store.heartbeat, shop.queue.key, beat, holds)
        assert (reply.lost, reply.cancelled) == ([], [])
        tx.rollback()
        # It is still the same lease.
        reply = quickly(store.heartbeat, shop.queue.key, beat, holds)
        assert reply.lost == []
        batch[0].complete(1, connection=tx)

    assert shop.queue.result("a") == 1


def beat_of(worker: str = "w") -> Heartbeat:
    return Heartbeat(id=worker, host="h", pid=1, started_at=0.0, concurrency=1, kinds=None, ttl=9.0)


def test_a_heartbeat_of_another_process_does_not_wait_either(
    shop: Shop, open_store: OpenStore, batch: list[Any]
) -> None:
    """It comes from another store object; the other leases are extended all the same."""
    store = open_store()
    holds = [LeaseExtension(job.id, job.record.token, 60.0) for job in batch]
    before = [job.record.deadline for job in batch]
    with shop.connect() as tx:
        batch[0].complete(1, connection=tx)
        reply = quickly(store.heartbeat, shop.queue.key, beat_of(), holds)
        assert (reply.lost, reply.cancelled) == ([], [])

    assert quickly(store.heartbeat, shop.queue.key, beat_of(), holds).lost == [0]
    after = [record.deadline for record in store.get(shop.queue.key, ["b", "c"]) if record]
    assert [late > early for late, early in zip(after, before[1:], strict=True)] == [True, True]


def test_a_handler_that_waits_for_its_own_transaction_gets_an_error(shop: Shop) -> None:
    shop.queue.enqueue({}, id="o-1")
    [job] = shop.queue.claim()
    with shop.connect() as tx, shop.connect() as other:
        job.complete("paid", connection=tx)
        acts: list[Any] = [
            lambda: job.report(1),
            lambda: job.extend(60),
            lambda: shop.queue.complete(job, "paid"),
            lambda: job.complete("paid", connection=other),
        ]
        for act in acts:
            with pytest.raises(LeaseLost, match=r"complete\(\)"):
                quickly_raise(act)
        tx.rollback()
        # It is still the handler's job.
        job.report(1)
        job.extend(60)
        job.complete("again", connection=tx)

    assert shop.queue.result("o-1") == "again"
    with pytest.raises(LeaseLost, match="completed"):
        job.extend(60)


def test_a_refused_completion_locks_no_lease(shop: Shop, batch: list[Any]) -> None:
    """Nor the rows of other jobs, which a transition that does not wait might lock as well."""
    a, b, c = batch
    with shop.connect() as tx, shop.connect() as other:
        a.complete(1, connection=tx)
        with pytest.raises(LeaseLost):
            quickly_raise(lambda: a.complete(1, connection=other))
        quickly(shop.queue.complete, b, 2)
        quickly(shop.queue.complete, c, 3)


def test_a_claim_does_not_wait_for_a_locked_group(shop: Shop, open_store: OpenStore) -> None:
    """A completed job keeps its slot until the commit; all other jobs can be claimed."""
    elsewhere = Queues(open_store())["work"]
    shop.queue.enqueue_many(NewJob({}, id=id, group="g") for id in ("g1", "g2", "g3"))
    [job] = shop.queue.claim()
    shop.queue.enqueue({}, id="single")
    shop.queue.enqueue({}, id="other", group="h")
    with shop.connect() as tx:
        job.complete(1, connection=tx)
        assert [one.id for one in quickly(elsewhere.claim, 9)] == ["single", "other"]
        assert quickly(elsewhere.claim, 9) == []

    [second] = elsewhere.claim(9, wait=5)
    assert second.id == "g2"
    elsewhere.complete(second)
    assert [one.id for one in elsewhere.claim(9)] == ["g3"]


def test_a_claim_holds_no_lock_while_it_waits_for_a_group(
    shop: Shop, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = Queues(open_store())["work"]
    shop.queue.enqueue_many(NewJob({}, id=id, group="g") for id in ("g1", "g2"))
    [job] = shop.queue.claim()
    shop.queue.enqueue({}, id="h1", group="h", priority=9)
    [also] = elsewhere.claim()
    slept, open_then = time.sleep, []
    with shop.connect() as tx, shop.connect(autocommit=True) as observer:
        job.complete(1, connection=tx)

        def observe_and_sleep(seconds: float) -> None:
            rows = observer.execute(OPEN_TRANSACTIONS, [tx.info.backend_pid]).fetchall()
            open_then.append([state for (state,) in rows])
            slept(seconds)

        monkeypatch.setattr(time, "sleep", observe_and_sleep)
        request = elsewhere.claim_request(1, 30.0, None, "w")
        done = lifecycle.complete(also.record, b"1", elsewhere.policies.of(also.record))
        claimed = elsewhere.claim_records(request, [done])

    assert claimed.jobs == []
    assert [verdict.applied for verdict in claimed.verdicts] == [True]
    assert open_then
    assert not any(open_then)


def test_a_claim_that_stops_at_a_group_says_that_there_may_be_more(shop: Shop) -> None:
    shop.queue.enqueue_many(NewJob({}, id=id, group="g") for id in ("g1", "g2"))
    [job] = shop.queue.claim()
    shop.queue.enqueue_many([named("a"), named("b")])
    shop.queue.enqueue({}, id="urgent", priority=9)
    request = shop.queue.claim_request(2, 30.0, None, "w")
    with shop.connect() as tx:
        job.complete(1, connection=tx)
        claims = [shop.queue.claim_records(request) for _ in range(4)]

    assert [[job.id for job in claimed.jobs] for claimed in claims] == [
        ["urgent"],
        ["a"],
        ["b"],
        [],
    ]
    assert [claimed.may_have_more for claimed in claims] == [True, True, True, False]


def test_the_group_of_a_rolled_back_completion_stays_full(shop: Shop) -> None:
    shop.queue.enqueue_many(NewJob({}, id=id, group="g") for id in ("g1", "g2"))
    [job] = shop.queue.claim()
    with shop.connect() as tx:
        job.complete(1, connection=tx)
        assert quickly(shop.queue.claim, 9) == []
        tx.rollback()

    assert shop.queue.claim(9) == []
    shop.queue.complete(job)
    assert [one.id for one in shop.queue.claim(9)] == ["g2"]


def test_expire_and_claims_skip_it(shop: Shop) -> None:
    """Its lease has lapsed, but a transaction is changing it: they neither wait nor expire it."""
    shop.queue.enqueue({}, id="o-1")
    [job] = shop.queue.claim(lease=0.05)
    with shop.connect() as tx:
        job.complete("late", connection=tx)
        time.sleep(0.1)
        assert quickly(shop.queue.claim) == []
        [verdict] = quickly(shop.queue.expire, shop.queue.store.leases(shop.queue.key))
        assert (verdict.applied, verdict.state) == (False, State.PROCESSING)

    assert shop.queue.result("o-1") == "late"


def test_the_lapsed_lease_of_a_rolled_back_transaction_expires(shop: Shop) -> None:
    shop.queue.enqueue({}, id="o-1")
    [job] = shop.queue.claim(lease=0.05)
    with shop.connect() as tx:
        job.complete("late", connection=tx)
        time.sleep(0.1)
        tx.rollback()

    [again] = shop.queue.claim()
    assert (again.id, again.attempt) == ("o-1", 2)


def test_many_transactions_complete_jobs_of_one_claim_at_once(shop: Shop) -> None:
    shop.queue.enqueue_many([named(str(n)) for n in range(40)])
    jobs = shop.queue.claim(40)
    connections = [shop.connect() for _ in jobs]
    for job, tx in zip(jobs, connections, strict=True):
        quickly(lambda job=job, tx=tx: job.complete(job.id, connection=tx))
    for n, tx in enumerate(connections):
        tx.rollback() if n % 2 else tx.commit()
        tx.close()

    counts = shop.queue.counts()
    assert (counts[State.COMPLETED], counts[State.PROCESSING]) == (20, 20)


# --- transactions whose snapshot is older than the transition ---


def test_a_job_with_a_lease_of_its_own_can_be_completed(shop: Shop) -> None:
    shop.queue.enqueue({}, id="o-1")
    [job] = shop.queue.claim()
    with shop.connect() as tx:
        tx.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        job.complete("paid", connection=tx)

    assert shop.queue.result("o-1") == "paid"


def complete_in_an_old_snapshot(shop: Shop, job: Any) -> None:
    with shop.connect() as tx:
        tx.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        tx.execute(shop.insert(job.id))
        job.complete(job.id, connection=tx)


def test_jobs_leased_together_have_own_rows_after_the_first_attempt(
    shop: Shop, store: PostgresStore, batch: list[Any]
) -> None:
    a, b, c = batch
    with pytest.raises(StoreUnavailable, match="READ COMMITTED"):
        complete_in_an_old_snapshot(shop, a)
    assert shop.orders() == set()

    complete_in_an_old_snapshot(shop, a)
    store.heartbeat(
        shop.queue.key, beat_of(), [LeaseExtension(j.id, j.record.token, 60) for j in (b, c)]
    )
    complete_in_an_old_snapshot(shop, b)
    complete_in_an_old_snapshot(shop, c)
    assert shop.orders() == {"a", "b", "c"}


def test_jobs_of_such_a_kind_are_leased_one_by_one_from_then_on(
    shop: Shop, batch: list[Any]
) -> None:
    with pytest.raises(StoreUnavailable):
        complete_in_an_old_snapshot(shop, batch[0])
    shop.queue.enqueue_many([named(id) for id in "def"])
    for job in shop.queue.claim(3):
        complete_in_an_old_snapshot(shop, job)

    assert shop.orders() == {"d", "e", "f"}
