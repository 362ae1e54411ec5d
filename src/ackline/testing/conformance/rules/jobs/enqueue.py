"""Jobs into a store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from ackline.core.errors import StoreFull
from ackline.core.job import State
from ackline.core.lifecycle import Verdict, bury, cancel, redrive
from ackline.stores.contract import Filter, Receipt
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import QueueDriver, draft, failure, policy_of


class EnqueueRules(StoreCase):
    """What an enqueue returns, and what it stores."""

    def test_a_new_job_is_queued(self, bench: QueueDriver) -> None:
        """Rule 1: an answered enqueue is in the store."""
        receipt = bench.put("a", kind="mail", payload=b"[1]", priority=7)

        job = bench.get("a")
        assert receipt == Receipt("a", True, State.QUEUED)
        assert (job.kind, job.payload, job.priority) == ("mail", b"[1]", 7)
        assert (job.attempts, job.created_at) == (0, bench.clock.now())

    def test_all_options_of_a_job_come_back(self, bench: QueueDriver) -> None:
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

        bench.store.enqueue(bench.queue, [sent])

        assert bench.get("a").options == sent.options
        assert bench.take_one().options == sent.options

    def test_an_empty_batch_changes_nothing(self, bench: QueueDriver) -> None:
        assert bench.store.enqueue(bench.queue, []) == []
        assert bench.journal() == []

    def test_a_live_id_answers_its_state_and_keeps_its_payload(self, bench: QueueDriver) -> None:
        """Rule 6: an id that is alive is a duplicate."""
        bench.put("a", payload=b"old")

        receipt = bench.put("a", payload=b"new")

        assert receipt == Receipt("a", False, State.QUEUED)
        assert bench.get("a").payload == b"old"

    @pytest.mark.parametrize("state", [State.SCHEDULED, State.PROCESSING, State.FAILING])
    def test_every_live_state_is_a_duplicate(self, bench: QueueDriver, state: State) -> None:
        """Rule 6: also while it waits for its time, runs, or waits for its next attempt."""
        bench.put("a", delay=60.0 if state is State.SCHEDULED else 0.0)
        if state is not State.SCHEDULED:
            job = bench.take_one()
            if state is State.FAILING:
                bench.fail(job)

        assert bench.put("a") == Receipt("a", False, state)

    def test_a_completed_id_answers_the_cached_result(self, bench: QueueDriver) -> None:
        """Rule 6: the idempotency key returns the first run's result."""
        bench.complete(bench.taken("a"), b'"done"')

        receipt = bench.put("a")

        assert receipt == Receipt("a", False, State.COMPLETED, b'"done"')
        assert bench.take() == []

    def test_an_expired_result_is_as_if_it_never_was(self, bench: QueueDriver) -> None:
        """Rule 7: after its TTL a completed id can be enqueued anew."""
        bench.complete(bench.taken("a", result_ttl=5.0))
        bench.clock.advance(5.0)

        receipt = bench.put("a", payload=b"second")

        assert receipt == Receipt("a", True, State.QUEUED)
        assert bench.take_one().payload == b"second"
        assert bench.counts() == {State.PROCESSING: 1}

    def test_one_short_ttl_does_not_erase_other_results(self, bench: QueueDriver) -> None:
        """Rule 7: each result has its own TTL (the seed's library erased all results)."""
        bench.complete(bench.taken("short", result_ttl=1.0), b"1")
        bench.complete(bench.taken("long", result_ttl=100.0), b"2")
        bench.clock.advance(50.0)
        bench.store.prune(bench.queue, 100)

        assert bench.state("short") is None
        assert bench.put("long") == Receipt("long", False, State.COMPLETED, b"2")

    def test_a_failed_id_is_replaced(self, bench: QueueDriver) -> None:
        """Rule 6: a new job replaces the one in the DLQ, and has all its attempts."""
        bench.dead_letter("a", payload=b"old")

        receipt = bench.put("a", payload=b"new")

        job = bench.get("a")
        assert receipt == Receipt("a", True, State.QUEUED)
        assert (job.payload, job.attempts, job.history) == (b"new", 0, ())
        assert bench.counts() == {State.QUEUED: 1}

    @pytest.mark.parametrize("state", [State.FAILED, State.CANCELLED])
    def test_a_draft_replaces_no_kind_that_it_may_not(
        self, bench: QueueDriver, state: State
    ) -> None:
        """As a control, the same draft is accepted once it may replace the kind."""
        bench.put("a", kind="mail")
        if state is State.FAILED:
            bench.apply_one(bury(job := bench.take_one(), failure(job), policy_of(job)))
        else:
            bench.apply_one(cancel("a", policy_of(bench.get("a"))))
        before = bench.get("a")

        for kinds in (frozenset[str](), frozenset({"other"})):
            refused = bench.put("a", kind="other", surely_new=True, replaces=kinds)
            assert refused == Receipt("a", False, state)
        assert bench.get("a") == before
        assert bench.put("a", kind="other", replaces=frozenset({"other", "mail"})).accepted
        assert bench.get("a").kind == "other"

    def test_drafts_of_a_batch_may_replace_different_kinds(self, bench: QueueDriver) -> None:
        bench.dead_letter("a")
        bench.dead_letter("b")

        receipts = bench.store.enqueue(
            bench.queue,
            [
                draft("a", replaces=frozenset()),
                draft("b", replaces=frozenset({"mail"})),
                draft("c", replaces=frozenset()),
            ],
        )

        assert [receipt.accepted for receipt in receipts] == [False, True, True]
        assert bench.counts() == {State.FAILED: 1, State.QUEUED: 2}

    def test_drafts_of_one_id_may_replace_different_kinds(self, bench: QueueDriver) -> None:
        """Each receipt belongs to its own draft, not to the first draft of the id."""
        bench.dead_letter("a")
        bench.dead_letter("b")
        careful, free = frozenset[str](), None

        receipts = bench.store.enqueue(
            bench.queue,
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
        assert [bench.get(id).payload for id in "ab"] == [b"2", b"3"]

    def test_a_new_job_does_not_inherit_the_attempts_of_the_one_it_replaced(
        self, bench: QueueDriver
    ) -> None:
        """Rule 6: nothing of the old job comes back, not even with the next failure."""
        bench.dead_letter("a")

        job = bench.taken("a")
        bench.fail(job)

        assert [ended.token for ended in bench.get("a").history] == [job.token]

    def test_cancel_then_enqueue_runs_only_the_new_payload(self, bench: QueueDriver) -> None:
        """Rule 6: the seed's own library ran the old payload."""
        bench.put("a", payload=b"old")
        bench.apply_one(cancel("a", policy_of(bench.get("a"))))
        bench.put("a", payload=b"new")

        assert [job.payload for job in bench.take(10)] == [b"new"]

    def test_a_retry_never_collides_with_its_own_id(self, bench: QueueDriver) -> None:
        """Rule 6: after a failed attempt or a redrive, the job runs under the same id."""
        bench.fail(bench.taken("a", max_attempts=2), delay=0.0)
        bench.fail(bench.take_one())

        assert bench.apply_one(redrive("a")) == Verdict(True, State.QUEUED)
        assert bench.take_one().id == "a"

    def test_duplicates_within_a_batch_make_one_job(self, bench: QueueDriver) -> None:
        """Rule 6: the first draft wins."""
        drafts = [draft("a", payload=b"1"), draft("b"), draft("a", payload=b"2")]

        receipts = bench.store.enqueue(bench.queue, drafts)

        assert [receipt.accepted for receipt in receipts] == [True, True, False]
        assert receipts[2].state is State.QUEUED
        assert bench.get("a").payload == b"1"

    def test_receipts_come_in_the_order_of_the_drafts(self, bench: QueueDriver) -> None:
        bench.put("b")

        receipts = bench.put_all(["c", "b", "a"])

        assert [(receipt.id, receipt.accepted) for receipt in receipts] == [
            ("c", True),
            ("b", False),
            ("a", True),
        ]

    def test_a_wrong_hint_that_ids_are_new_costs_no_correctness(self, bench: QueueDriver) -> None:
        """Rule 6: a false negative of the dedup filter makes no second job."""
        bench.put("a", payload=b"old")
        drafts = [draft(id, surely_new=True) for id in ("b", "a", "b")]

        receipts = bench.store.enqueue(bench.queue, drafts)

        assert [receipt.accepted for receipt in receipts] == [True, False, False]
        assert bench.get("a").payload == b"old"

    def test_concurrent_enqueues_of_one_id_make_one_job(self, bench: QueueDriver) -> None:
        """Rule 6: N threads, one job."""
        with ThreadPoolExecutor(8) as threads:
            receipts = list(threads.map(lambda n: bench.put("a", payload=b"%d" % n), range(32)))

        assert sum(receipt.accepted for receipt in receipts) == 1
        assert bench.counts() == {State.QUEUED: 1}
        assert len(bench.steps("a")) == 1

    def test_a_delay_schedules(self, bench: QueueDriver) -> None:
        """Rule 9: a delay is added to the store's clock."""
        assert bench.put("a", delay=60.0) == Receipt("a", True, State.SCHEDULED)
        assert bench.get("a").run_at == bench.clock.now() + 60.0

    def test_run_at_schedules_and_a_past_one_queues(self, bench: QueueDriver) -> None:
        now = bench.clock.now()

        assert bench.put("later", run_at=now + 5).state is State.SCHEDULED
        assert bench.put("now", run_at=now).state is State.QUEUED
        assert bench.put("past", run_at=now - 5).state is State.QUEUED
        assert bench.get("later").run_at == now + 5


class FullStoreRules(StoreCase):
    """Rule 13: a full queue refuses clearly, and can always be emptied."""

    def test_a_full_queue_refuses_and_stores_nothing_of_the_batch(self, bench: QueueDriver) -> None:
        bench.configure(max_jobs=2)
        bench.put("a")

        with pytest.raises(StoreFull):
            bench.put_all(["b", "c"])

        assert bench.counts() == {State.QUEUED: 1}
        assert bench.state("b") is None

    def test_a_full_queue_still_answers_duplicates(self, bench: QueueDriver) -> None:
        bench.configure(max_jobs=1)
        bench.put("a")

        assert bench.put("a") == Receipt("a", False, State.QUEUED)

    def test_duplicates_within_a_batch_count_once_against_the_limit(
        self, bench: QueueDriver
    ) -> None:
        bench.configure(max_jobs=1)

        assert [r.accepted for r in bench.put_all(["a", "a"])] == [True, False]

    def test_replacing_a_terminal_job_counts_against_the_limit(self, bench: QueueDriver) -> None:
        bench.dead_letter("a")
        bench.configure(max_jobs=1)
        bench.put("b")

        with pytest.raises(StoreFull):
            bench.put("a")

        assert bench.state("a") is State.FAILED

    def test_a_full_queue_still_settles_cancels_and_purges(self, bench: QueueDriver) -> None:
        bench.configure(max_jobs=3)
        bench.put_all(["a", "b", "c"])

        assert bench.complete(bench.take_one()).applied
        assert bench.apply_one(cancel("b", policy_of(bench.get("b")))).applied
        assert bench.store.purge(bench.queue, Filter(ids=frozenset({"c"})), 10) == 1
        assert bench.put("d").accepted

    def test_terminal_jobs_take_no_room(self, bench: QueueDriver) -> None:
        bench.configure(max_jobs=1)
        for id in ("a", "b", "c"):
            bench.complete(bench.taken(id))

        assert bench.counts() == {State.COMPLETED: 3}
