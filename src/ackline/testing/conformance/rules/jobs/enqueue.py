"""Enqueueing jobs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from ackline.core.errors import StoreFull
from ackline.core.job import State
from ackline.core.lifecycle import Verdict, bury, cancel, complete, redrive
from ackline.stores.contract import Filter, Receipt
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import QueueDriver, draft, failure, policy_of


class EnqueueRules(StoreCase):
    """What an enqueue returns, and what it stores."""

    def test_a_new_job_is_queued(self, driver: QueueDriver) -> None:
        """Rule 1: an accepted job is in the store."""
        receipt = driver.enqueue("a", kind="mail", payload=b"[1]", priority=7)

        job = driver.get("a")
        assert receipt == Receipt("a", True, State.QUEUED)
        assert (job.kind, job.payload, job.priority) == ("mail", b"[1]", 7)
        assert (job.attempts, job.created_at) == (0, driver.clock.now())

    def test_all_options_of_a_job_come_back(self, driver: QueueDriver) -> None:
        """Rule 1: the producer's options are stored with the job."""
        sent = draft(
            "a",
            max_attempts=7,
            lease=12.5,
            timeout=3.0,
            result_ttl=0.5,
            keys_if_undelivered=(("x", "y"), ("z",)),
            callback_url="https://example.com/done",
            group="g",
            headers={"h": "1"},
            trace="00-é",
            codec="msgpack",
        )

        driver.store.enqueue(driver.queue, [sent])

        assert driver.get("a").options == sent.options
        assert driver.claim_one().options == sent.options

    def test_an_empty_batch_changes_nothing(self, driver: QueueDriver) -> None:
        assert driver.store.enqueue(driver.queue, []) == []
        assert driver.journal() == []

    def test_a_live_id_returns_its_state_and_keeps_its_payload(self, driver: QueueDriver) -> None:
        """Rule 6: an id that is alive is a duplicate."""
        driver.enqueue("a", payload=b"old")

        receipt = driver.enqueue("a", payload=b"new")

        assert receipt == Receipt("a", False, State.QUEUED)
        assert driver.get("a").payload == b"old"

    @pytest.mark.parametrize("state", [State.SCHEDULED, State.PROCESSING, State.FAILING])
    def test_every_live_state_is_a_duplicate(self, driver: QueueDriver, state: State) -> None:
        """Rule 6: whether it is scheduled, queued, running or waiting for its next attempt."""
        driver.enqueue("a", delay=60.0 if state is State.SCHEDULED else 0.0)
        if state is not State.SCHEDULED:
            job = driver.claim_one()
            if state is State.FAILING:
                driver.fail(job)

        assert driver.enqueue("a") == Receipt("a", False, state)

    def test_a_completed_id_returns_the_stored_result(self, driver: QueueDriver) -> None:
        """Rule 6: the idempotency key returns the first run's result."""
        driver.complete(driver.enqueue_and_claim("a"), b'"done"')

        receipt = driver.enqueue("a")

        assert receipt == Receipt("a", False, State.COMPLETED, b'"done"')
        assert driver.claim_jobs() == []

    def test_an_expired_result_frees_its_id(self, driver: QueueDriver) -> None:
        """Rule 7: after its TTL, a completed id can be enqueued again."""
        driver.complete(driver.enqueue_and_claim("a", result_ttl=5.0))
        driver.clock.advance(5.0)

        receipt = driver.enqueue("a", payload=b"second")

        assert receipt == Receipt("a", True, State.QUEUED)
        assert driver.claim_one().payload == b"second"
        assert driver.counts() == {State.PROCESSING: 1}

    @pytest.mark.parametrize("result", [b'"done"', None])
    def test_a_completed_id_is_taken_for_the_whole_dedup_window(
        self, driver: QueueDriver, result: bytes | None
    ) -> None:
        """A short `result_ttl` must not let a late repeat of a message run again."""
        job = driver.enqueue_and_claim("a", result_ttl=0.0)
        window = msgspec.structs.replace(policy_of(job), dedup_ttl=60.0)
        driver.apply_one(complete(job, result, window))

        driver.clock.advance(59.0)
        driver.store.prune(driver.queue, 100)
        assert driver.enqueue("a") == Receipt("a", False, State.COMPLETED, result)

        driver.clock.advance(1.0)
        assert driver.enqueue("a") == Receipt("a", True, State.QUEUED)

    def test_one_short_ttl_does_not_erase_other_results(self, driver: QueueDriver) -> None:
        """Rule 7: each result has its own TTL."""
        driver.complete(driver.enqueue_and_claim("short", result_ttl=1.0), b"1")
        driver.complete(driver.enqueue_and_claim("long", result_ttl=100.0), b"2")
        driver.clock.advance(50.0)
        driver.store.prune(driver.queue, 100)

        assert driver.state("short") is None
        assert driver.enqueue("long") == Receipt("long", False, State.COMPLETED, b"2")

    def test_a_failed_id_is_replaced(self, driver: QueueDriver) -> None:
        """Rule 6: a new job replaces the one in the DLQ, and has all its attempts."""
        driver.dead_letter("a", payload=b"old")

        receipt = driver.enqueue("a", payload=b"new")

        job = driver.get("a")
        assert receipt == Receipt("a", True, State.QUEUED)
        assert (job.payload, job.attempts, job.history) == (b"new", 0, ())
        assert driver.counts() == {State.QUEUED: 1}

    @pytest.mark.parametrize("state", [State.FAILED, State.CANCELLED])
    def test_a_draft_does_not_replace_kinds_that_it_must_not(
        self, driver: QueueDriver, state: State
    ) -> None:
        """As a control, the same draft is accepted once it may replace the kind."""
        driver.enqueue("a", kind="mail")
        if state is State.FAILED:
            driver.apply_one(bury(job := driver.claim_one(), failure(job), policy_of(job)))
        else:
            driver.apply_one(cancel("a", policy_of(driver.get("a"))))
        before = driver.get("a")

        for kinds in (frozenset[str](), frozenset({"other"})):
            refused = driver.enqueue("a", kind="other", assume_new=True, replaces=kinds)
            assert refused == Receipt("a", False, state)
        assert driver.get("a") == before
        assert driver.enqueue("a", kind="other", replaces=frozenset({"other", "mail"})).accepted
        assert driver.get("a").kind == "other"

    def test_drafts_of_a_batch_may_replace_different_kinds(self, driver: QueueDriver) -> None:
        driver.dead_letter("a")
        driver.dead_letter("b")

        receipts = driver.store.enqueue(
            driver.queue,
            [
                draft("a", replaces=frozenset()),
                draft("b", replaces=frozenset({"mail"})),
                draft("c", replaces=frozenset()),
            ],
        )

        assert [receipt.accepted for receipt in receipts] == [False, True, True]
        assert driver.counts() == {State.FAILED: 1, State.QUEUED: 2}

    def test_drafts_of_one_id_may_replace_different_kinds(self, driver: QueueDriver) -> None:
        """Each receipt belongs to its own draft, not to the first draft of the id."""
        driver.dead_letter("a")
        driver.dead_letter("b")
        careful, free = frozenset[str](), None

        receipts = driver.store.enqueue(
            driver.queue,
            [
                draft("a", payload=b"1", replaces=careful),
                draft("a", payload=b"2", replaces=free),
                draft("b", payload=b"3", replaces=free),
                draft("b", payload=b"4", replaces=careful),
            ],
        )

        assert receipts == [
            Receipt("a", False, State.FAILED),
            Receipt("a", True, State.QUEUED),
            Receipt("b", True, State.QUEUED),
            Receipt("b", False, State.QUEUED),
        ]
        assert [driver.get(id).payload for id in "ab"] == [b"2", b"3"]

    def test_a_new_job_does_not_inherit_the_attempts_of_the_one_it_replaced(
        self, driver: QueueDriver
    ) -> None:
        """Rule 6: nothing of the old job returns, not even with the next failure."""
        driver.dead_letter("a")

        job = driver.enqueue_and_claim("a")
        driver.fail(job)

        assert [ended.token for ended in driver.get("a").history] == [job.token]

    def test_cancel_then_enqueue_runs_only_the_new_payload(self, driver: QueueDriver) -> None:
        """Rule 6: the old payload must not run."""
        driver.enqueue("a", payload=b"old")
        driver.apply_one(cancel("a", policy_of(driver.get("a"))))
        driver.enqueue("a", payload=b"new")

        assert [job.payload for job in driver.claim_jobs(10)] == [b"new"]

    def test_a_retry_never_collides_with_its_own_id(self, driver: QueueDriver) -> None:
        """Rule 6: after a failed attempt or a redrive, the job runs under the same id."""
        driver.fail(driver.enqueue_and_claim("a", max_attempts=2), delay=0.0)
        driver.fail(driver.claim_one())

        assert driver.apply_one(redrive("a")) == Verdict(True, State.QUEUED)
        assert driver.claim_one().id == "a"

    def test_duplicates_within_a_batch_make_one_job(self, driver: QueueDriver) -> None:
        """Rule 6: the first draft wins."""
        drafts = [draft("a", payload=b"1"), draft("b"), draft("a", payload=b"2")]

        receipts = driver.store.enqueue(driver.queue, drafts)

        assert [receipt.accepted for receipt in receipts] == [True, True, False]
        assert receipts[2].state is State.QUEUED
        assert driver.get("a").payload == b"1"

    def test_receipts_come_in_the_order_of_the_drafts(self, driver: QueueDriver) -> None:
        driver.enqueue("b")

        receipts = driver.enqueue_all(["c", "b", "a"])

        assert [(receipt.id, receipt.accepted) for receipt in receipts] == [
            ("c", True),
            ("b", False),
            ("a", True),
        ]

    def test_a_wrong_hint_that_ids_are_new_makes_no_second_job(self, driver: QueueDriver) -> None:
        """Rule 6: a false negative of the dedup filter makes no second job."""
        driver.enqueue("a", payload=b"old")
        drafts = [draft(id, assume_new=True) for id in ("b", "a", "b")]

        receipts = driver.store.enqueue(driver.queue, drafts)

        assert [receipt.accepted for receipt in receipts] == [True, False, False]
        assert driver.get("a").payload == b"old"

    def test_concurrent_enqueues_of_one_id_make_one_job(self, driver: QueueDriver) -> None:
        """Rule 6: N threads, one job."""
        with ThreadPoolExecutor(8) as threads:
            receipts = list(
                threads.map(lambda n: driver.enqueue("a", payload=b"%d" % n), range(32))
            )

        assert sum(receipt.accepted for receipt in receipts) == 1
        assert driver.counts() == {State.QUEUED: 1}
        assert len(driver.steps("a")) == 1

    def test_a_delay_schedules(self, driver: QueueDriver) -> None:
        """Rule 9: a delay is added to the store's clock."""
        assert driver.enqueue("a", delay=60.0) == Receipt("a", True, State.SCHEDULED)
        assert driver.get("a").run_at == driver.clock.now() + 60.0

    def test_run_at_schedules_and_a_past_one_queues(self, driver: QueueDriver) -> None:
        now = driver.clock.now()

        assert driver.enqueue("later", run_at=now + 5).state is State.SCHEDULED
        assert driver.enqueue("now", run_at=now).state is State.QUEUED
        assert driver.enqueue("past", run_at=now - 5).state is State.QUEUED
        assert driver.get("later").run_at == now + 5


class FullStoreRules(StoreCase):
    """Rule 13: a full queue refuses jobs with an error, and can always be emptied."""

    def test_a_full_queue_refuses_and_stores_nothing_of_the_batch(
        self, driver: QueueDriver
    ) -> None:
        driver.configure(max_jobs=2)
        driver.enqueue("a")

        with pytest.raises(StoreFull):
            driver.enqueue_all(["b", "c"])

        assert driver.counts() == {State.QUEUED: 1}
        assert driver.state("b") is None

    def test_a_full_queue_still_recognises_duplicates(self, driver: QueueDriver) -> None:
        driver.configure(max_jobs=1)
        driver.enqueue("a")

        assert driver.enqueue("a") == Receipt("a", False, State.QUEUED)

    def test_duplicates_within_a_batch_count_once_against_the_limit(
        self, driver: QueueDriver
    ) -> None:
        driver.configure(max_jobs=1)

        assert [r.accepted for r in driver.enqueue_all(["a", "a"])] == [True, False]

    def test_replacing_a_terminal_job_counts_against_the_limit(self, driver: QueueDriver) -> None:
        driver.dead_letter("a")
        driver.configure(max_jobs=1)
        driver.enqueue("b")

        with pytest.raises(StoreFull):
            driver.enqueue("a")

        assert driver.state("a") is State.FAILED

    def test_a_full_queue_still_settles_cancels_and_purges(self, driver: QueueDriver) -> None:
        driver.configure(max_jobs=3)
        driver.enqueue_all(["a", "b", "c"])

        assert driver.complete(driver.claim_one()).applied
        assert driver.apply_one(cancel("b", policy_of(driver.get("b")))).applied
        assert driver.store.purge(driver.queue, Filter(ids=frozenset({"c"})), 10) == 1
        assert driver.enqueue("d").accepted

    def test_terminal_jobs_do_not_count_against_the_limit(self, driver: QueueDriver) -> None:
        driver.configure(max_jobs=1)
        for id in ("a", "b", "c"):
            driver.complete(driver.enqueue_and_claim(id))

        assert driver.counts() == {State.COMPLETED: 3}
