"""What is deleted: by retention, and on request."""

from __future__ import annotations

import pytest

from ackline.core.events import Act
from ackline.core.job import State
from ackline.core.lifecycle import Edit, Verdict, cancel, edit
from ackline.stores.contract import Filter
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import QueueDriver, policy_of

LONG = 20 * 365 * 86400.0


class PruneRules(StoreCase):
    """Prune: terminal jobs after their retention, and only those."""

    def test_a_terminal_job_is_pruned_after_its_retention(self, driver: QueueDriver) -> None:
        driver.complete(driver.enqueue_and_claim("a", result_ttl=60.0))
        driver.clock.advance(59.0)
        assert driver.store.prune(driver.queue, 100) == 0

        driver.clock.advance(1.0)

        assert driver.store.prune(driver.queue, 100) == 1
        assert driver.counts() == {}
        assert driver.steps("a")[-1] == (Act.PRUNE, State.COMPLETED, None)

    def test_each_terminal_state_is_pruned(self, driver: QueueDriver) -> None:
        driver.complete(driver.enqueue_and_claim("completed"))
        driver.dead_letter("failed")
        driver.enqueue("cancelled")
        driver.apply_one(cancel("cancelled", policy_of(driver.get("cancelled"))))
        driver.clock.advance(LONG)

        assert driver.store.prune(driver.queue, 100) == 3
        assert driver.counts() == {}

    def test_a_job_scheduled_beyond_retention_is_not_deleted(self, driver: QueueDriver) -> None:
        """Retention applies to jobs that have ended, however long others have to wait."""
        driver.enqueue("a", delay=9 * 365 * 86400.0)
        driver.clock.advance(8 * 365 * 86400.0)
        driver.store.prune(driver.queue, 100)
        assert driver.state("a") is State.SCHEDULED

        driver.clock.advance(365 * 86400.0)

        assert driver.claim_ids() == ["a"]

    def test_no_live_job_is_ever_pruned(self, driver: QueueDriver) -> None:
        """Rule 1, whatever its age."""
        driver.fail(driver.enqueue_and_claim("failing"))
        driver.enqueue_and_claim("processing")
        driver.enqueue("queued")
        driver.enqueue("scheduled", delay=1.0)
        driver.clock.advance(LONG)

        assert driver.store.prune(driver.queue, 100) == 0
        assert sum(driver.counts().values()) == 4

    def test_prune_is_bounded(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abc", result_ttl=0.0)
        for job in driver.claim_jobs(3):
            driver.complete(job)

        assert [driver.store.prune(driver.queue, 2) for _ in range(3)] == [2, 1, 0]

    def test_an_expired_job_is_not_visible_even_before_a_prune(self, driver: QueueDriver) -> None:
        """Rule 7: the TTL holds whether or not maintenance runs."""
        job = driver.enqueue_and_claim("a", result_ttl=5.0)
        driver.complete(job)
        driver.clock.advance(5.0)

        assert driver.find("a") is None
        assert driver.listed() == []
        assert driver.complete(job) == Verdict(False, None)
        assert driver.apply_one(edit("a", Edit(keep=100.0))) == Verdict(False, None)

    def test_prune_reaches_no_other_queue(self, driver: QueueDriver) -> None:
        other = driver.other_queue("other")
        other.complete(other.enqueue_and_claim("a"))
        driver.enqueue("b")
        driver.clock.advance(LONG)

        assert driver.store.prune(driver.queue, 100) == 0
        assert other.counts() == {State.COMPLETED: 1}

    def test_prune_of_an_unknown_queue_deletes_nothing(self, driver: QueueDriver) -> None:
        assert driver.store.prune(driver.queue, 100) == 0


class PurgeRules(StoreCase):
    """Purge: what matches, in this queue of this tenant, whatever its state."""

    def test_purge_reaches_only_this_queue_of_this_tenant(self, driver: QueueDriver) -> None:
        """Neither other queues nor other tenants are affected."""
        others = [driver.other_queue("other"), driver.other_queue("work", tenant="acme")]
        for each in (driver, *others):
            each.enqueue_all("ab")

        assert driver.store.purge(driver.queue, Filter(), 100) == 2

        assert driver.counts() == {}
        assert [other.counts() for other in others] == [{State.QUEUED: 2}] * 2

    def test_purge_deletes_every_state(self, driver: QueueDriver) -> None:
        driver.complete(driver.enqueue_and_claim("completed"))
        driver.dead_letter("failed")
        driver.fail(driver.enqueue_and_claim("failing"))
        running = driver.enqueue_and_claim("processing")
        driver.enqueue("queued")
        driver.enqueue("scheduled", delay=60.0)

        assert driver.store.purge(driver.queue, Filter(), 100, by="me") == 6

        assert driver.counts() == {}
        assert driver.complete(running) == Verdict(False, None)
        assert {(event.act, event.by) for event in driver.journal()[-6:]} == {(Act.PURGE, "me")}

    @pytest.mark.parametrize(
        ("which", "left"),
        [
            (Filter(states=frozenset({State.SCHEDULED})), "ab"),
            (Filter(kinds=frozenset({"image"})), "ac"),
            (Filter(ids=frozenset({"a", "c", "z"})), "b"),
            (Filter(text="needle"), "bc"),
            (Filter(states=frozenset()), "abc"),
        ],
    )
    def test_purge_deletes_only_what_matches(
        self, driver: QueueDriver, which: Filter, left: str
    ) -> None:
        driver.enqueue("a", payload=b'"a needle here"')
        driver.enqueue("b", kind="image")
        driver.enqueue("c", delay=60.0)

        driver.store.purge(driver.queue, which, 100)

        assert "".join(id for id in "abc" if driver.find(id)) == left

    def test_purge_is_bounded_and_repeated_until_nothing_is_left(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abcde")

        assert [driver.store.purge(driver.queue, Filter(), 2) for _ in range(4)] == [2, 2, 1, 0]

    def test_a_purged_job_is_never_claimed(self, driver: QueueDriver) -> None:
        driver.enqueue_all("ab")
        driver.store.purge(driver.queue, Filter(ids=frozenset("a")), 1)

        assert driver.claim_ids() == ["b"]

    def test_a_purged_scheduled_job_is_never_promoted(self, driver: QueueDriver) -> None:
        driver.enqueue("a", delay=1.0)
        driver.store.purge(driver.queue, Filter(), 1)
        driver.clock.advance(2.0)

        assert driver.store.promote(driver.queue, 10) == 0
        assert driver.claim_jobs() == []
