"""Expired leases: compare-and-set, and every crash is counted."""

from __future__ import annotations

import random
import string
import threading

import pytest

from ackline.core.errors import InvalidOption
from ackline.core.events import Act, RecoveredBy
from ackline.core.job import Record, State
from ackline.core.lifecycle import (
    Verdict,
    complete,
    expire,
    extend,
    fail,
    progress,
    request_cancel,
)
from ackline.core.limits import MAX_KEY_BYTES, MAX_NAME_BYTES, require_user_key
from ackline.stores.contract import HISTORY_LIMIT, LEASES_LIMIT
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import LEASE, QueueDriver, failure, policy_of


class SweepRules(StoreCase):
    """Rule 4: two sweepers, or or one racing a completion, have one outcome."""

    def test_a_lapsed_lease_is_reported_and_a_live_one_is_not(self, driver: QueueDriver) -> None:
        driver.enqueue_all(["a", "b"])
        short = driver.claim_one(lease=10.0)
        driver.claim_one(lease=10.25)
        driver.clock.advance(10.0)

        assert driver.store.leases(driver.queue) == [short.without_data()]

    def test_a_lapsed_lease_is_returned_without_payload(self, driver: QueueDriver) -> None:
        """Otherwise each claim and each expiry would read the payloads of many large jobs."""
        job = driver.enqueue_and_claim(
            "a", payload=b"x" * 5000, max_attempts=1, keys_if_undelivered=(("lost", "a"),)
        )
        driver.apply_one(progress(job, b"half"))
        driver.clock.advance(LEASE)

        [seen] = driver.store.leases(driver.queue)

        assert seen == job.without_data()
        assert driver.claim(0).lapsed == [seen]
        assert driver.expire(seen) == [Verdict(True, State.FAILED)]
        assert driver.get("a").payload == job.payload
        assert driver.keys() == {("lost", "a"): job.payload}

    def test_nothing_has_lapsed_before_its_deadline(self, driver: QueueDriver) -> None:
        driver.enqueue_and_claim("a")
        driver.clock.advance(LEASE - 0.25)

        assert driver.store.leases(driver.queue) == []
        assert driver.claim(0).lapsed == []

    def test_the_longest_lapsed_lease_comes_first_and_the_limit_applies(
        self, driver: QueueDriver
    ) -> None:
        driver.enqueue_all("abc")
        for lease in (30.0, 10.0, 20.0):
            driver.claim_one(lease=lease)
        driver.clock.advance(60.0)

        assert [job.id for job in driver.store.leases(driver.queue, limit=2)] == ["b", "c"]

    def test_any_number_of_lapsed_leases_is_expired(self, driver: QueueDriver) -> None:
        """No lapsed lease may be left out forever (river 1258: 5,133 jobs, up to 91 days)."""
        count = 2 * LEASES_LIMIT + 1
        driver.enqueue_all(str(n) for n in range(count))
        driver.claim_jobs(count)
        driver.clock.advance(LEASE)

        swept = [len(driver.sweep()) for _ in range(4)]

        assert swept == [LEASES_LIMIT, LEASES_LIMIT, 1, 0]
        assert driver.counts() == {State.QUEUED: count}

    def test_a_claim_repairs_as_much_as_the_settings_allow(self, driver: QueueDriver) -> None:
        """A queue may spend more time of each claim on recovery, or less."""
        driver.configure(repair_limit=2)
        driver.enqueue_all("abc")
        driver.claim_jobs(3)
        driver.enqueue_all("def", delay=LEASE)
        driver.clock.advance(LEASE)

        first, second = driver.claim(5), driver.claim(5)

        assert (len(first.jobs), len(first.lapsed)) == (2, 2)
        assert (len(second.jobs), len(second.lapsed)) == (1, 2)
        driver.configure(repair_limit=3)
        assert len(driver.claim(0).lapsed) == 3

    def test_expire_queues_the_job_again(self, driver: QueueDriver) -> None:
        """A killed worker's job is neither lost nor stuck (rq 2015, saq 127)."""
        job = driver.enqueue_and_claim("a")
        driver.clock.advance(LEASE)

        assert driver.expire(job) == [Verdict(True, State.QUEUED)]

        [ended] = driver.get("a").history
        assert (ended.act, ended.type, ended.worker) == (Act.EXPIRE, "LeaseExpired", "w1")
        assert driver.claim_one(worker="w2").attempts == 2

    @pytest.mark.parametrize("recovered_by", [None, *RecoveredBy])
    def test_the_journal_says_what_recovered_a_job(
        self, driver: QueueDriver, recovered_by: RecoveredBy | None
    ) -> None:
        job = driver.enqueue_and_claim("a")
        driver.clock.advance(LEASE)

        driver.apply(expire(job, policy_of(job), recovered_by=recovered_by))

        assert driver.journal()[-1].recovered_by is recovered_by

    def test_of_two_sweepers_one_wins(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a")
        driver.clock.advance(LEASE)
        [seen_by_first] = driver.store.leases(driver.queue)
        [seen_by_second] = driver.claim(0).lapsed

        assert driver.expire(seen_by_first) == [Verdict(True, State.QUEUED)]
        assert driver.expire(seen_by_second) == [Verdict(False, State.QUEUED)]

        assert len(driver.get("a").history) == 1
        assert seen_by_first == seen_by_second == job.without_data()

    def test_a_late_expire_does_not_undo_a_completion(self, driver: QueueDriver) -> None:
        """A sweeper must not overwrite a completed job (rq 2289, river 1302)."""
        job = driver.enqueue_and_claim("a")
        driver.clock.advance(LEASE)
        [seen] = driver.store.leases(driver.queue)
        driver.complete(job)

        assert driver.expire(seen) == [Verdict(False, State.COMPLETED)]
        assert driver.get("a").result == b"1"

    def test_a_heartbeat_between_read_and_expire_keeps_the_lease(self, driver: QueueDriver) -> None:
        """Expire compares the deadline that was read, not only the token."""
        job = driver.enqueue_and_claim("a")
        driver.clock.advance(LEASE - 1)
        seen = driver.get("a")
        driver.heartbeat(job)
        driver.clock.advance(1.0)

        assert driver.expire(seen) == [Verdict(False, State.PROCESSING)]
        assert driver.complete(job).applied

    def test_an_extend_between_read_and_expire_keeps_the_lease(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a")
        driver.clock.advance(LEASE - 1)
        seen = driver.get("a")
        driver.apply_one(extend(job, LEASE))
        driver.clock.advance(1.0)

        assert driver.expire(seen) == [Verdict(False, State.PROCESSING)]

    def test_a_dead_workers_leases_can_be_expired_before_their_time(
        self, driver: QueueDriver
    ) -> None:
        """A supervisor that saw its child die need not wait for the deadline."""
        driver.enqueue_all("ab")
        driver.claim_one(worker="dead")
        alive = driver.claim_one(worker="alive")

        assert driver.expire(*driver.store.leases(driver.queue, worker="dead")) == [
            Verdict(True, State.QUEUED)
        ]
        assert driver.store.leases(driver.queue, worker="alive") == [alive.without_data()]

    def test_a_delayed_job_is_not_expired(self, driver: QueueDriver) -> None:
        """A delay longer than the lease must not run the job twice (kombu 337, celery 2481)."""
        driver.enqueue("a", delay=1000.0)
        driver.clock.advance(500.0)

        assert driver.store.leases(driver.queue) == []
        assert driver.claim_jobs() == []

    def test_a_long_job_with_heartbeats_is_not_expired(self, driver: QueueDriver) -> None:
        """No global timer ends a job whose worker sends heartbeats (oban 1141)."""
        job = driver.enqueue_and_claim("a")
        for _ in range(50):
            driver.clock.advance(LEASE - 1)
            assert driver.heartbeat(job).lost == []
            assert driver.sweep() == []

        assert driver.complete(job).applied

    def test_a_cancel_request_ends_with_the_lease(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a")
        driver.apply_one(request_cancel("a"))
        driver.clock.advance(LEASE)

        assert driver.sweep() == [Verdict(True, State.CANCELLED)]
        assert driver.complete(job) == Verdict(False, State.CANCELLED)

    def test_a_job_asked_to_stop_while_it_is_expired_ends_as_cancelled(
        self, driver: QueueDriver
    ) -> None:
        """The expiry was decided before the request: the job must not vanish."""
        driver.enqueue_and_claim("a")
        driver.clock.advance(LEASE)
        seen = driver.store.leases(driver.queue)
        driver.apply_one(request_cancel("a"))

        assert driver.expire(*seen) == [Verdict(True, State.CANCELLED)]
        driver.clock.advance(3600.0)
        assert driver.state("a") is State.CANCELLED

    def test_concurrent_expires_and_completions_have_one_outcome_each(
        self, driver: QueueDriver
    ) -> None:
        """Rule 4, with a barrier: each job completed once or expired once, never both."""
        ids = [str(n) for n in range(40)]
        driver.enqueue_all(ids)
        jobs = driver.claim_jobs(len(ids))
        driver.clock.advance(LEASE)
        seen = driver.store.leases(driver.queue)
        barrier = threading.Barrier(3)
        answers: dict[str, list[Verdict]] = {}

        def act(name: str) -> None:
            barrier.wait()
            if name == "ack":
                steps = [complete(job, b"1", policy_of(job)) for job in jobs]
            else:
                steps = [expire(job, policy_of(job)) for job in reversed(seen)]
            answers[name] = [driver.apply_one(step) for step in steps]

        threads = [threading.Thread(target=act, args=(n,)) for n in ("ack", "sweep", "sweep 2")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        applied = sum(verdict.applied for verdicts in answers.values() for verdict in verdicts)
        assert applied == len(ids)
        for id in ids:
            assert len(driver.steps(id)) == 3


class AttemptRules(StoreCase):
    """Rule 5: exactly `max_attempts` deliveries by fail, expiry or a mix, then the DLQ."""

    @pytest.mark.parametrize("ways", ["fff", "eee", "fef", "efe", "e", "f", "ffffeeee"])
    def test_exactly_max_attempts_deliveries(self, driver: QueueDriver, ways: str) -> None:
        """A crash loop is counted as well (dramatiq 213, celery 8610)."""
        driver.enqueue("a", max_attempts=len(ways))
        for number, way in enumerate(ways, start=1):
            job = driver.claim_one()
            assert job.attempts == number
            self._end(driver, job, way)

        assert driver.state("a") is State.FAILED
        assert driver.claim_jobs() == []
        assert [e.act for e in driver.get("a").history] == [
            Act.FAIL if way == "f" else Act.EXPIRE for way in ways
        ]

    def _end(self, driver: QueueDriver, job: Record, way: str) -> None:
        if way == "f":
            assert driver.fail(job, delay=0.0).applied
        else:
            driver.clock.advance(LEASE)
            assert [verdict.applied for verdict in driver.sweep()] == [True]

    def test_a_poison_job_reaches_the_dlq_with_its_reason(self, driver: QueueDriver) -> None:
        """It kills every worker that claims it, so that nobody reports a failure."""
        driver.enqueue("poison", max_attempts=3)
        for n in range(3):
            driver.claim_one(worker=f"victim {n}")
            driver.clock.advance(LEASE)
            driver.sweep()

        job = driver.get("poison")
        assert (job.state, job.attempts) == (State.FAILED, 3)
        assert job.failure is not None
        assert job.failure.type == "LeaseExpired"
        assert "victim 2" in job.failure.message

    def test_only_the_last_attempts_are_kept(self, driver: QueueDriver) -> None:
        """A job that is retried for months takes no more space than another."""
        driver.enqueue("a", max_attempts=10 * HISTORY_LIMIT)
        for _ in range(HISTORY_LIMIT + 2):
            driver.fail(job := driver.claim_one(), delay=0.0)

        history = driver.get("a").history
        assert len(history) == HISTORY_LIMIT
        assert (history[0].attempt, history[-1].attempt) == (3, job.attempts)

    @pytest.mark.parametrize("way", ["f", "e"])
    def test_keys_if_undelivered_are_written_in_the_same_step(
        self, driver: QueueDriver, way: str
    ) -> None:
        """Each key holds the payload that was not delivered."""
        keys = (("undelivered", "a"), ("audit", "2024", "a"))
        job = driver.enqueue_and_claim(
            "a", max_attempts=1, payload=b"precious", keys_if_undelivered=keys
        )
        assert driver.keys() == {}

        self._end(driver, job, way)

        assert driver.keys() == dict.fromkeys(keys, b"precious")

    def test_the_longest_key_is_written(self, driver: QueueDriver) -> None:
        """Otherwise a lease whose job has such a key could never expire."""
        letters = "".join(random.Random(7).choices(string.ascii_letters, k=MAX_KEY_BYTES))
        foreign = driver.other_queue("work", tenant=letters[:MAX_NAME_BYTES])
        parts = 4
        size = MAX_KEY_BYTES // parts - 2
        key = tuple(letters[n * size : (n + 1) * size] for n in range(parts))
        require_user_key(key)
        with pytest.raises(InvalidOption, match="2,048 bytes"):
            require_user_key((*key, "x"))
        foreign.enqueue_and_claim(
            "a", max_attempts=1, payload=b"precious", keys_if_undelivered=(key,)
        )
        foreign.clock.advance(LEASE)

        assert [verdict.state for verdict in foreign.sweep()] == [State.FAILED]
        assert foreign.keys() == {key: b"precious"}

    def test_keys_if_undelivered_wait_for_the_last_attempt(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a", max_attempts=2, keys_if_undelivered=(("k",),))

        driver.fail(job)

        assert driver.keys() == {}

    @pytest.mark.parametrize("way", ["f", "e"])
    def test_a_job_asked_to_stop_is_not_dead_lettered(self, driver: QueueDriver, way: str) -> None:
        """Its last attempt ends as cancelled, as requested, and not as undelivered."""
        job = driver.enqueue_and_claim("a", max_attempts=1, keys_if_undelivered=(("k",),))
        driver.clock.advance(LEASE)
        steps = {
            "f": fail(job, failure(job), policy_of(job), random.Random(0)),
            "e": expire(job, policy_of(job)),
        }
        driver.apply_one(request_cancel("a"))

        assert driver.apply_one(steps[way]) == Verdict(True, State.CANCELLED)
        assert driver.keys() == {}
        assert driver.counts() == {State.CANCELLED: 1}
        assert driver.steps("a")[-1] == (steps[way].act, State.PROCESSING, State.CANCELLED)

    def test_refused_steps_write_no_keys(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a", max_attempts=1, keys_if_undelivered=(("k",),))
        driver.complete(job)

        driver.fail(job)
        driver.expire(job)

        assert driver.keys() == {}
